// Compares every kernel, forward and backward, on every shard of a split of its factors, with the
// evaluator of the operator's meaning.
#include "runtime/kernels.h"

#include <gtest/gtest.h>

#include <random>

#include "ops/attributes.h"
#include "ops/examples_test_support.h"
#include "ops/registry.h"
#include "ops/signature.h"
#include "runtime/aten.h"
#include "runtime/gpu_test_support.h"
#include "runtime/guarded_device_test_support.h"
#include "term/evaluate.h"

namespace tandem::runtime {
namespace {

constexpr auto kType = DType::kFp64;

struct Case {
  std::string name;
  ops::Op op;
  std::vector<Shape> operands;
  std::vector<std::pair<std::string, std::int64_t>> split = {};  // Factor, degree
  double density = 1;                                            // Density of the first operand
};

void PrintTo(const Case& c, std::ostream* os) { *os << c.name; }

template <class Attributes>
ops::Op op(const ops::OpSpec& spec, Attributes attributes) {
  return ops::make_op(spec, attributes);
}
ops::Op op(const ops::OpSpec& spec) { return ops::parse_op(spec, {}); }

ops::Op contract(std::string index, double scale = 1) {
  return op(ops::kContract, ops::Contract{std::move(index), scale});
}

ops::Op activated(ops::Activation act) { return op(ops::kLinear, ops::LinearAttributes{act}); }

std::vector<Case> cases() {
  const auto fused = op(ops::kLinear, ops::LinearAttributes{ops::Activation::kRelu});
  return {
      {"add", op(ops::kAdd), {{4, 6}, {4, 6}}, {{"d0", 2}}},
      {"add_stretched", op(ops::kAdd), {{4, 1, 6}, {3, 1}}, {{"d0", 2}}},
      {"add_bias", op(ops::kAdd), {{6}, {4, 6}}, {{"d1", 3}, {"d0", 2}}},
      {"add_3d", op(ops::kAdd), {{2, 3, 5}, {2, 3, 5}}},
      {"attention",
       op(ops::kAttention, ops::Attention{0.5, false}),
       {{2, 6, 4, 3}, {2, 2, 5, 3}, {2, 2, 5, 2}},
       {{"kv", 2}, {"s", 2}}},
      {"attention_causal",
       op(ops::kAttention, ops::Attention{0.7, true}),
       {{2, 4, 6, 2}, {2, 2, 6, 2}, {2, 2, 6, 4}},
       {{"s", 3}, {"kv", 2}, {"g", 2}, {"e", 2}}},
      {"avg_pool2d",
       op(ops::kAvgPool2d, ops::Pool2d{.kernel = {3, 2}, .stride = {2, 1}, .padding = {1, 0}}),
       {{2, 4, 6, 5}},
       {{"c", 2}}},
      {"avg_pool2d_ceil",
       op(ops::kAvgPool2d, ops::Pool2d{.kernel = {3, 3},
                                       .stride = {2, 2},
                                       .padding = {1, 1},
                                       .ceil = true,
                                       .count_padding = false}),
       {{2, 3, 6, 5}},
       {{"b", 2}}},
      {"avg_pool2d_windows",
       op(ops::kAvgPool2d, ops::Pool2d{.kernel = {3, 2}, .stride = {1, 1}, .padding = {1, 0}}),
       {{2, 2, 6, 5}},
       {{"y", 3}, {"x", 2}}},
      {"avg_pool2d_windows_ceil",
       op(ops::kAvgPool2d,
          ops::Pool2d{.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}, .ceil = true}),
       {{1, 2, 6, 6}},
       {{"y", 2}, {"x", 2}}},
      {"avg_pool2d_windows_image",
       op(ops::kAvgPool2d,
          ops::Pool2d{
              .kernel = {3, 3}, .stride = {1, 2}, .padding = {1, 1}, .count_padding = false}),
       {{1, 2, 6, 8}},
       {{"y", 2}, {"x", 4}}},
      {"avg_pool2d_windows_whole",
       op(ops::kAvgPool2d,
          ops::Pool2d{
              .kernel = {3, 3}, .stride = {1, 1}, .padding = {1, 1}, .count_padding = false}),
       {{1, 2, 2, 2}},
       {{"y", 2}}},
      {"batch_moments", op(ops::kBatchMoments), {{6, 4, 2, 3}}, {{"g", 3}, {"c", 2}, {"h", 2}}},
      {"batch_moments_groups",
       op(ops::kBatchMoments, ops::BatchNorm{.group = 2}),
       {{8, 2, 3}},
       {{"n", 2}}},
      {"batch_moments_cut",
       op(ops::kBatchMoments, ops::BatchNorm{.group = 4}),
       {{8, 2, 3}},
       {{"n", 2}, {"g", 2}}},
      {"batch_normalize",
       op(ops::kBatchNormalize, ops::Norm{4}),
       {{6, 2, 3}, {3, 2, 2}, {2}, {2}},
       {{"n", 3}, {"c", 2}}},
      {"batch_normalize_cut",
       op(ops::kBatchNormalize, ops::Norm{4}),
       {{8, 2, 2, 3}, {2, 2, 2}, {2}, {2}},
       {{"n", 2}, {"g", 2}, {"h", 2}}},
      {"batch_norm", op(ops::kBatchNorm), {{4, 6, 3, 2}, {6}, {6}}, {{"c", 2}}},
      {"batch_norm_groups",
       op(ops::kBatchNorm, ops::BatchNorm{.eps = 0.1, .group = 2}),
       {{8, 4, 3, 3}, {4}, {4}},
       {{"n", 2}}},
      {"batch_norm_vectors", op(ops::kBatchNorm), {{5, 4}, {4}, {4}}, {{"c", 4}}},
      {"concat", op(ops::kConcat, ops::Concat{1}), {{4, 3}, {4, 2}, {4, 4}}, {{"a0", 2}}},
      {"concat_first", op(ops::kConcat, ops::Concat{0}), {{1, 4}, {3, 4}}, {{"a1", 4}}},
      {"contract_heads",
       contract("b s i, h d i -> b h s d"),
       {{2, 3, 8}, {4, 2, 8}},
       {{"h", 2}, {"b", 2}}},
      {"contract_scores",
       contract("b h s d, b h t d -> b h s t", 0.5),
       {{2, 2, 3, 4}, {2, 2, 5, 4}},
       {{"d", 2}}},
      {"contract_output",
       contract("b h s d, o h d -> b s o"),
       {{2, 4, 3, 2}, {6, 4, 2}},
       {{"h", 2}, {"s", 3}}},
      {"contract_lonely", contract("a b c, c d e -> a e", 2), {{2, 3, 4}, {4, 5, 2}}, {{"b", 3}}},
      {"contract_outer", contract("a, b -> a b", 1.5), {{3}, {4}}},
      {"contract_product", contract("a b, a b -> a b"), {{3, 4}, {3, 4}}, {{"a", 3}}},
      {"contract_dot", contract("a, a -> "), {{6}, {6}}, {{"a", 2}}},
      {"contract_groups",
       contract("b (kv g) s d, b kv t d -> b (kv g) s t", 0.5),
       {{2, 6, 3, 4}, {2, 2, 5, 4}},
       {{"kv", 2}, {"d", 2}}},
      {"contract_groups_cut",
       contract("b (kv g) s t, b kv t d -> b (kv g) s d"),
       {{2, 4, 3, 6}, {2, 2, 6, 4}},
       {{"kv", 2}, {"g", 2}, {"t", 3}}},
      {"contract_experts",
       contract("e b s i, e f i -> e b s f"),
       {{4, 2, 3, 6}, {4, 8, 6}},
       {{"e", 2}, {"i", 2}, {"f", 4}},
       0.5},
      {"contract_experts_scaled",
       contract("e b i, e f i -> e b f", 0.5),
       {{3, 8, 4}, {3, 2, 4}},
       {{"b", 2}},
       0.25},
      {"conv2d",
       op(ops::kConv2d, ops::Conv2d{.stride = {2, 1}, .padding = {1, 1}}),
       {{2, 4, 5, 6}, {6, 4, 3, 3}},
       {{"c", 2}, {"k", 3}}},
      {"conv2d_bias_relu",
       op(ops::kConv2d, ops::Conv2d{.dilation = {1, 2}, .act = ops::Activation::kRelu}),
       {{2, 3, 4, 6}, {4, 3, 2, 3}, {4}},
       {{"b", 2}, {"k", 2}}},
      {"conv2d_gelu",
       op(ops::kConv2d, ops::Conv2d{.act = ops::Activation::kGelu}),
       {{2, 3, 4, 4}, {4, 3, 1, 1}}},
      {"conv2d_groups",
       op(ops::kConv2d, ops::Conv2d{.padding = {1, 0}, .groups = 4}),
       {{2, 8, 4, 4}, {12, 2, 3, 1}},
       {{"g", 2}, {"b", 2}}},
      {"conv2d_pointwise",
       op(ops::kConv2d, ops::Conv2d{.act = ops::Activation::kRelu}),
       {{4, 6, 4, 6}, {4, 6, 1, 1}, {4}},
       {{"b", 2}, {"k", 2}, {"y", 2}, {"x", 3}}},
      {"conv2d_pointwise_channels",
       op(ops::kConv2d, ops::Conv2d{.stride = {2, 1}}),
       {{3, 6, 5, 2}, {4, 6, 1, 1}},
       {{"c", 3}}},
      {"conv2d_unfolded",
       op(ops::kConv2d, ops::Conv2d{.padding = {1, 1}, .act = ops::Activation::kRelu}),
       {{2, 6, 2, 2}, {24, 6, 3, 3}, {24}},
       {{"b", 2}, {"k", 2}, {"c", 3}}},
      {"conv2d_unfolded_windows",
       op(ops::kConv2d, ops::Conv2d{.stride = {2, 1}, .padding = {1, 0, 0, 2}, .dilation = {1, 2}}),
       {{1, 3, 4, 6}, {28, 3, 3, 2}},
       {{"y", 2}, {"x", 3}}},
      {"conv2d_uneven",
       op(ops::kConv2d, ops::Conv2d{.padding = {1, 0, 0, 2}}),
       {{1, 2, 4, 4}, {2, 2, 3, 3}}},
      {"conv2d_windows",
       op(ops::kConv2d, ops::Conv2d{.stride = {2, 1}, .padding = {1, 1}}),
       {{2, 4, 8, 6}, {6, 4, 3, 3}},
       {{"y", 2}, {"x", 3}, {"k", 2}}},
      {"conv2d_windows_groups",
       op(ops::kConv2d, ops::Conv2d{.padding = {0, 0, 2, 2}, .dilation = {2, 1}, .groups = 2}),
       {{1, 4, 8, 6}, {4, 2, 2, 3}},
       {{"y", 4}, {"g", 2}}},
      {"conv2d_windows_gaps",
       op(ops::kConv2d, ops::Conv2d{.stride = {3, 2}, .act = ops::Activation::kRelu}),
       {{2, 2, 12, 4}, {2, 2, 1, 1}, {2}},
       {{"y", 4}, {"x", 2}}},
      // Some of the rows need all rows of the image.
      {"conv2d_windows_whole",
       op(ops::kConv2d, ops::Conv2d{.padding = {2, 1}}),
       {{1, 2, 4, 6}, {2, 2, 5, 3}},
       {{"y", 2}}},
      {"cross_entropy", op(ops::kCrossEntropy), {{4, 3, 5}, {4, 3}}, {{"d0", 2}}},
      {"div_stretched", op(ops::kDiv), {{4, 6}, {6}}, {{"d0", 2}}},
      {"dropout", op(ops::kDropout, ops::Dropout{0.25, 7}), {{4, 6, 2}}, {{"d0", 2}, {"d1", 3}}},
      {"embedding", op(ops::kEmbedding), {{5, 3}, {12, 4}}, {{"v", 3}, {"d", 2}}},
      {"embedding_bag", op(ops::kEmbeddingBag), {{5, 3}, {12, 4}}, {{"v", 3}, {"d", 2}}},
      {"embedding_bag_one", op(ops::kEmbeddingBag), {{6, 1}, {10, 3}}, {{"v", 5}}},
      {"embedding_bag_batch", op(ops::kEmbeddingBag), {{2, 4, 2}, {8, 2}}, {{"d0", 2}, {"l", 2}}},
      {"embedding_bags",
       op(ops::kEmbeddingBags),
       {{4, 2, 3}, {2, 12, 4}},
       {{"v", 3}, {"t", 2}, {"b", 2}}},
      {"gelu", op(ops::kGelu), {{4, 6}}, {{"d0", 2}}},
      {"gelu_tanh", op(ops::kGeluTanh), {{4, 6}}, {{"d1", 3}}},
      {"global_avg_pool", op(ops::kGlobalAvgPool), {{2, 4, 4, 3}}, {{"h", 2}, {"c", 2}}},
      {"layer_norm", op(ops::kLayerNorm), {{6, 5}, {5}, {5}}, {{"d0", 3}}},
      {"layer_norm_3d", op(ops::kLayerNorm, ops::Norm{0.1}), {{2, 3, 4}, {4}, {4}}},
      {"linear", op(ops::kLinear), {{4, 6}, {8, 6}}, {{"k", 3}, {"n", 2}}},
      {"linear_bias", op(ops::kLinear), {{2, 3, 4}, {6, 4}, {6}}, {{"n", 3}, {"d0", 2}}},
      {"linear_relu", fused, {{4, 6}, {8, 6}}, {{"d0", 2}}},
      {"linear_bias_relu", fused, {{4, 6}, {8, 6}, {8}}, {{"d0", 2}, {"n", 4}}},
      {"linear_gelu", activated(ops::Activation::kGelu), {{4, 6}, {8, 6}}, {{"d0", 2}}},
      {"linear_silu", activated(ops::Activation::kSilu), {{2, 2, 6}, {8, 6}, {8}}, {{"n", 2}}},
      {"linear_sigmoid", activated(ops::Activation::kSigmoid), {{4, 6}, {8, 6}, {8}}},
      {"linear_tanh", activated(ops::Activation::kTanh), {{4, 6}, {8, 6}}, {{"n", 4}}},
      {"interaction", op(ops::kInteraction), {{4, 5, 6}}, {{"b", 2}, {"d", 3}}},
      {"log_softmax", op(ops::kLogSoftmax), {{4, 3, 6}}, {{"d0", 2}}},
      {"max_pool2d",
       op(ops::kMaxPool2d, ops::Pool2d{.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}}),
       {{2, 4, 6, 5}},
       {{"c", 2}, {"b", 2}}},
      {"max_pool2d_ceil",
       op(ops::kMaxPool2d, ops::Pool2d{.kernel = {2, 3}, .stride = {2, 2}, .ceil = true}),
       {{1, 2, 5, 6}}},
      {"max_pool2d_padded",
       op(ops::kMaxPool2d,
          ops::Pool2d{.kernel = {2, 3}, .stride = {2, 2}, .padding = {1, 2, 0, 1}}),
       {{1, 2, 5, 6}}},
      {"max_pool2d_windows",
       op(ops::kMaxPool2d, ops::Pool2d{.kernel = {3, 3}, .stride = {2, 1}, .padding = {1, 1}}),
       {{2, 4, 8, 6}},
       {{"y", 4}, {"x", 2}, {"c", 2}}},
      {"max_pool2d_windows_whole",
       op(ops::kMaxPool2d, ops::Pool2d{.kernel = {3, 3}, .stride = {1, 1}, .padding = {1, 1}}),
       {{1, 2, 2, 4}},
       {{"y", 2}, {"x", 2}}},
      {"matmul", op(ops::kMatMul), {{4, 6}, {6, 8}}, {{"k", 2}}},
      {"matmul_one_matrix", op(ops::kMatMul), {{2, 4, 6}, {6, 8}}, {{"d0", 2}, {"k", 2}}},
      {"matmul_stretched", op(ops::kMatMul), {{3, 1, 4, 6}, {2, 6, 8}}, {{"d0", 2}, {"n", 2}}},
      {"matmul_batch", op(ops::kMatMul), {{2, 3, 4, 5}, {2, 3, 5, 2}}, {{"d1", 3}, {"m", 2}}},
      {"mul", op(ops::kMul), {{4, 6}, {4, 6}}, {{"d0", 2}}},
      {"mul_stretched", op(ops::kMul), {{4, 1}, {2, 4, 6}}, {{"d2", 2}}},
      {"moe_combine", op(ops::kMoeCombine), {{2, 3, 4}, {4, 2, 3, 6}}, {{"e", 2}, {"o", 3}}},
      {"moe_combine_open", op(ops::kMoeCombine), {{4, 3}, {3, 4, 2}}, {{"b", 2}}, 0.5},
      {"moe_dispatch",
       op(ops::kMoeDispatch, ops::Dispatch{0.5}),
       {{2, 3, 4}, {2, 3, 6}},
       {{"e", 3}, {"b", 2}}},
      {"mse", op(ops::kMse), {{6, 4}, {6, 4}}, {{"d0", 3}, {"c", 2}}},
      {"mse_vector", op(ops::kMse), {{6}, {6}}},
      {"pad",
       op(ops::kPad, ops::Pad{.axis = -2, .before = 1, .after = 2}),
       {{2, 3, 4}},
       {{"a2", 2}}},
      {"pad_parts", op(ops::kPad, ops::Pad{.axis = 1, .after = 4}), {{2, 4}}, {{"c", 2}}},
      {"pick", op(ops::kPick), {{4, 3, 6}, {4, 3}}, {{"v", 3}, {"d0", 2}}},
      {"reduce_mean",
       op(ops::kReduceMean, ops::Reduction{.axes = {0, -1}}),
       {{4, 3, 6}},
       {{"d0", 2}, {"d2", 3}}},
      {"reduce_mean_kept",
       op(ops::kReduceMean, ops::Reduction{.axes = {1}, .keep_dims = true}),
       {{4, 6}},
       {{"d1", 2}}},
      {"reduce_sum", op(ops::kReduceSum), {{4, 6}}, {{"d1", 2}}},
      {"reshape", op(ops::kReshape, ops::Reshape{{2, 3, 4}}), {{6, 4}}, {{"a", 2}}},
      {"reshape_joined", op(ops::kReshape, ops::Reshape{{8, -1}}), {{2, 4, 3, 2}}, {{"a", 2}}},
      {"row_max", op(ops::kRowMax), {{4, 6}}, {{"d0", 2}}},
      {"relu", op(ops::kRelu), {{4, 6}}, {{"d1", 2}}},
      {"rms_norm", op(ops::kRmsNorm), {{6, 5}, {5}}, {{"d0", 3}}},
      {"rms_norm_3d", op(ops::kRmsNorm, ops::Norm{0.1}), {{2, 3, 16}, {16}}},
      {"rope", op(ops::kRope), {{2, 6, 4}}, {{"s", 3}}},
      {"rope_late", op(ops::kRope, ops::Rope{.base = 100, .first = 3}), {{2, 2, 4, 6}}},
      {"sigmoid", op(ops::kSigmoid), {{4, 6}}, {{"d0", 2}}},
      {"silu", op(ops::kSilu), {{4, 6}}, {{"d1", 2}}},
      {"slice",
       op(ops::kSlice, ops::Slice{.axis = -1, .begin = 1, .size = 3}),
       {{4, 6}},
       {{"a0", 2}}},
      {"slice_parts", op(ops::kSlice, ops::Slice{.begin = 1, .size = 4}), {{6, 3}}, {{"c", 2}}},
      {"softmax_causal",
       op(ops::kSoftmax, ops::Softmax{.axis = -1, .causal = true}),
       {{2, 4, 4}},
       {{"s", 2}}},
      {"square", op(ops::kSquare), {{4, 6}}, {{"d0", 2}}},
      {"sub_stretched", op(ops::kSub), {{4, 1}, {2, 4, 6}}, {{"d2", 2}}},
      {"transpose", op(ops::kTranspose, ops::Transpose{{2, 0, 1}}), {{2, 4, 3}}, {{"d1", 2}}},
      {"tanh", op(ops::kTanh), {{4, 6}}, {{"d0", 2}}},
      {"top_k_gate", op(ops::kTopKGate, ops::TopK{2}), {{2, 3, 5}}, {{"d0", 2}}},
      {"top_k_gate_all", op(ops::kTopKGate, ops::TopK{4}), {{3, 4}}},
      {"softmax", op(ops::kSoftmax), {{4, 6}}, {{"d0", 4}}},
      {"softmax_4d", op(ops::kSoftmax), {{2, 2, 3, 5}}, {{"d1", 2}}},
  };
}

using Values = Dense<double>;

Values random(const Shape& shape, std::mt19937_64& draw) {
  Values out(shape);
  std::uniform_real_distribution<double> uniform(-1, 1);
  for (auto& x : out.data) x = uniform(draw);
  return out;
}

at::Tensor to_tensor(const Values& v, bool integer = false) {
  auto t = at::empty(to_aten(v.shape), at::kDouble);
  std::ranges::copy(v.data, t.data_ptr<double>());
  return integer ? t.to(at::kLong) : t;
}

// Returns the largest difference, relative to the largest value.
double difference(const at::Tensor& anywhere, const Values& want) {
  EXPECT_TRUE(anywhere.defined());
  const auto got = anywhere.to(at::kCPU);
  EXPECT_EQ(got.sizes(), to_aten(want.shape));
  if (got.numel() == 0) return 0;
  const auto expected = to_tensor(want);
  const auto scale = std::max(1.0, expected.abs().max().item<double>());
  const auto dense = got.is_sparse() ? got.to_dense() : got;
  return (dense - expected).abs().max().item<double>() / scale;
}

class KernelTest : public testing::TestWithParam<Case> {
 protected:
  KernelTest() : signature_(ops::get_signature(GetParam().op, GetParam().operands)) {
    for (const auto& f : signature_.map.factors) degrees_.push_back(1), sizes_.push_back(f.size);
    for (const auto& [name, degree] : GetParam().split) {
      const int f = signature_.map.find(name);
      CHECK(f >= 0, GetParam().name, name);
      degrees_[static_cast<std::size_t>(f)] = degree;
    }
    for (std::size_t i = 0; i < GetParam().operands.size(); ++i) {
      whole_.push_back(random(GetParam().operands[i], draw_));
      if (i == 0 && GetParam().density < 1) clear_rows(whole_.back());
      if (!is_index(i)) continue;
      const auto& of = GetParam().operands[i == 0 ? 1 : 0];  // A table, or logits
      const auto rows = static_cast<double>(i == 0 ? of[of.rank() - 2] : of[of.rank() - 1]);
      for (auto& x : whole_.back().data) x = std::floor((x + 1) / 2 * rows);
    }
  }

  static void clear_rows(Values& v) {
    const auto width = static_cast<std::size_t>(v.shape[v.shape.rank() - 1]);
    for (std::size_t row = 0; row < v.data.size() / width; ++row) {
      if (row % 3 != 1) std::fill_n(v.data.begin() + row * width, width, 0.0);
    }
  }

  static bool is_index(std::size_t i) {
    return ((GetParam().op.spec().index_inputs >> i) & 1U) != 0;
  }

  // Returns the shard of operand `i` on a device with these factor ranges.
  Shard place(std::size_t i, const std::vector<term::FactorRange>& ranges) const {
    const auto box = term::compute_box(signature_.map.inputs[i], ranges);
    return {.sizes = GetParam().operands[i],
            .local = box.size,
            .offset = box.offset,
            .density = i == 0 ? GetParam().density : 1,
            .dtype = kType};
  }

  Values cut(std::size_t i, const Shard& shard) const {
    Values out(shard.local);
    std::size_t n = 0;
    for_each_index(shard.local, [&](Shape at) {
      for (std::size_t d = 0; d < at.rank(); ++d) at[d] += shard.offset[d];
      out.data[n++] = whole_[i].data[static_cast<std::size_t>(compute_flat_index(shard.sizes, at))];
    });
    return out;
  }

  void check_devices() {
    const c10::InferenceMode no_autograd;
    const Shape devices{std::span<const std::int64_t>(degrees_)};
    for_each_index(devices, [&](const Shape& device) {
      SCOPED_TRACE(testing::Message() << "device " << to_text(device));
      check_device(device);
    });
  }

  void check_device(const Shape& device) {
    std::vector<term::FactorRange> ranges;
    for (std::size_t f = 0; f < sizes_.size(); ++f) {
      const auto local = sizes_[f] / degrees_[f];
      ranges.push_back({local, sizes_[f], device[f] * local});
    }
    Call call{.op = GetParam().op, .operands = {}};
    const auto made = term::compute_box(signature_.map.output, ranges);
    call.result = {
        .sizes = term::to_shape(signature_.map.output), .local = made.size, .offset = made.offset};
    std::vector<Values> shards;
    std::vector<at::Tensor> tensors;
    for (std::size_t i = 0; i < whole_.size(); ++i) {
      call.operands.push_back(place(i, ranges));
      shards.push_back(cut(i, call.operands.back()));
      tensors.push_back(to_tensor(shards.back(), is_index(i)).to(place_));
    }
    std::vector<term::Operand<double>> inputs;
    for (std::size_t i = 0; i < shards.size(); ++i) {
      const auto& dims = signature_.map.inputs[i];
      inputs.emplace_back(shards[i], term::compute_box(dims, ranges).offset, term::to_shape(dims));
    }
    term::Evaluation<double> evaluation(signature_.meaning, ranges, inputs);
    const auto& dims = signature_.map.output;

    const auto& kernel = find_kernel(call);
    const auto result = kernel.forward(call, tensors);
    std::vector<at::Tensor> saved;
    call.saved = &saved;
    kernel.forward(call, tensors);
    call.saved = nullptr;
    const auto expected = evaluation.forward(dims);
    EXPECT_LE(difference(result, expected), 1e-12) << "forward";

    const auto gradient = random(expected.shape, draw_);
    std::vector<Values> gradients;
    std::vector<Values*> into;
    term::InputMask all = 0;
    for (std::size_t i = 0; i < shards.size(); ++i) gradients.emplace_back(shards[i].shape);
    for (std::size_t i = 0; i < shards.size(); ++i) {
      into.push_back(is_index(i) ? nullptr : &gradients[i]);
      if (!is_index(i)) all |= term::InputMask{1} << i;
    }
    evaluation.backward(dims, gradient, into);
    // Checks the gradients of all operands, and of each one alone with only the tensors that it
    // needs.
    const auto check = [&](const char* what, term::InputMask wanted) {
      auto given = tensors;
      const auto read = term::find_saved_inputs(signature_.meaning, wanted);
      for (std::size_t i = 0; i < given.size(); ++i) {
        if ((read >> i & 1U) == 0) given[i] = at::Tensor();
      }
      const auto got = kernel.backward(call, {.operands = given,
                                              .result = saved_result_,
                                              .gradient = to_tensor(gradient).to(place_),
                                              .wanted = wanted});
      for (std::size_t i = 0; i < shards.size(); ++i) {
        if ((wanted >> i & 1U) == 0) continue;
        EXPECT_LE(difference(got[i], gradients[i]), 1e-12) << what << " gradient of operand " << i;
      }
    };
    const auto check_all = [&](const char* what) {
      check(what, all);
      for (std::size_t i = 0; i < shards.size(); ++i) {
        const auto one = term::InputMask{1} << i;
        if ((all & one) != 0) check(what, one);
      }
    };
    saved_result_ = at::Tensor();
    check_all("plain:");
    saved_result_ = result;
    if (kernel.uses_result(call.op)) check_all("from the result:");
    saved_result_ = at::Tensor();
    call.saved = &saved;
    if (!saved.empty()) check_all("with what forward kept:");
    call.saved = nullptr;
    call.row_sparse = true;
    // Only libtorch's own devices have sparse tensors.
    const bool has_sparse = place_ != guarded_device();
    if (GetParam().op.spec().row_sparse_operand && has_sparse) check_all("sparse:");
  }

  ops::Signature signature_;
  std::vector<std::int64_t> degrees_, sizes_;
  std::vector<Values> whole_;
  at::Tensor saved_result_;
  at::Device place_ = at::kCPU;
  std::mt19937_64 draw_{7};
};

TEST_P(KernelTest, ComputesItsOperator) { check_devices(); }

// On the guarded device, as on a GPU, code must not access elements directly, and all operands must
// be on the device.
TEST_P(KernelTest, ComputesItWithoutAccessFromTheCpu) {
  place_ = guarded_device();
  check_devices();
}

#ifdef TANDEM_HAS_CUDA
TEST_P(KernelTest, ComputesItOnAGpu) {
  if (const auto why = why_no_gpu()) GTEST_SKIP() << *why;
  place_ = at::Device(at::kCUDA, 0);
  check_devices();
}
#endif

INSTANTIATE_TEST_SUITE_P(All, KernelTest, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

// For all attributes and shapes, either the operator's own kernel runs, or its meaning if the
// kernel does not cover them.
TEST(Kernels, RunEveryUseOfEveryOperator) {
  std::mt19937_64 draw(5);
  for (const auto& example : ops::examples()) {
    SCOPED_TRACE(format_name(example));
    const auto in = ops::random_inputs<double>(example, draw);
    const auto& s = ops::get_signature(make(example), example.inputs);
    Call call{.op = make(example), .operands = {}};
    std::vector<at::Tensor> tensors;
    BackwardInput input{.operands = {}, .result = {}, .gradient = {}};
    for (std::size_t i = 0; i < in.size(); ++i) {
      Shape zero = in[i].shape;
      for (auto& z : zero) z = 0;
      call.operands.push_back({in[i].shape, in[i].shape, zero, 1, kType});
      tensors.push_back(to_tensor(in[i], is_index(example, i)));
      if (!is_index(example, i)) input.wanted |= term::InputMask{1} << i;
    }
    term::Evaluation<double> evaluation(s.meaning, make_full_ranges(s.map), ops::operands(in));
    const auto expected = evaluation.forward(s.map.output);
    const auto& kernel = find_kernel(call);
    EXPECT_LE(difference(kernel.forward(call, tensors), expected), 1e-12);

    const auto gradient = term::random_dense<double>(expected.shape, draw);
    std::vector<Values> gradients;
    std::vector<Values*> into;
    for (std::size_t i = 0; i < in.size(); ++i) gradients.emplace_back(in[i].shape);
    for (std::size_t i = 0; i < in.size(); ++i) {
      into.push_back(is_index(example, i) ? nullptr : &gradients[i]);
    }
    evaluation.backward(s.map.output, gradient, into);
    input.operands = tensors;
    input.gradient = to_tensor(gradient, false);
    const auto got = kernel.backward(call, input);
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (into[i] == nullptr) continue;
      EXPECT_LE(difference(got[i], gradients[i]), 1e-11) << "operand " << i;
    }
  }
}

}  // namespace
}  // namespace tandem::runtime
