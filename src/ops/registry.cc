#include "ops/registry.h"

#include <array>

#include "ops/micro_batches.h"

namespace tandem::ops {

std::span<const OpSpec* const> all_ops() {
  // clang-format would spread this list over many lines.
  // clang-format off
  static constexpr std::array kAll = {
&kAbs, &kAdd, &kAppend, &kAttention, &kAvgPool2d, &kBatch, &kBatchMatMul, &kBatchMoments, &kBatchNorm, &kBatchNormalize, &kCast, &kClip, &kCombine, &kConcat, &kConstant, &kContract, &kConv2d, &kCos, &kCrossEntropy, &kDiv, &kDropout, &kEmbedding, &kEmbeddingBag, &kEmbeddingBags, &kErf, &kExp, &kExpand, &kFlatten, &kGelu, &kGeluTanh, &kGlobalAvgPool, &kGroupNorm, &kHardSigmoid, &kHardSwish, &kIdentity, &kInput, &kInteraction, &kJoin, &kLayerNorm, &kLeakyRelu, &kLinear, &kLog, &kLogSoftmax, &kLrn, &kMatMul, &kMax, &kMaxPool2d, &kMin, &kMoeCombine, &kMoeDispatch, &kMse, &kMul, &kNeg, &kPad, &kPartition, &kPick, &kPipeline, &kPow, &kPrelu, &kReciprocal, &kReduce, &kReduceMax, &kReduceMean, &kReduceSum, &kRelu, &kReplicate, &kReshape, &kRmsNorm, &kRope, &kRowMax, &kRsqrt, &kScale, &kSend, &kSigmoid, &kSilu, &kSin, &kSlice, &kSoftmax, &kSoftplus, &kSplit, &kSqrt, &kSquare, &kSub, &kTanh, &kTopKGate, &kTranspose, &kUnreplicate, &kWeight, &kWhere,
  };
  return kAll;
}

const OpSpec& find_op(std::string_view name) {
  for (const auto* spec : all_ops()) {
    if (spec->name == name) return *spec;
  }
  std::vector<std::string> names;
  for (const auto* spec : all_ops()) names.push_back(spec->name);
  const auto near = find_nearest(name, names);
  throw UserError(
      "graph", "", fmt::format("unknown operator '{}'", name),
      near.empty() ? "`tandem ops` lists the operators" : fmt::format("did you mean '{}'?", near));
}

}  // namespace tandem::ops
