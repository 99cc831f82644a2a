#include "tensor/parallel_shape.h"

#include <gtest/gtest.h>

#include "tensor/dense.h"
#include "tensor/tensor_type.h"

namespace tandem {
namespace {

ParallelShape shape(std::string_view text) {
  const auto parsed = parse_parallel_shape(text);
  EXPECT_TRUE(parsed.has_value()) << text;
  return parsed.value_or(ParallelShape{});
}

TEST(ParallelShape, RoundTripsText) {
  for (const auto* text : {"[]", "[64]", "[64/2, 512]", "[64, 512]*3", "[64]+2", "[64]*3+2", "[]+4",
                           "[6/6, 4/2, 1]*2+3", "[1, 2, 3, 4, 5, 6, 7, 8]"}) {
    EXPECT_EQ(to_text(shape(text)), text);
  }
}

TEST(ParallelShape, ParsesFields) {
  const auto s = shape("[64/2,512/1]*3+5");
  EXPECT_EQ(s.sizes, (Shape{64, 512}));
  EXPECT_EQ(s.degrees, (Shape{2, 1}));
  EXPECT_EQ(s.replicas, 3);
  EXPECT_EQ(s.partial, 5);
  EXPECT_EQ(s.device_count(), 30);
  EXPECT_FALSE(s.is_undivided());
  EXPECT_TRUE(shape("[64, 512]*1+1").is_undivided());
}

TEST(ParallelShape, RefusesBadText) {
  for (const auto* text : {"",
                           "64",
                           "[64",
                           "64]",
                           "[64]2",
                           "[0]",
                           "[-4]",
                           "[4/0]",
                           "[4/-2]",
                           "[4,]",
                           "[,]",
                           "[4 4]",
                           "[a]",
                           "[4/]",
                           "[/2]",
                           "[4]*",
                           "[4]*0",
                           "[4]+x",
                           "[4]+2*3",
                           "[4]*2+",
                           "[4]*2*2",
                           "[4] *2",
                           " [4]",
                           "[4] ",
                           "[1, 2, 3, 4, 5, 6, 7, 8, 9]",
                           "[9223372036854775808]",
                           "[4]*9223372036854775808"}) {
    EXPECT_FALSE(parse_parallel_shape(text).has_value()) << text;
  }
}

TEST(ParallelShape, SwapsReplicasAndPartialSumsInTheDual) {
  struct Case {
    std::string_view shape, dual;
  };
  for (const auto& c : {Case{"[8/2, 3]", "[8/2, 3]"}, Case{"[8]*2", "[8]+2"},
                        Case{"[8]+2", "[8]*2"}, Case{"[8/4]*3+2", "[8/4]*2+3"}}) {
    EXPECT_EQ(to_text(to_gradient_shape(shape(c.shape))), c.dual);
    EXPECT_EQ(to_gradient_shape(to_gradient_shape(shape(c.shape))), shape(c.shape));
  }
}

TEST(ParallelShape, ComputesShardAndDevices) {
  struct Case {
    std::string_view shape;
    Shape shard;
    std::int64_t devices;
  };
  for (const auto& c : {Case{"[]*3", {}, 3}, Case{"[12/3, 5]", {4, 5}, 3},
                        Case{"[12/3, 10/2]*2+2", {4, 5}, 24}, Case{"[6/6]", {1}, 6}}) {
    EXPECT_EQ(shape(c.shape).shard_shape(), c.shard) << c.shape;
    EXPECT_EQ(shape(c.shape).device_count(), c.devices) << c.shape;
  }
}

TEST(ParallelShape, ComputesShardBytes) {
  EXPECT_EQ((TensorType{shape("[12/3, 10/2]*2"), DType::kBf16}.shard_bytes()), Bytes{40});
  EXPECT_EQ((TensorType{shape("[]"), DType::kFp64}.shard_bytes()), Bytes{8});
}

TEST(Shape, CountsElements) {
  EXPECT_EQ(Shape{}.count(), 1);
  EXPECT_EQ((Shape{3, 4}).count(), 12);
  EXPECT_EQ(to_text(Shape{}), "[]");
  EXPECT_EQ(to_text(Shape{3, 4}), "[3, 4]");
  EXPECT_NE((Shape{3, 4}), (Shape{3, 4, 1}));
}

TEST(Dense, EnumeratesIndicesInRowMajorOrder) {
  std::vector<std::string> seen;
  std::int64_t flat = 0;
  for_each_index(Shape{2, 3}, [&](const Shape& index) {
    seen.push_back(to_text(index));
    EXPECT_EQ(compute_flat_index(Shape{2, 3}, index), flat++);
  });
  EXPECT_EQ(seen,
            (std::vector<std::string>{"[0, 0]", "[0, 1]", "[0, 2]", "[1, 0]", "[1, 1]", "[1, 2]"}));
  int scalars = 0;
  for_each_index(Shape{}, [&](const Shape&) { ++scalars; });
  EXPECT_EQ(scalars, 1);
  for_each_index(Shape{2, 0}, [](const Shape&) { FAIL() << "an empty shape has no index"; });
}

}  // namespace
}  // namespace tandem
