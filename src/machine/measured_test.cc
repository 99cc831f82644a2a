#include "machine/measured.h"

#include <cmath>

#include "machine/parse_test_support.h"
#include "ops/attributes.h"
#include "ops/registry.h"

namespace tandem::machine {
namespace {

std::string with_line(const std::string& line) {
  return "machine toy\ndevice core\n  memory 1 GB\n  bandwidth 1 GB/s\n  peak fp32 1 GFLOP/s\n  " +
         line + "\nlevel process 2\n  bandwidth 1 GB/s\n  latency 1 us\n";
}

Device parse_device(const std::string& line) {
  return parse_machine(with_line(line), "toy.machine").device;
}

MeasuredTime linear(std::int64_t rows, double time, double modelled) {
  return {.kind = {"backward:3", DType::kFp32, "linear", "act=relu"},
          .shapes = {{rows, 8}, {4, 8}, {rows, 4}},
          .time = Seconds{time},
          .modelled = Seconds{modelled}};
}

TEST(Measured, RoundTripsALine) {
  const auto line = "measured 812 us of 640 us backward:3 fp32 64x8,4x8,- conv2d stride=[2, 2]";
  MeasuredTime expected{.kind = {"backward:3", DType::kFp32, "conv2d", "stride=[2, 2]"},
                        .shapes = {{64, 8}, {4, 8}, {}},
                        .time = Seconds{812e-6},
                        .modelled = Seconds{640e-6}};
  EXPECT_EQ("measured " + to_text(expected), line);
  const auto& measured = parse_device(line).measured;
  EXPECT_TRUE(measured.has(expected.kind.hash(), expected.make_shapes_key()));
  expected.shapes[0] = {32, 8};
  EXPECT_FALSE(measured.has(expected.kind.hash(), expected.make_shapes_key()));
}

TEST(Measured, DistinguishesOperatorsByTextAndPass) {
  const auto op = ops::make_op(ops::kLinear, ops::LinearAttributes{ops::Activation::kRelu});
  EXPECT_EQ(linear(1, 1, 1).kind.hash(), hash_kind(hash_pass(true, 3), DType::kFp32, op.hash()));
  EXPECT_NE(linear(1, 1, 1).kind.hash(), hash_kind(hash_pass(true, 1), DType::kFp32, op.hash()));
  EXPECT_NE(linear(1, 1, 1).kind.hash(), hash_kind(hash_pass(true, 3), DType::kFp64, op.hash()));
  EXPECT_NE(linear(1, 1, 1).kind.hash(), hash_kind(hash_pass(false, 0), DType::kFp32, op.hash()));
}

// Returns an update of `elements` elements; its size alone distinguishes it from other tasks.
MeasuredTime update(double elements, double time, double modelled) {
  return {.kind = {"update", DType::kFp32, "sgd", ""},
          .shapes = {{static_cast<std::int64_t>(elements)}},
          .time = Seconds{time},
          .modelled = Seconds{modelled}};
}

double predict_time(const MeasuredTimes& times, double elements, double modelled) {
  const auto shapes = update(elements, 0, 0).make_shapes_key();
  return times.estimate_time(update(0, 0, 0).kind.hash(), shapes, Seconds{modelled}).value;
}

TEST(Measured, WeightsTheNearestRatiosMost) {
  MeasuredTimes times;
  times.add(update(1000, 1.5, 1));  // 1.5 times as long as modelled
  times.add(update(4000, 24, 4));   // 6 times
  EXPECT_DOUBLE_EQ(predict_time(times, 4000, 4), 24);
  EXPECT_DOUBLE_EQ(predict_time(times, 4000, 8), 24);  // the measured time itself
  EXPECT_NEAR(predict_time(times, 2000, 2), 6, 1e-9);  // in the middle: 3 times
  EXPECT_NEAR(predict_time(times, 4001, 4) / 4, 6, 0.01);
  EXPECT_NEAR(predict_time(times, 999, 1), 1.5, 0.01);
  EXPECT_GT(predict_time(times, 1500, 1.5) / 1.5, 1.5);
  EXPECT_LT(predict_time(times, 1500, 1.5) / 1.5, 3);
  const auto other = linear(1, 1, 1);
  EXPECT_DOUBLE_EQ(
      times.estimate_time(other.kind.hash(), other.make_shapes_key(), Seconds{8}).value, 8);
}

// Two tasks take equally long, so the time per element decides which is similar.
TEST(Measured, ComparesTasksByTimePerElement) {
  MeasuredTimes times;
  times.add(update(1000, 3, 1));   // modelled as 1 us per element; took 3 times as long
  times.add(update(10000, 1, 1));  // modelled as a tenth of that; took the modelled time
  EXPECT_NEAR(predict_time(times, 4000, 4) / 4, 3, 0.05);
  EXPECT_NEAR(predict_time(times, 40000, 4) / 4, 1, 0.05);
}

TEST(Measured, IgnoresZeroTimesForOtherSizes) {
  MeasuredTimes times;
  times.add(update(1000, 0, 1));
  EXPECT_DOUBLE_EQ(predict_time(times, 1000, 1), 0);
  EXPECT_DOUBLE_EQ(predict_time(times, 2000, 2), 2);
}

TEST(Measured, CopiesTimesWithADevice) {
  MeasuredTimes times;
  EXPECT_TRUE(times.empty());
  times.add(linear(64, 24, 4));
  auto more = times;
  more.add(linear(16, 1.5, 1));
  const auto few = linear(16, 0, 0);
  EXPECT_TRUE(more.has(few.kind.hash(), few.make_shapes_key()));
  EXPECT_FALSE(times.has(few.kind.hash(), few.make_shapes_key()));
  EXPECT_NE(more.hash(), times.hash());
}

TEST(Measured, ReportsErrors) {
  const auto error = [](const std::string& line) { return parse_error(with_line(line), 0); };
  EXPECT_EQ(
      error("measured 812 us forward fp32 64x8 linear"),
      "toy.machine:6: measured 812 us forward fp32 64x8 linear: expected two times, a pass, an "
      "element type, shapes, an operator (write it like 'measured 812 us of 640 us forward fp32 "
      "64x32,16x32,64x16 linear')");
  EXPECT_NE(error("measured 812 us of 640 us forward fp32 64xx8 linear").find("expected two times"),
            std::string::npos);
  EXPECT_NE(error("measured 812 us of 640 us forward fp99 64x8 linear").find("expected two times"),
            std::string::npos);
  EXPECT_NE(error("measured 812 m of 640 us forward fp32 64x8 linear").find("812 m"),
            std::string::npos);
}

}  // namespace
}  // namespace tandem::machine
