#include "term/result_sizes.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/error.h"
#include "term/index_map.h"

namespace tandem::term {
namespace {

// Returns shapes of up to three dimensions; some of their sizes divide others.
std::vector<Shape> small_shapes() {
  std::vector<Shape> out = {{}};
  for (std::size_t begin = 0, rank = 0; rank < 3; ++rank) {
    const auto end = out.size();
    for (std::size_t i = begin; i < end; ++i) {
      for (std::int64_t size : {1, 2, 3, 6}) {
        auto longer = out[i];
        longer.push_back(size);
        out.push_back(longer);
      }
    }
    begin = end;
  }
  return out;
}

std::optional<Shape> resolve_sizes(std::string_view text, std::span<const Shape> inputs) {
  try {
    return to_shape(resolve_index(text, inputs).output);
  } catch (const UserError&) {
    return std::nullopt;
  }
}

// Compares with resolve_index on all small operands.
TEST(ResultSizes, EqualThoseOfResolvedText) {
  const std::string_view one[] = {
      "a b -> b a",
      "... !c -> ... !c",
      "... c -> c ...",
      "a (b:2 c) -> (a b) c",
      "(a:2 b) (b c) -> a b c",
      "(a b:3) -> b",
      "a c+0 -> a c:8",
      "b 2y+r-1 -> b y:3 | r:2",
      "0 a -> a 0",
      "a a -> a",
      "a -> a b:2 | b:3",
      "... -> ... 0",
      "(a) b -> b",
      "a, b -> a b",
      " -> ",
      "2y:3+r-1 y -> y",
  };
  const std::string_view two[] = {
      "... k, n k -> ... n", "a b, b c -> a c",
      "..., ... -> ...",     "a c-0, a c-3 -> a c:7",
      "b (g c), g c -> b g", "... !h, h -> ... !h",
      "y+z, y z -> y z",     "(a b) c, a -> (b c) a",
      "a:2 b, b -> a",       "a -> a",
  };
  const auto shapes = small_shapes();
  for (auto text : one) {
    for (const auto& shape : shapes) {
      EXPECT_EQ(compute_result_sizes(text, {&shape, 1}), resolve_sizes(text, {&shape, 1}))
          << text << " of " << to_text(shape);
    }
  }
  std::size_t fit = 0;
  for (auto text : two) {
    for (const auto& a : shapes) {
      for (const auto& b : shapes) {
        const Shape inputs[] = {a, b};
        const auto found = compute_result_sizes(text, inputs);
        fit += found ? 1 : 0;
        ASSERT_EQ(found, resolve_sizes(text, inputs))
            << text << " of " << to_text(a) << " and " << to_text(b);
      }
    }
  }
  EXPECT_GT(fit, 500U);  // out of 65,000 pairs and texts
}

TEST(ResultSizes, RefuseTooManyDimensions) {
  const Shape eight = {1, 1, 1, 1, 1, 1, 1, 1};
  EXPECT_EQ(compute_result_sizes("... -> ... 0", {&eight, 1}), std::nullopt);
  EXPECT_EQ(compute_result_sizes("a -> ... a", {&eight, 1}), std::nullopt);
}

}  // namespace
}  // namespace tandem::term
