// Helpers that operator files share: names for the factors in index text, and checks that report
// what is wrong with one operator's attributes or operands.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "tensor/shape.h"

namespace tandem::ops {

using Names = std::vector<std::string>;

// Returns the names d0, d1, ... that `...` gives to `rank` dimensions.
Names make_dim_names(std::size_t rank);

// Returns the names of the `count` dimensions after the channels: {}, {w}, {h, w} or {d, h, w}.
Names make_space_names(std::size_t count);

// Returns the names of `own`'s dimensions, broadcast against `other` from the last dimension on, as
// in numpy. A dimension of size 1 that is stretched is read at index 0. [1, 4] with [2, 3, 4] ->
// {0, d2}.
Names broadcast_dims(const Shape& own, const Shape& other);

// Largest size, stride or offset that a user may write. Sums of a few such numbers do not overflow.
inline constexpr std::int64_t kLargestSize = std::int64_t{1} << 50U;

// Throws UserError without a location; the caller of the operator knows the node.
[[noreturn]] void reject(std::string message, std::string hint = "");

// Throws RankError (ops/rank_error.h): operands of these ranks do not fit, whatever their sizes.
[[noreturn]] void reject_ranks(std::string message, std::string hint = "");

// Throws RankError unless there are `least` to `most` inputs.
void check_inputs(std::span<const Shape> in, std::size_t least, std::size_t most);
// Throws RankError unless input number `input` has `least` to `most` dimensions.
void check_rank(std::span<const Shape> in, std::size_t input, std::size_t least, std::size_t most);
// Throws UserError unless `value` is in least..most: "group -1 is not in 0..4". The bounds may
// depend on the operands' sizes.
void check_range(std::string_view what, std::int64_t value, std::int64_t least, std::int64_t most);
// Throws RankError unless `value` is in least..most. The bounds depend only on the attributes.
void check_attribute(std::string_view what, std::int64_t value, std::int64_t least,
                     std::int64_t most);
void check_finite(std::string_view what, double value);
// Throws UserError unless `eps`, the epsilon of a normalisation, is finite and not negative.
void check_eps(double eps);

// Returns `axis` counted from the front; -1 is the last axis. Throws RankError if it is out of
// range.
std::size_t normalize_axis(std::int64_t axis, std::size_t rank);

}  // namespace tandem::ops
