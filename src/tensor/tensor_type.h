// The type of a tensor in a graph: its (parallel) shape and element type.
#pragma once

#include "base/hash.h"
#include "tensor/dtype.h"
#include "tensor/parallel_shape.h"

namespace tandem {

struct TensorType {
  ParallelShape shape;
  DType dtype = DType::kFp32;
  // Fraction of the elements that is stored. Only a few of all tokens reach an expert; the others'
  // rows are zero and cost nothing.
  double density = 1;

  bool operator==(const TensorType&) const = default;

  [[nodiscard]] Bytes whole_bytes() const {
    return density * static_cast<double>(shape.sizes.count()) * get_element_size(dtype);
  }
  // Returns the bytes of one shard.
  [[nodiscard]] Bytes shard_bytes() const {
    return density * static_cast<double>(shape.shard_shape().count()) * get_element_size(dtype);
  }
};

// Returns a hash that is the same on every machine and in every run.
Hash hash_type(const TensorType& type);

}  // namespace tandem
