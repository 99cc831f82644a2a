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

Device device_of(const std::string& line) {
  return parse_machine(with_line(line), "toy.machine").device;
}

MeasuredTime linear(std::int64_t rows, double time, double modelled) {
  return {.kind = {"backward:3", DType::kFp32, "linear", "act=relu"},
          .shapes = {{rows, 8}, {4, 8}, {rows, 4}},
          .time = Seconds{time},
          .modelled = Seconds{modelled}};
}

TEST(Measured, ALineIsReadBack) {
  const auto line = "measured 812 us of 640 us backward:3 fp32 64x8,4x8,- conv2d stride=[2, 2]";
  MeasuredTime expected{.kind = {"backward:3", DType::kFp32, "conv2d", "stride=[2, 2]"},
                        .shapes = {{64, 8}, {4, 8}, {}},
                        .time = Seconds{812e-6},
                        .modelled = Seconds{640e-6}};
  EXPECT_EQ("measured " + to_text(expected), line);
  const auto& measured = device_of(line).measured;
  EXPECT_TRUE(measured.has(expected.kind.hash(), expected.shapes_hash()));
  expected.shapes[0] = {32, 8};
  EXPECT_FALSE(measured.has(expected.kind.hash(), expected.shapes_hash()));
}

TEST(Measured, KindsAreOperatorsByTheirTextAndPass) {
  const auto op = ops::make_op(ops::kLinear, ops::Linear{ops::Activation::kRelu});
  EXPECT_EQ(linear(1, 1, 1).kind.hash(),
            hash_of_kind(hash_of_pass(true, 3), DType::kFp32, op.hash()));
  EXPECT_NE(linear(1, 1, 1).kind.hash(),
            hash_of_kind(hash_of_pass(true, 1), DType::kFp32, op.hash()));
  EXPECT_NE(linear(1, 1, 1).kind.hash(),
            hash_of_kind(hash_of_pass(true, 3), DType::kFp64, op.hash()));
  EXPECT_NE(linear(1, 1, 1).kind.hash(),
            hash_of_kind(hash_of_pass(false, 0), DType::kFp32, op.hash()));
}

// 1.5 times what is modelled at 1 s, 6 times at 4 s: between them 3 times in the middle.
TEST(Measured, RatiosAreInterpolated) {
  MeasuredTimes times;
  times.add(linear(64, 24, 4));
  times.add(linear(16, 1.5, 1));
  const auto kind = linear(0, 0, 0).kind.hash();
  const auto of = [&](double modelled) { return times.time(kind, 0, Seconds{modelled}).value; };
  EXPECT_DOUBLE_EQ(of(2), 6);
  EXPECT_DOUBLE_EQ(of(0.5), 0.75);
  EXPECT_DOUBLE_EQ(of(8), 48);
  EXPECT_DOUBLE_EQ(times.time(kind, linear(64, 0, 0).shapes_hash(), Seconds{8}).value, 24);
  EXPECT_DOUBLE_EQ(times.time(kind + 1, 0, Seconds{8}).value, 8);
}

TEST(Measured, CopiesOfADeviceGoTheirOwnWay) {
  MeasuredTimes times;
  EXPECT_TRUE(times.empty());
  times.add(linear(64, 24, 4));
  auto more = times;
  more.add(linear(16, 1.5, 1));
  const auto few = linear(16, 0, 0);
  EXPECT_TRUE(more.has(few.kind.hash(), few.shapes_hash()));
  EXPECT_FALSE(times.has(few.kind.hash(), few.shapes_hash()));
  EXPECT_NE(more.hash(), times.hash());
}

TEST(Measured, SaysWhatIsWrong) {
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
