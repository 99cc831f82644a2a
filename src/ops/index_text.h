// What operator files share: names for the factors they write into index text, and the checks that
// tell a user what is wrong with the attributes or operands of one operator.
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

// d0 d1 ...: as `...` names them.
Names dim_names(std::size_t rank);

// Names of a convolution's dimensions after the channels: {}, w, h w, d h w.
Names space_names(std::size_t count);

// The dimensions of one operand of two, matched from the last on as in numpy: named like the
// result's, but read at 0 where its size of 1 is stretched. [1, 4] beside [2, 3, 4]: {0, d2}.
Names broadcast_dims(const Shape& own, const Shape& other);

// No size, stride or offset that a user writes is larger; so sums of a few do not overflow.
inline constexpr std::int64_t kLargestSize = std::int64_t{1} << 50U;

// Throws UserError without a place: the caller of the operator knows the node.
[[noreturn]] void reject(std::string message, std::string hint = "");

// The same where no sizes of operands of these ranks would fit: RankError (ops/rank_error.h).
[[noreturn]] void reject_ranks(std::string message, std::string hint = "");

void check_inputs(std::span<const Shape> in, std::size_t least, std::size_t most);
void check_rank(std::span<const Shape> in, std::size_t input, std::size_t least, std::size_t most);
// "group -1 is not in 0..4", which may be because of the operands' sizes.
void check_between(std::string_view what, std::int64_t value, std::int64_t least,
                   std::int64_t most);
// The same of what the attributes alone say.
void check_attribute(std::string_view what, std::int64_t value, std::int64_t least,
                     std::int64_t most);
void check_finite(std::string_view what, double value);
// The epsilon of a normalisation.
void check_eps(double eps);

// Counted from the front; -1 is the last.
std::size_t checked_axis(std::int64_t axis, std::size_t rank);

}  // namespace tandem::ops
