// Tests times of matmuls against tiles and waves counted by hand.
#include "predict/matmul.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "ops/attributes.h"
#include "ops/registry.h"
#include "predict/task_work.h"

namespace tandem::predict {
namespace {

constexpr FlopsPerSecond kPeak{100e12};

// Returns a device whose memory is so slow that splitting a matmul's depth never pays off.
machine::Device device(double units, double setup = 0, double softening = 0) {
  machine::Device d;
  d.peak = {{DType::kFp16, kPeak}};
  d.units = units;
  d.matmul_setup = setup;
  d.wave_softening = softening;
  d.bandwidth = BytesPerSecond{1};
  return d;
}

// Returns the time of one unit for a tile of this size, at `rate` of its peak.
double tile(double rows, double columns, double depth, double units, double rate) {
  return 2 * rows * columns * depth / (kPeak.value / units * rate);
}

double time(const machine::Device& d, const MatmulShape& p) {
  return matmul_time(d, p, kPeak).value;
}

TEST(MatmulTime, CountsWavesOfTiles) {
  const auto d = device(8);
  // Eight tiles of 256 x 128 in one wave: as fast as the peak.
  const MatmulShape full{.rows = 1024, .columns = 256, .depth = 512};
  EXPECT_NEAR(time(d, full), tile(256, 128, 512, 8, 1), 1e-15);
  EXPECT_NEAR(time(d, full), full.flops() / kPeak / Seconds{1}, 1e-15);
  // One more row makes ten tiles of 256 x 128, which take two waves, as do those of 128 x 128.
  // Tiles of 128 x 64 (36) take five waves of a quarter each, and tiles of 64 x 64 (68) nine of an
  // eighth.
  const MatmulShape more{.rows = 1025, .columns = 256, .depth = 512};
  EXPECT_NEAR(time(d, more),
              std::min({2 * tile(256, 128, 512, 8, 1), 3 * tile(128, 128, 512, 8, 0.95),
                        5 * tile(128, 64, 512, 8, 0.8), 9 * tile(64, 64, 512, 8, 0.62)}),
              1e-15);
}

TEST(MatmulTime, OrientsTilesEitherWay) {
  const auto d = device(4);
  const MatmulShape wide{.rows = 128, .columns = 1024, .depth = 64};
  const MatmulShape tall{.rows = 1024, .columns = 128, .depth = 64};
  EXPECT_EQ(time(d, wide), time(d, tall));
  EXPECT_NEAR(time(d, wide), tile(256, 128, 64, 4, 1), 1e-15);
}

TEST(MatmulTime, SharesWavesAcrossABatch) {
  const auto d = device(4);
  MatmulShape p{.rows = 256, .columns = 128, .depth = 64, .batch = 4};
  EXPECT_NEAR(time(d, p), tile(256, 128, 64, 4, 1), 1e-15);
  p.batch = 5;
  EXPECT_GT(time(d, p), tile(256, 128, 64, 4, 1));
}

TEST(MatmulTime, AddsSetupToTheDepth) {
  const MatmulShape p{.rows = 1024, .columns = 256, .depth = 512};
  EXPECT_NEAR(time(device(8, 128), p), 640.0 / 512 * time(device(8), p), 1e-15);
}

TEST(MatmulTime, SplitsADepthOverManyUnits) {
  auto d = device(16);
  const MatmulShape gradient{.rows = 64, .columns = 64, .depth = 1 << 20};
  const auto alone = time(d, gradient);
  EXPECT_NEAR(alone, tile(64, 64, 1 << 20, 16, 0.62), 1e-15);
  // Sixteen parts, whose sums are written and read: 8 bytes for each of 4096 elements.
  d.bandwidth = BytesPerSecond{1e12};
  EXPECT_NEAR(time(d, gradient), alone / 16 + 16 * 4096 * 8 / 1e12, 1e-15);
  // No part has a depth below 1024.
  const MatmulShape shallow{.rows = 64, .columns = 64, .depth = 2047};
  EXPECT_NEAR(time(d, shallow), tile(64, 64, 2047, 16, 0.62), 1e-15);
  // Each part waits for its first operands.
  auto slow = device(16, 32);
  slow.bandwidth = d.bandwidth;
  EXPECT_NEAR(time(slow, gradient), tile(64, 64, (1 << 16) + 32, 16, 0.62) + 16 * 4096 * 8 / 1e12,
              1e-15);
  // With seven tiles of the best size, no part gets a unit of its own.
  auto eight = device(8);
  eight.bandwidth = d.bandwidth;
  const MatmulShape wide{.rows = 256, .columns = 7 * 128, .depth = 1 << 20};
  EXPECT_NEAR(time(eight, wide), tile(256, 128, 1 << 20, 8, 1), 1e-15);
  // If memory is slow, splitting does not pay off.
  d.bandwidth = BytesPerSecond{1e6};
  EXPECT_NEAR(time(d, gradient), alone, 1e-15);
}

TEST(MatmulTime, SharesTheLastWaveWithSoftening) {
  // Nine tiles of 256 x 128 on eight units: two waves, or 9/8 of one.
  const MatmulShape p{.rows = 9 * 256, .columns = 128, .depth = 4096};
  const double wave = tile(256, 128, 4096, 8, 1);
  EXPECT_NEAR(time(device(8, 0, 1), p), 9.0 / 8 * wave, 1e-12);
  EXPECT_LE(time(device(8, 0, 0.75), p), (0.25 * 2 + 0.75 * 9 / 8) * wave * (1 + 1e-12));
  EXPECT_GT(time(device(8, 0, 0.75), p), 9.0 / 8 * wave);
}

TEST(MatmulTime, RespectsThePeakAndGrowsWithSize) {
  std::mt19937_64 random(4);
  const auto size = [&] { return static_cast<double>(1 + random() % 5000); };
  for (int trial = 0; trial < 2000; ++trial) {
    SCOPED_TRACE(trial);
    const auto d = device(108, 32, 0.5);
    const MatmulShape p{size(), size(), size(), static_cast<double>(1 + random() % 20)};
    EXPECT_GE(time(d, p), p.flops() / kPeak / Seconds{1});
    auto more = p;
    (trial % 3 == 0 ? more.rows : trial % 3 == 1 ? more.columns : more.depth) += 300;
    EXPECT_GE(time(d, more), time(d, p));
  }
}

TensorType make_type(std::initializer_list<std::int64_t> sizes) {
  return {ParallelShape(sizes), DType::kFp16};
}

void expect_matmul(const MatmulShape& p, double rows, double columns, double depth, double batch) {
  EXPECT_EQ(p.rows, rows);
  EXPECT_EQ(p.columns, columns);
  EXPECT_EQ(p.depth, depth);
  EXPECT_EQ(p.batch, batch);
}

TEST(MatmulShapes, FollowTheIndexText) {
  const auto forward = [](const ops::Op& op, const std::vector<TensorType>& in,
                          const TensorType& out) {
    const auto work = forward_work(op, in, out);
    EXPECT_EQ(work.matmul_count, 1);
    EXPECT_NEAR(work.matmuls[0].flops().value, work.flops.value, 0.01 * work.flops.value);
    return work.matmuls[0];
  };
  const auto linear = ops::make_op(ops::kLinear, ops::LinearAttributes{});
  expect_matmul(forward(linear, {make_type({4, 32, 64}), make_type({48, 64}), make_type({48})},
                        make_type({4, 32, 48})),
                4 * 32, 48, 64, 1);
  const auto scores =
      ops::make_op(ops::kContract, ops::Contract{"b (kv g) s d, b kv t d -> b (kv g) s t", 1});
  expect_matmul(forward(scores, {make_type({2, 8, 32, 64}), make_type({2, 4, 16, 64})},
                        make_type({2, 8, 32, 16})),
                2 * 32, 16, 64, 2 * 4);
  const auto conv = ops::make_op(ops::kConv2d, ops::Conv2d{.padding = {1, 1}});
  expect_matmul(forward(conv, {make_type({2, 16, 28, 28}), make_type({32, 16, 3, 3})},
                        make_type({2, 32, 28, 28})),
                2 * 28 * 28, 32, 16 * 9, 1);
}

TEST(MatmulShapes, CoverOneTask) {
  auto x = make_type({64, 512});
  x.shape.degrees = Shape{4, 2};
  auto w = make_type({1024, 512});
  w.shape.degrees = Shape{8, 2};
  x.shape.replicas = 8;
  w.shape.replicas = 4;
  auto y = make_type({64, 1024});
  y.shape.degrees = Shape{4, 8};
  y.shape.partial = 2;
  const auto work =
      forward_work(ops::make_op(ops::kLinear, ops::LinearAttributes{}), std::vector{x, w}, y);
  expect_matmul(work.matmuls[0], 16, 128, 256, 1);
}

// Alignment matters for the rows of an LM head and of its result, not for the number of rows.
TEST(MatmulShapes, FlagUnalignedRows) {
  const auto op = ops::make_op(ops::kLinear, ops::LinearAttributes{});
  auto d = device(8);
  d.unaligned = 0.5;
  const auto expect = [&](std::int64_t hidden, std::int64_t words, bool aligned) {
    const std::vector<TensorType> in = {make_type({33, hidden}), make_type({words, hidden})};
    const auto forward = forward_work(op, in, make_type({33, words})).matmuls[0];
    const auto backward = backward_work(op, in, make_type({33, words}), 0b11).matmuls;
    for (const auto& p : {forward, backward[0], backward[1]}) {
      EXPECT_EQ(p.aligned, aligned) << hidden << " " << words;
      EXPECT_NEAR(time(d, p), (aligned ? 1 : 2) * time(device(8), p), 1e-15);
    }
  };
  expect(64, 48, true);
  expect(64, 49, false);
  expect(60, 48, false);
}

TEST(MatmulShapes, IncludeGradients) {
  const std::vector<TensorType> in = {make_type({32, 64}), make_type({48, 64})};
  const auto op = ops::make_op(ops::kLinear, ops::LinearAttributes{});
  const auto both = backward_work(op, in, make_type({32, 48}), 0b11);
  ASSERT_EQ(both.matmul_count, 2);
  expect_matmul(both.matmuls[0], 32, 64, 48, 1);
  expect_matmul(both.matmuls[1], 48, 64, 32, 1);
  const auto weight = backward_work(op, in, make_type({32, 48}), 0b10);
  ASSERT_EQ(weight.matmul_count, 1);
  expect_matmul(weight.matmuls[0], 48, 64, 32, 1);
  auto d = device(8);
  d.bandwidth = BytesPerSecond{1e30};
  EXPECT_EQ(task_time(d, both, DType::kFp16),
            matmul_time(d, both.matmuls[0], kPeak) + matmul_time(d, both.matmuls[1], kPeak));
  EXPECT_EQ(count_launches(d, both), 2);
  EXPECT_EQ(count_launches(machine::Device{}, both), 1);  // tiles do not matter: one task
}

// A sum over a factor that both operands share is not a matmul.
TEST(MatmulShapes, ExcludeOtherSums) {
  const auto loss = ops::make_op(ops::kCrossEntropy, ops::NoAttributes{});
  TensorType target{ParallelShape({32}), DType::kInt64};
  EXPECT_EQ(
      forward_work(loss, std::vector{make_type({32, 100}), target}, make_type({})).matmul_count, 0);
}

}  // namespace
}  // namespace tandem::predict
