// All operators, in alphabetical order. A new operator needs a file in this directory, a
// declaration here and an entry in registry.cc.
#pragma once

#include <span>
#include <string_view>

#include "ops/op.h"

namespace tandem::ops {

std::span<const OpSpec* const> all_ops();

// Returns the operator called `name`. Throws UserError if there is none and suggests the nearest
// name.
const OpSpec& find_op(std::string_view name);

extern const OpSpec kAbs;
extern const OpSpec kAdd;
extern const OpSpec kAppend;
extern const OpSpec kAttention;
extern const OpSpec kAvgPool2d;
extern const OpSpec kBatchMatMul;
extern const OpSpec kBatchMoments;
extern const OpSpec kBatchNorm;
extern const OpSpec kBatchNormalize;
extern const OpSpec kCast;
extern const OpSpec kClip;
extern const OpSpec kCombine;
extern const OpSpec kConcat;
extern const OpSpec kConstant;
extern const OpSpec kContract;
extern const OpSpec kConv2d;
extern const OpSpec kCos;
extern const OpSpec kCrossEntropy;
extern const OpSpec kDiv;
extern const OpSpec kDropout;
extern const OpSpec kEmbedding;
extern const OpSpec kEmbeddingBag;
extern const OpSpec kEmbeddingBags;
extern const OpSpec kErf;
extern const OpSpec kExp;
extern const OpSpec kExpand;
extern const OpSpec kFlatten;
extern const OpSpec kGelu;
extern const OpSpec kGeluTanh;
extern const OpSpec kGlobalAvgPool;
extern const OpSpec kGroupNorm;
extern const OpSpec kHardSigmoid;
extern const OpSpec kHardSwish;
extern const OpSpec kIdentity;
extern const OpSpec kInput;
extern const OpSpec kInteraction;
extern const OpSpec kJoin;
extern const OpSpec kLayerNorm;
extern const OpSpec kLeakyRelu;
extern const OpSpec kLinear;
extern const OpSpec kLog;
extern const OpSpec kLogSoftmax;
extern const OpSpec kLrn;
extern const OpSpec kMatMul;
extern const OpSpec kMax;
extern const OpSpec kMaxPool2d;
extern const OpSpec kMin;
extern const OpSpec kMoeCombine;
extern const OpSpec kMoeDispatch;
extern const OpSpec kMse;
extern const OpSpec kMul;
extern const OpSpec kNeg;
extern const OpSpec kPad;
extern const OpSpec kPartition;
extern const OpSpec kPick;
extern const OpSpec kPow;
extern const OpSpec kPrelu;
extern const OpSpec kReciprocal;
extern const OpSpec kReduce;
extern const OpSpec kReduceMax;
extern const OpSpec kReduceMean;
extern const OpSpec kReduceSum;
extern const OpSpec kRelu;
extern const OpSpec kReplicate;
extern const OpSpec kReshape;
extern const OpSpec kRmsNorm;
extern const OpSpec kRope;
extern const OpSpec kRowMax;
extern const OpSpec kRsqrt;
extern const OpSpec kScale;
extern const OpSpec kSend;
extern const OpSpec kSigmoid;
extern const OpSpec kSilu;
extern const OpSpec kSin;
extern const OpSpec kSlice;
extern const OpSpec kSoftmax;
extern const OpSpec kSoftplus;
extern const OpSpec kSplit;
extern const OpSpec kSqrt;
extern const OpSpec kSquare;
extern const OpSpec kSub;
extern const OpSpec kTanh;
extern const OpSpec kTopKGate;
extern const OpSpec kTranspose;
extern const OpSpec kUnreplicate;
extern const OpSpec kWeight;
extern const OpSpec kWhere;

}  // namespace tandem::ops
