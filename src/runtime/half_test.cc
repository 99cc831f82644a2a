// Compares matmuls of bf16 operands, and on GPUs other kernels too, with the same on fp32 operands.
// The operands are rounded beforehand, so the results differ by little more than one rounding.
#include "runtime/half.h"

#include <gtest/gtest.h>

#include "ops/attributes.h"
#include "ops/registry.h"
#include "runtime/aten.h"
#include "runtime/gpu_test_support.h"
#include "runtime/matmul.h"

namespace tandem::runtime {
namespace {

struct MatmulCase {
  std::string name;
  ops::Op op;
  std::vector<Shape> operands;
};

void PrintTo(const MatmulCase& p, std::ostream* os) { *os << p.name; }

class Half : public testing::TestWithParam<MatmulCase> {};

Call make_call(const MatmulCase& p) {
  Call call{.op = p.op, .operands = {}};
  for (const auto& shape : p.operands) {
    call.operands.push_back(
        {.sizes = shape, .local = shape, .offset = shape, .dtype = DType::kBf16});
    std::ranges::fill(call.operands.back().offset, 0);
  }
  return call;
}

// Returns the difference relative to the largest number in `wide`.
double difference(const at::Tensor& made, const at::Tensor& wide) {
  EXPECT_TRUE(!made.is_cpu() || made.scalar_type() == at::kBFloat16);
  const auto narrow = convert_to_type(made, at::kBFloat16);
  EXPECT_EQ(narrow.sizes(), wide.sizes());
  return ((narrow.to(at::kFloat) - wide).abs().max() / wide.abs().max()).item<double>();
}

// Returns whether bf16 matmuls sum in fp32. Otherwise ATen sums them in bf16 and rounds each time,
// and training widens their operands.
bool sums_in_fp32() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512bw") > 0 && __builtin_cpu_supports("avx512vl") > 0 &&
         __builtin_cpu_supports("avx512dq") > 0;
#else
  return false;
#endif
}

// Compares with the results of fp32, with and without the values that forward saves.
void expect_fp32_results(const MatmulCase& p, at::Device place) {
  const c10::InferenceMode no_autograd;
  at::manual_seed(1);
  auto call = make_call(p);
  const auto& kernel = find_kernel(call);
  std::vector<at::Tensor> narrow;
  for (const auto& shape : p.operands) {
    narrow.push_back(at::randn(to_aten(shape)).to(place, at::kBFloat16));
  }
  const auto wide = widen(narrow);
  constexpr double kRounding = 0x1p-8;  // Half of the last of eight bits
  std::vector<at::Tensor> saved_wide, saved_narrow;
  call.saved = &saved_wide;
  const auto result = kernel.forward(call, wide);
  call.saved = &saved_narrow;
  EXPECT_LE(difference(kernel.forward(call, narrow), result), 2 * kRounding);

  const auto gradient = at::randn_like(result).to(at::kBFloat16);
  const auto all = (term::InputMask{1} << narrow.size()) - 1;
  for (const bool keeps : {false, true}) {
    call.saved = keeps ? &saved_wide : nullptr;
    const auto of_wide = kernel.backward(
        call, {.operands = wide, .result = {}, .gradient = widen(gradient), .wanted = all});
    call.saved = keeps ? &saved_narrow : nullptr;
    const auto of_narrow = kernel.backward(
        call, {.operands = narrow, .result = {}, .gradient = gradient, .wanted = all});
    ASSERT_EQ(of_narrow.size(), of_wide.size());
    for (std::size_t i = 0; i < of_wide.size(); ++i) {
      EXPECT_LE(difference(of_narrow[i], of_wide[i]), 4 * kRounding) << "operand " << i;
    }
  }
}

TEST_P(Half, MatchesFp32Matmuls) {
  if (!sums_in_fp32()) GTEST_SKIP() << "this processor has no AVX-512, and ATen sums in bf16";
  const auto& kernel = find_kernel(make_call(GetParam()));
  ASSERT_TRUE(multiplies_half(kernel, at::Device(at::kCUDA, 0))) << kernel.name;
  expect_fp32_results(GetParam(), at::kCPU);
}

std::vector<MatmulCase> list_matmul_cases() {
  const auto linear = [](ops::Activation act) {
    return ops::make_op(ops::kLinear, ops::LinearAttributes{act});
  };
  return {
      {"linear", linear(ops::Activation::kNone), {{12, 64}, {32, 64}, {32}}},
      {"linear_relu", linear(ops::Activation::kRelu), {{3, 4, 64}, {32, 64}}},
      {"matmul", ops::parse_op(ops::kMatMul, {}), {{4, 16, 64}, {4, 64, 24}}},
      {"contract",
       ops::make_op(ops::kContract, ops::Contract{"b s i, h d i -> b h s d", 0.25}),
       {{2, 6, 64}, {4, 8, 64}}},
      {"attention",
       ops::make_op(ops::kAttention, ops::Attention{0.125, true}),
       {{2, 4, 8, 64}, {2, 2, 8, 64}, {2, 2, 8, 16}}},
      {"conv2d",
       ops::make_op(ops::kConv2d, ops::Conv2d{.stride = {1, 1}, .padding = {1, 1}}),
       {{2, 16, 8, 8}, {16, 16, 3, 3}}},
  };
}

INSTANTIATE_TEST_SUITE_P(Kernels, Half, testing::ValuesIn(list_matmul_cases()),
                         [](const auto& test) { return test.param.name; });

#ifdef TANDEM_HAS_CUDA
class HalfOnGpus : public testing::TestWithParam<MatmulCase> {};

TEST_P(HalfOnGpus, MatchesFp32Kernels) {
  if (const auto why = why_no_gpu()) GTEST_SKIP() << *why;
  const at::Device gpu(at::kCUDA, 0);
  const auto& kernel = find_kernel(make_call(GetParam()));
  ASSERT_TRUE(multiplies_half(kernel, gpu) || takes_half_for_half_results(kernel, gpu))
      << kernel.name;
  expect_fp32_results(GetParam(), gpu);
}

std::vector<MatmulCase> on_gpus() {
  const auto attention = [](bool causal) {
    return ops::make_op(ops::kAttention, ops::Attention{0.125, causal});
  };
  auto out = list_matmul_cases();
  out.insert(
      out.end(),
      {{"flash", attention(false), {{2, 4, 16, 64}, {2, 4, 24, 64}, {2, 4, 24, 64}}},
       {"flash_causal", attention(true), {{2, 4, 40, 64}, {2, 2, 40, 64}, {2, 2, 40, 64}}},
       {"batch_norm", ops::parse_op(ops::kBatchNorm, {}), {{8, 6, 5, 5}, {6}, {6}}},
       {"gelu", ops::parse_op(ops::kGelu, {}), {{6, 64}}},
       {"gelu_tanh", ops::parse_op(ops::kGeluTanh, {}), {{6, 64}}},
       {"layer_norm", ops::parse_op(ops::kLayerNorm, {}), {{3, 4, 64}, {64}, {64}}},
       {"max_pool2d",
        ops::make_op(ops::kMaxPool2d,
                     ops::Pool2d{.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}}),
        {{2, 4, 9, 9}}},
       {"mul", ops::parse_op(ops::kMul, {}), {{6, 64}, {6, 64}}},
       {"rms_norm", ops::parse_op(ops::kRmsNorm, {}), {{3, 4, 64}, {64}}},
       {"rope", ops::parse_op(ops::kRope, {}), {{2, 4, 6, 32}}},
       {"scale", ops::make_op(ops::kScale, ops::ScaleAttributes{0.3}), {{6, 64}}},
       {"sigmoid", ops::parse_op(ops::kSigmoid, {}), {{6, 64}}},
       {"silu", ops::parse_op(ops::kSilu, {}), {{6, 64}}},
       {"softmax", ops::make_op(ops::kSoftmax, ops::Softmax{.causal = true}), {{2, 3, 16, 16}}},
       {"sub", ops::parse_op(ops::kSub, {}), {{6, 64}, {6, 64}}},
       {"tanh", ops::parse_op(ops::kTanh, {}), {{6, 64}}}});
  return out;
}

INSTANTIATE_TEST_SUITE_P(Kernels, HalfOnGpus, testing::ValuesIn(on_gpus()),
                         [](const auto& test) { return test.param.name; });

TEST(HalfOnGpus, ComputesFp32WeightGradientsOnRequest) {
  if (const auto why = why_no_gpu()) GTEST_SKIP() << *why;
  const auto a = at::randn({48, 64}).to(at::Device(at::kCUDA, 0), at::kBFloat16);
  const auto b = at::randn({48, 32}).to(at::Device(at::kCUDA, 0), at::kBFloat16);
  const auto made = compute_wide_matmul(a.t(), b);
  ASSERT_EQ(made.scalar_type(), at::kFloat);
  EXPECT_LE((made - at::mm(widen(a).t(), widen(b))).abs().max().item<double>(), 1e-4);
}
#endif

// CPUs widen the operands of kernels that are not matmuls.
TEST(HalfKernels, ConvertToFp32OnCpus) {
  const MatmulCase sum{"mul", ops::parse_op(ops::kMul, {}), {{2, 3}, {2, 3}}};
  const auto& kernel = find_kernel(make_call(sum));
  EXPECT_FALSE(multiplies_half(kernel, at::kCPU));
  EXPECT_FALSE(multiplies_half(kernel, at::Device(at::kCUDA, 0)));
  EXPECT_FALSE(takes_half_for_half_results(kernel, at::kCPU));
  EXPECT_TRUE(takes_half_for_half_results(kernel, at::Device(at::kCUDA, 0)));
}

}  // namespace
}  // namespace tandem::runtime
