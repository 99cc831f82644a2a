// Kernels: what the runtime executes for an operator, forward and backward, on the shards of one
// device. The meaning is the operator's own (src/ops), the work is ATen's; gradients are explicit,
// there is no autograd. A kernel is a row of the table in kernels.cc.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "ops/op.h"
#include "runtime/tensor.h"
#include "term/evaluate.h"

namespace tandem::runtime {

// Where one operand's shard lies in the whole tensor.
struct Shard {
  Shape sizes;         // global
  Shape local;         // here
  Shape offset;        // of the first element
  double density = 1;  // what part of it is not zero, as the plan expects
  DType dtype = DType::kFp32;
};

struct Call {
  ops::Op op;
  // Of one that is read in windows, the window; what lies in them depends on the result's place.
  std::vector<Shard> operands;
  // As above; without `sizes` all of what the operands make.
  Shard result = {};
  // May embedding_bag give its table's gradient as a sparse tensor, not coalesced, of the rows
  // read?
  bool row_sparse = false;
  term::Draw draw = {};  // for operators with random numbers
  // Where forward may leave what backward would else compute again; null where nobody asks for it.
  std::vector<at::Tensor>* kept = nullptr;

  void keep(std::vector<at::Tensor> values) const {
    if (kept != nullptr) *kept = std::move(values);
  }
  [[nodiscard]] bool has_kept() const { return kept != nullptr && !kept->empty(); }
};

struct BackwardInput {
  std::span<const at::Tensor> operands;  // undefined where the meaning does not need the value
  at::Tensor result;                     // undefined unless it was kept; see Kernel::uses_result
  at::Tensor gradient;                   // of the result
  term::InputMask wanted = 0;
  // Of the operator's product_operand, where its gradient is not given but, times the rate,
  // subtracted from it.
  at::Tensor weight = {};
  double rate = 0;
  // Is the weight's gradient wanted in fp32, though operands are in 16 bits?
  bool wide = false;

  [[nodiscard]] bool wants(std::size_t i) const { return ((wanted >> i) & 1U) != 0; }
};

// By operand; undefined where not wanted. May share memory with each other and with the inputs.
using Gradients = std::vector<at::Tensor>;

struct Kernel {
  std::string_view name;
  at::Tensor (*forward)(const Call&, std::span<const at::Tensor>);
  Gradients (*backward)(const Call&, const BackwardInput&);
  // Is the backward pass cheaper if it is given the result? (It never needs it.)
  bool (*uses_result)(const ops::Op&) = [](const ops::Op&) { return false; };
  // Does it cover these attributes and operands?
  bool (*covers)(const Call&) = [](const Call&) { return true; };
};

// The kernel for the call: the operator's own, or kMeaningKernel where there is none that covers
// it.
const Kernel& find_kernel(const Call& call);

// The families that have files of their own.
extern const Kernel kAttentionKernel;
extern const Kernel kAvgPool2dKernel;
extern const Kernel kBatchMomentsKernel;
extern const Kernel kBatchNormKernel;
extern const Kernel kBatchNormalizeKernel;
extern const Kernel kCastKernel;
extern const Kernel kContractKernel;
extern const Kernel kConv2dKernel;
extern const Kernel kCrossEntropyKernel;
extern const Kernel kDivKernel;
extern const Kernel kDropoutKernel;
extern const Kernel kEmbeddingKernel;
extern const Kernel kEmbeddingBagKernel;
extern const Kernel kEmbeddingBagsKernel;
extern const Kernel kExpKernel;
extern const Kernel kGeluKernel;
extern const Kernel kGeluTanhKernel;
extern const Kernel kGlobalAvgPoolKernel;
extern const Kernel kIdentityKernel;
extern const Kernel kInteractionKernel;
extern const Kernel kLogKernel;
extern const Kernel kLogSoftmaxKernel;
extern const Kernel kMaxPool2dKernel;
extern const Kernel kMoeCombineKernel;
extern const Kernel kMoeDispatchKernel;
extern const Kernel kNegKernel;
extern const Kernel kPadKernel;
extern const Kernel kPickKernel;
extern const Kernel kReciprocalKernel;
extern const Kernel kReduceMeanKernel;
extern const Kernel kReduceSumKernel;
extern const Kernel kReluKernel;
extern const Kernel kReshapeKernel;
extern const Kernel kRmsNormKernel;
extern const Kernel kRopeKernel;
extern const Kernel kRowMaxKernel;
extern const Kernel kRsqrtKernel;
extern const Kernel kScaleKernel;
extern const Kernel kSigmoidKernel;
extern const Kernel kSiluKernel;
extern const Kernel kSliceKernel;
extern const Kernel kSplitKernel;
extern const Kernel kSqrtKernel;
extern const Kernel kSquareKernel;
extern const Kernel kSubKernel;
extern const Kernel kTanhKernel;
extern const Kernel kTopKGateKernel;
extern const Kernel kTransposeKernel;
extern const Kernel kMeaningKernel;

}  // namespace tandem::runtime
