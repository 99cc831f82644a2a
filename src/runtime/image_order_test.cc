// Tests which tensors move channels last, and that steps mean the same in either order of
// dimensions.
#include "runtime/image_order.h"

#include <gtest/gtest.h>

#include <map>

#include "graph/text.h"
#include "lower/lower.h"
#include "plan/random_choices_test_support.h"
#include "runtime/aten.h"

namespace tandem::runtime {
namespace {

// A 3 x 3 convolution and a 1 x 1 convolution; then matrices.
constexpr const char* kModel = R"(graph g
%x = input() shape=[4, 2, 4, 4]
%w1 = weight() shape=[6, 2, 3, 3]
%w2 = weight() shape=[8, 6, 1, 1]
%v = weight() shape=[4, 1, 128, 1]
%t = input() shape=[4, 8, 4, 4]
%a = conv2d(%x, %w1) padding=[1, 1]
%b = relu(%a)
%c = conv2d(%b, %w2)
%d = reshape(%c) shape=[4, 1, 128, 1]
%e = mul(%d, %v)
%f = reshape(%e) shape=[4, 8, 4, 4]
%loss = mse(%f, %t)
return %loss
)";

lower::Program program() {
  const auto model = graph::parse_graph(kModel);
  const auto digits = plan::make_digits({2});
  const std::map<std::string, std::string> words = {{"a", "b"}, {"b", "d0"}, {"c", "b"}};
  return lower::lower(plan::parallelize(model, digits, plan::named_choices(model, digits, words)),
                      digits, {}, plan::Optimizer::kSgd);
}

TEST(ImageOrder, CoversOperandsAndResultsOfConvolutions) {
  const auto p = program();
  const ImageOrder order(p);
  std::map<std::string, bool> is_image;
  for (std::size_t b = 0; b < p.buffers.size(); ++b) {
    const auto& name = p.pcg.node(p.buffers[b].node).name;
    const bool image = order.is_image(lower::BufferId(b));
    // A gradient has the order of its tensor.
    EXPECT_EQ(is_image.try_emplace(name, image).first->second, image) << name;
  }
  for (const char* name : {"a", "b", "c", "w1"}) EXPECT_TRUE(is_image.at(name)) << name;
  for (const char* name : {"x", "w2", "d", "e", "f", "v", "loss"}) {
    EXPECT_FALSE(is_image.at(name)) << name;
  }
}

TEST(ImageOrder, PermutesTheSameDimensionsInEveryStep) {
  const Shape sizes = {2, 3, 5, 7};
  EXPECT_EQ(to_channels_last(sizes), (Shape{2, 5, 7, 3}));
  const auto image = at::arange(2 * 3 * 5 * 7).view({2, 3, 5, 7});
  EXPECT_TRUE(at::equal(to_channels_second(to_channels_last(image)), image));
  for (std::size_t d = 0; d < sizes.rank(); ++d) {
    machine::ReshardStep step;
    step.from_dim = d;
    step.to_dim = d;
    step = to_channels_last(step);
    EXPECT_EQ(to_channels_last(sizes)[step.from_dim], sizes[d]);
    EXPECT_EQ(to_channels_last(sizes)[step.to_dim], sizes[d]);
  }
}

}  // namespace
}  // namespace tandem::runtime
