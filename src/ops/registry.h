// All operators, in alphabetical order. A new one is a file in this folder and a line in
// registry.cc and here.
#pragma once

#include <span>
#include <string_view>

#include "ops/op.h"

namespace tandem::ops {

std::span<const OpSpec* const> all_ops();

// Throws UserError naming the nearest operator when there is none of that name.
const OpSpec& find_op(std::string_view name);

extern const OpSpec kAdd;
extern const OpSpec kCombine;
extern const OpSpec kConcat;
extern const OpSpec kContract;
extern const OpSpec kEmbeddingBag;
extern const OpSpec kInput;
extern const OpSpec kLayerNorm;
extern const OpSpec kLinear;
extern const OpSpec kMatMul;
extern const OpSpec kMse;
extern const OpSpec kPartition;
extern const OpSpec kReduce;
extern const OpSpec kRelu;
extern const OpSpec kReplicate;
extern const OpSpec kSoftmax;
extern const OpSpec kUnreplicate;
extern const OpSpec kWeight;

}  // namespace tandem::ops
