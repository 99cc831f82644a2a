#include "predict/task_work.h"

#include <gtest/gtest.h>

#include "machine/peak.h"
#include "ops/attributes.h"
#include "ops/registry.h"

namespace tandem::predict {
namespace {

TensorType type(std::initializer_list<std::int64_t> sizes, DType dtype = DType::kFp32) {
  return {ParallelShape(sizes), dtype};
}

constexpr double kM = 32, kN = 48, kK = 64;
const std::vector<TensorType> kLinearInputs = {type({32, 64}), type({48, 64})};
const std::vector<TensorType> kBiasInputs = {type({32, 64}), type({48, 64}), type({48})};
const TensorType kLinearOutput = type({32, 48});
constexpr double kLinearBytes = 4 * (kM * kK + kN * kK + kM * kN);

ops::Op linear(ops::Activation act = ops::Activation::kNone) {
  return ops::make_op(ops::kLinear, ops::LinearAttributes{.act = act});
}

machine::Device device() {
  machine::Device d;
  d.name = "toy";
  d.peak = {{DType::kFp32, FlopsPerSecond{10e12}}, {DType::kFp16, FlopsPerSecond{100e12}}};
  d.compute_utilization = 0.5;
  d.bandwidth = BytesPerSecond{1e12};
  d.memory_utilization = 0.8;
  d.launch = Seconds{5e-6};
  return d;
}

TEST(ForwardWork, IsTwoMnkForLinear) {
  const auto work = forward_work(linear(), kLinearInputs, kLinearOutput);
  EXPECT_EQ(work.flops, Flops{2 * kM * kN * kK});
  EXPECT_EQ(work.bytes, Bytes{kLinearBytes});
}

TEST(ForwardWork, CountsShardsOnly) {
  auto x = type({64, 64});
  x.shape.degrees[0] = 2;
  x.shape.replicas = 3;
  auto y = type({64, 48});
  y.shape.degrees[0] = 2;
  y.shape.replicas = 3;
  auto w = kLinearInputs[1];
  w.shape.replicas = 6;
  const auto work = forward_work(linear(), std::vector{x, w}, y);
  EXPECT_EQ(work.flops, Flops{2 * kM * kN * kK});
  EXPECT_EQ(work.bytes, Bytes{kLinearBytes});
}

// Measured shapes are those of one device's shards.
TEST(TaskTime, PrefersMeasuredTimes) {
  auto d = device();
  auto x = type({64, 64});
  x.shape.degrees[0] = 2;
  auto y = type({64, 48});
  y.shape.degrees[0] = 2;
  auto w = kLinearInputs[1];
  w.shape.replicas = 2;
  const auto work = forward_work(linear(), std::vector{x, w}, y);
  const auto modelled = task_time(d, work, DType::kFp32);
  d.measured.add({.kind = {"forward", DType::kFp32, "linear", ""},
                  .shapes = {{32, 64}, {48, 64}, {32, 48}},
                  .time = Seconds{7e-5},
                  .modelled = modelled});
  EXPECT_EQ(task_time(d, work, DType::kFp32), Seconds{7e-5});
  EXPECT_EQ(modelled_time(d, work, DType::kFp32), modelled);
  const auto relu = forward_work(linear(ops::Activation::kRelu), kLinearInputs, kLinearOutput);
  EXPECT_EQ(task_time(d, relu, DType::kFp32), modelled_time(d, relu, DType::kFp32));
  const auto backward = backward_work(linear(), kLinearInputs, kLinearOutput, 0b11);
  EXPECT_EQ(task_time(d, backward, DType::kFp32), modelled_time(d, backward, DType::kFp32));
}

TEST(ForwardWork, CountsOnlyTheElementsOfAShift) {
  const std::vector<TensorType> in = {type({32, 64})};
  const auto slice = ops::make_op(ops::kSlice, ops::Slice{.axis = 1, .begin = 8, .size = 4});
  EXPECT_EQ(forward_work(slice, in, type({32, 4})).bytes, Bytes{2 * 4 * 32 * 4});
  const auto pad = ops::make_op(ops::kPad, ops::Pad{.axis = 1, .before = 8, .after = 8});
  EXPECT_EQ(forward_work(pad, in, type({32, 80})).bytes, Bytes{4 * (32 * 64 + 32 * 80)});
}

TEST(BackwardWork, HasOneMatmulPerDifferentiatedOperandOfLinear) {
  const double matmul = 2 * kM * kN * kK;
  EXPECT_EQ(backward_work(linear(), kLinearInputs, kLinearOutput, 0b11).flops, Flops{2 * matmul});
  EXPECT_EQ(backward_work(linear(), kLinearInputs, kLinearOutput, 0b01).flops, Flops{matmul});
}

TEST(BackwardWork, HasNoMatmulForABiasOrActivation) {
  const auto op = linear(ops::Activation::kRelu);
  const auto forward = forward_work(op, kBiasInputs, kLinearOutput).flops;
  EXPECT_EQ(backward_work(op, kBiasInputs, kLinearOutput, 0b111).flops, 2 * forward);
  EXPECT_EQ(backward_work(op, kBiasInputs, kLinearOutput, 0b01).flops, forward);
}

TEST(BackwardWork, CountsBytesOfGradientsAndOperands) {
  const double operands = 4 * (kM * kK + kN * kK);
  const double result = 4 * kM * kN;
  EXPECT_EQ(backward_work(linear(), kLinearInputs, kLinearOutput, 0b11).bytes,
            Bytes{result + 2 * operands});
  EXPECT_EQ(backward_work(linear(), kLinearInputs, kLinearOutput, 0b01).bytes,
            Bytes{result + operands + 4 * kM * kK});
}

TEST(BackwardWork, HasTwiceTheFlopsForElementwiseOperators) {
  const auto relu = ops::make_op(ops::kRelu, ops::NoAttributes{});
  const std::vector<TensorType> in = {type({8, 16})};
  const auto forward = forward_work(relu, in, in[0]);
  EXPECT_EQ(forward.flops, Flops{128});
  EXPECT_EQ(forward.bytes, Bytes{4 * 256});
  const auto backward = backward_work(relu, in, in[0], 1);
  EXPECT_EQ(backward.flops, Flops{256});
  EXPECT_EQ(backward.bytes, Bytes{4 * 384});
}

TEST(BackwardWork, IsZeroForAGradientPassedThrough) {
  const auto add = ops::make_op(ops::kAdd, ops::NoAttributes{});
  const std::vector<TensorType> same = {type({8, 16}), type({8, 16})};
  EXPECT_EQ(backward_work(add, same, same[0], 0b11).bytes, Bytes{0});
  EXPECT_EQ(count_launches(device(), backward_work(add, same, same[0], 0b11)), 0);
  // A bias's gradient is summed: it reads the result's gradient and writes the bias's gradient.
  const std::vector<TensorType> bias = {type({8, 16}), type({16})};
  EXPECT_EQ(backward_work(add, bias, same[0], 0b11).bytes, Bytes{4 * (128 + 16)});
  const auto mul = ops::make_op(ops::kMul, ops::NoAttributes{});
  EXPECT_EQ(backward_work(mul, same, same[0], 0b11).bytes, Bytes{4 * 5 * 128});
  EXPECT_EQ(backward_work(mul, same, same[0], 0b01).bytes, Bytes{4 * 4 * 128});
}

TEST(BackwardWork, RecomputesAttentionScores) {
  const auto op = ops::make_op(ops::kAttention, ops::Attention{1, true});
  const std::vector<TensorType> in(3, type({2, 4, 64, 16}));
  const auto forward = forward_work(op, in, in[0]).flops;
  EXPECT_EQ(backward_work(op, in, in[0], 0b111).flops, 2.5 * forward);
  EXPECT_EQ(backward_flops(op, in, in[0], 0b111), 2 * forward);
  EXPECT_EQ(forward_flops(op, in, in[0]), forward);
}

TEST(BackwardWork, IsZeroWithoutDifferentiatedInputs) {
  const auto work = backward_work(linear(), kLinearInputs, kLinearOutput, 0);
  EXPECT_EQ(work.flops, Flops{0});
  EXPECT_EQ(work.bytes, Bytes{0});
}

TEST(ForwardWork, CountsOnlyLookedUpRows) {
  const auto op = ops::make_op(ops::kEmbeddingBag, ops::EmbeddingBag{});
  const std::vector<TensorType> in = {type({64, 2}, DType::kInt64), type({1000000, 16})};
  const auto out = type({64, 16});
  const auto work = forward_work(op, in, out);
  EXPECT_EQ(work.flops, Flops{64 * 2 * 16});
  // Indices, the rows that they look up, and the sums.
  EXPECT_EQ(work.bytes, Bytes{128 * 8 + 128 * 16 * 4 + 64 * 16 * 4});
  const auto backward = backward_work(op, in, out, 1);
  EXPECT_EQ(backward.flops, 2 * work.flops);
  EXPECT_EQ(backward.bytes, 2 * work.bytes);
}

TEST(TaskTime, IsTheRooflinePlusLaunch) {
  const auto time = [](double flops, double bytes) {
    return task_time(device(), {Flops{flops}, Bytes{bytes}}, DType::kFp32).value;
  };
  EXPECT_NEAR(time(5e9, 1), 1e-3 + 5e-6, 1e-12);
  EXPECT_NEAR(time(1, 8e8), 1e-3 + 5e-6, 1e-12);
  EXPECT_NEAR(time(5e9, 8e8), 1e-3 + 5e-6, 1e-12);
  EXPECT_NEAR(time(0, 0), 5e-6, 1e-12);
}

TEST(TaskTime, UsesTheNearestListedRateForAnUnlistedType) {
  const auto time = [](DType dtype) {
    return (task_time(device(), {Flops{5e9}, Bytes{0}}, dtype) - device().launch).value;
  };
  EXPECT_NEAR(time(DType::kFp16), 1e-4, 1e-12);
  EXPECT_NEAR(time(DType::kBf16), 1e-3, 1e-12);
  EXPECT_NEAR(time(DType::kFp64), 1e-3, 1e-12);
  EXPECT_NEAR(time(DType::kInt32), 1e-3, 1e-12);
  EXPECT_NEAR(time(DType::kInt64), 1e-3, 1e-12);
  EXPECT_EQ(find_peak_type(device(), DType::kFp16), DType::kFp16);
  EXPECT_EQ(find_peak_type(device(), DType::kBf16), DType::kFp32);
}

TEST(TaskTime, IsSlowerForRandomRows) {
  auto d = device();
  d.random_access = 0.25;
  const Work work{.flops = {}, .bytes = Bytes{8e8}, .random = Bytes{4e8}};
  EXPECT_NEAR(task_time(d, work, DType::kFp32).value, 0.5e-3 + 4 * 0.5e-3 + 5e-6, 1e-12);
}

TEST(TaskTime, UsesTheRatesOfAttention) {
  auto d = device();
  const auto op = ops::make_op(ops::kAttention, ops::Attention{1, false});
  const std::vector<TensorType> in(3, type({8, 16, 512, 64}));
  const double flops = 8 * 16 * 512 * 512 * (4.0 * 64 + 5);
  const auto forward = forward_work(op, in, in[0]);
  const auto backward = backward_work(op, in, in[0], 0b111);
  const auto time = [&](const Work& work) {
    return (task_time(d, work, DType::kFp32) - d.launch).value;
  };
  EXPECT_NEAR(time(forward), flops / (10e12 * 0.5), 1e-12);
  d.attention_utilization = 0.4;
  EXPECT_NEAR(time(forward), flops / (10e12 * 0.4), 1e-12);
  EXPECT_NEAR(time(backward), 2.5 * flops / (10e12 * 0.4), 1e-12);
  d.attention_backward_utilization = 0.3;
  EXPECT_NEAR(time(backward), 2.5 * flops / (10e12 * 0.3), 1e-12);
}

TEST(UpdateWork, FollowsTheSoftwareProfile) {
  machine::Software software;
  const auto update = [&](double elements) {
    return update_work(elements, DType::kFp32, plan::Optimizer::kAdam, {}, software);
  };
  const auto plain = update(100);
  EXPECT_EQ(plain.bytes, Bytes{7 * 400});
  EXPECT_EQ(plain.kernels, 1);
  software.update_bytes = Bytes{34};
  software.fusion = machine::Fusion::kElementwise;
  const auto said = update(50);
  EXPECT_EQ(said.bytes, Bytes{50 * 34});
  EXPECT_EQ(said.kernels, 0);
}

// Bytes per element: reads the gradient and the state, writes the state and the weight. The weight
// is also read, unless a master weight is read instead.
TEST(UpdateWork, FollowsOptimizerAndPrecision) {
  using plan::Optimizer;
  const auto bytes = [](double elements, DType weight, Optimizer optimizer,
                        const plan::Precision& precision = {}) {
    return update_work(elements, weight, optimizer, precision).bytes;
  };
  constexpr plan::Precision kMixed = {.master = true, .wide_gradients = false};
  constexpr plan::Precision kWide = {.master = true, .wide_gradients = true};
  EXPECT_EQ(bytes(10, DType::kFp32, Optimizer::kSgd), Bytes{10 * 12});
  EXPECT_EQ(bytes(10, DType::kFp32, Optimizer::kMomentum), Bytes{10 * 20});
  EXPECT_EQ(bytes(10, DType::kFp32, Optimizer::kAdam), Bytes{10 * 28});
  EXPECT_EQ(bytes(10, DType::kFp32, Optimizer::kAdam, kWide), Bytes{10 * 28});
  EXPECT_EQ(bytes(10, DType::kBf16, Optimizer::kAdam), Bytes{10 * 14});
  EXPECT_EQ(bytes(10, DType::kBf16, Optimizer::kAdam, kMixed), Bytes{10 * (2 + 16 + 8 + 2)});
  EXPECT_EQ(bytes(10, DType::kBf16, Optimizer::kAdam, kWide), Bytes{10 * (4 + 16 + 8 + 2)});
}

TEST(OperatorTimeDeathTest, RefusesSources) {
  const auto weight = ops::make_op(ops::kWeight, ops::Weight{});
  EXPECT_DEATH(forward_work(weight, {}, type({1})), "kCompute");
}

}  // namespace
}  // namespace tandem::predict
