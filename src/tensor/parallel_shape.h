// A parallel tensor's shape. Every dimension has a size and a degree (number of equal shards). In
// addition, `replicas` devices each hold the same value, and `partial` devices hold summands of it.
// A tensor of degrees d1..dn therefore lives on d1*...*dn*replicas*partial devices, one shard each.
// Its value is: concatenate over the degrees, sum (or take the maximum) over partial, take any one
// replica.
//
// Text form: "[64/2, 512]" (first dimension in halves), "[64, 512]*3" (3 replicas), "[64]+2" (2
// partial sums), "[64]^2" (2 partial maxima), "[64]*3+2".
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tensor/shape.h"

namespace tandem {

// Operation that combines partial values.
enum class Monoid : std::uint8_t { kSum, kMax };

struct ParallelShape {
  Shape sizes;
  Shape degrees;  // same rank; all 1 for an undivided tensor
  std::int64_t replicas = 1;
  std::int64_t partial = 1;
  Monoid monoid = Monoid::kSum;  // kSum if there are no partial values

  ParallelShape() = default;
  explicit ParallelShape(const Shape& global);
  ParallelShape(std::initializer_list<std::int64_t> global) : ParallelShape(Shape(global)) {}

  bool operator==(const ParallelShape&) const = default;

  [[nodiscard]] std::size_t rank() const { return sizes.rank(); }
  [[nodiscard]] bool is_undivided() const;
  [[nodiscard]] Shape shard_shape() const;
  // Returns the number of devices that hold a shard.
  [[nodiscard]] std::int64_t device_count() const { return degrees.count() * replicas * partial; }
};

// Returns the shape of the gradient: replicas and partial exchanged. A value that is replicated in
// the forward pass has a gradient that must be summed in the backward pass, and vice versa.
ParallelShape to_gradient_shape(const ParallelShape& shape);

std::string to_text(const ParallelShape& shape);
std::optional<ParallelShape> parse_parallel_shape(std::string_view text);

inline std::string attribute_text(const ParallelShape& shape) { return to_text(shape); }
inline bool parse_attribute(std::string_view text, ParallelShape& out) {
  const auto shape = parse_parallel_shape(text);
  if (shape) out = *shape;
  return shape.has_value();
}

}  // namespace tandem
