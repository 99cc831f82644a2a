// What a tensor of a graph is: its (parallel) shape and element type.
#pragma once

#include "base/hash.h"
#include "tensor/dtype.h"
#include "tensor/parallel_shape.h"

namespace tandem {

struct TensorType {
  ParallelShape shape;
  DType dtype = DType::kFp32;
  // The part of the elements that is stored: the tokens that reach an expert are few of all, the
  // others' rows are zero and cost nothing.
  double density = 1;

  bool operator==(const TensorType&) const = default;

  [[nodiscard]] Bytes whole_bytes() const {
    return density * static_cast<double>(shape.sizes.count()) * size_of(dtype);
  }
  // Bytes of one shard.
  [[nodiscard]] Bytes shard_bytes() const {
    return density * static_cast<double>(shape.shard().count()) * size_of(dtype);
  }
};

// The same on every machine and in every run.
Hash type_hash(const TensorType& type);

}  // namespace tandem
