// Kernels: the code that the runtime executes for an operator, forward and backward, on the shards
// of one device. The operator defines the meaning (src/ops), and ATen does the work. Gradients are
// explicit; there is no autograd. Each kernel is a row of the table in kernels.cc.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "ops/op.h"
#include "runtime/tensor.h"
#include "term/evaluate.h"

namespace tandem::runtime {

// Position of one operand's shard in the whole tensor.
struct Shard {
  Shape sizes;         // Sizes of the whole tensor
  Shape local;         // Sizes of the shard
  Shape offset;        // Global index of the first element
  double density = 1;  // Share of nonzero elements that the plan expects
  DType dtype = DType::kFp32;
};

struct Call {
  ops::Op op;
  // Shards of the operands. If an operand is read in windows, its shard is the part that they
  // cover, which depends on the result.
  std::vector<Shard> operands;
  // Shard of the result. If it has no sizes, it is all that the operands yield.
  Shard result = {};
  // Whether embedding_bag may return its table's gradient as an uncoalesced sparse tensor of the
  // rows read.
  bool row_sparse = false;
  term::Draw draw = {};  // For operators with random numbers
  // Values that forward saves so that backward need not recompute them; null if nobody needs them.
  std::vector<at::Tensor>* saved = nullptr;

  void save(std::vector<at::Tensor> values) const {
    if (saved != nullptr) *saved = std::move(values);
  }
  [[nodiscard]] bool has_saved() const { return saved != nullptr && !saved->empty(); }
};

struct BackwardInput {
  std::span<const at::Tensor> operands;  // Undefined if the gradient does not need the value
  at::Tensor result;    // Undefined unless saved for backward; see Kernel::uses_result
  at::Tensor gradient;  // Gradient of the result
  term::InputMask wanted = 0;
  // The weight (the operator's product_operand) from which the kernel subtracts `rate` times its
  // gradient. If it is defined, the gradient itself is not returned.
  at::Tensor weight = {};
  double rate = 0;
  // Whether the weight's gradient is wanted in fp32 though the operands are bf16.
  bool wide = false;

  [[nodiscard]] bool wants(std::size_t i) const { return ((wanted >> i) & 1U) != 0; }
};

// Gradients by operand; undefined if not wanted. They may share memory with each other and with the
// inputs.
using Gradients = std::vector<at::Tensor>;

struct Kernel {
  std::string_view name;
  at::Tensor (*forward)(const Call&, std::span<const at::Tensor>);
  Gradients (*backward)(const Call&, const BackwardInput&);
  // Returns whether the backward pass is cheaper with the result. (It never needs the result.)
  bool (*uses_result)(const ops::Op&) = [](const ops::Op&) { return false; };
  // Returns whether the kernel covers the attributes and operands of the call.
  bool (*covers)(const Call&) = [](const Call&) { return true; };
};

// Returns the kernel for the call: the operator's own, or kMeaningKernel if no kernel covers the
// call.
const Kernel& find_kernel(const Call& call);

// Kernels that have files of their own.
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
