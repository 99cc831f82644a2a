// Attribute structs that other directories use to build or inspect operators. An operator whose
// attributes nobody else needs defines them in its own file.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/fields.h"
#include "tensor/tensor_type.h"

namespace tandem::ops {

using Sizes = std::vector<std::int64_t>;

enum class Activation : std::uint8_t { kNone, kRelu, kGelu, kSilu, kSigmoid, kTanh };
inline constexpr std::array<std::string_view, 6> kActivationNames = {"none", "relu",    "gelu",
                                                                     "silu", "sigmoid", "tanh"};
inline std::string attribute_text(Activation a) {
  return std::string(kActivationNames[static_cast<std::size_t>(a)]);
}
inline bool parse_attribute(std::string_view text, Activation& out) {
  const auto at = std::ranges::find(kActivationNames, text);
  out = static_cast<Activation>(at - kActivationNames.begin());
  return at != kActivationNames.end();
}

// Attributes of input, a tensor that the caller feeds every step. `shape` includes its layout.
struct Input {
  ParallelShape shape;
  DType dtype = DType::kFp32;
  std::int64_t below = 0;  // exclusive upper bound of integer indices; 0 for real values
  bool operator==(const Input&) const = default;
  static constexpr auto fields =
      std::tuple{AttributeField{"shape", &Input::shape}, AttributeField{"dtype", &Input::dtype},
                 AttributeField{"below", &Input::below}};
};

// Attributes of weight, a parameter. `shape` includes its layout; a frozen weight is not trained.
struct Weight {
  ParallelShape shape;
  DType dtype = DType::kFp32;
  bool frozen = false;
  bool operator==(const Weight&) const = default;
  static constexpr auto fields =
      std::tuple{AttributeField{"shape", &Weight::shape}, AttributeField{"dtype", &Weight::dtype},
                 AttributeField{"frozen", &Weight::frozen}};
};

// Attributes of constant, a tensor that is the same every step. `kind` is "fill" (every element is
// `value`), "iota" (`value` times the index along `axis`) or "eye" (`value` where the last two
// indices are equal, 0 elsewhere).
struct Constant {
  ParallelShape shape;
  DType dtype = DType::kFp32;
  std::string kind = "fill";
  double value = 0;
  std::int64_t axis = 0;
  bool operator==(const Constant&) const = default;
  static constexpr auto fields = std::tuple{
      AttributeField{"shape", &Constant::shape}, AttributeField{"dtype", &Constant::dtype},
      AttributeField{"kind", &Constant::kind}, AttributeField{"value", &Constant::value},
      AttributeField{"axis", &Constant::axis}};
};

struct LinearAttributes {
  Activation act = Activation::kNone;
  bool operator==(const LinearAttributes&) const = default;
  static constexpr auto fields = std::tuple{AttributeField{"act", &LinearAttributes::act}};
};

struct Contract {
  std::string index;  // for example "b s i, h d i -> b h s d"
  double scale = 1;
  bool operator==(const Contract&) const = default;
  static constexpr auto fields = std::tuple{AttributeField{"index", &Contract::index},
                                            AttributeField{"scale", &Contract::scale}};
};

// Attributes of conv2d. `stride` and `dilation` are {rows, columns}. `padding` is {rows, columns}
// or {top, left, bottom, right}.
struct Conv2d {
  Sizes stride = {1, 1};
  Sizes padding = {0, 0};
  Sizes dilation = {1, 1};
  std::int64_t groups = 1;
  Activation act = Activation::kNone;
  bool operator==(const Conv2d&) const = default;
  static constexpr auto fields = std::tuple{
      AttributeField{"stride", &Conv2d::stride}, AttributeField{"padding", &Conv2d::padding},
      AttributeField{"dilation", &Conv2d::dilation}, AttributeField{"groups", &Conv2d::groups},
      AttributeField{"act", &Conv2d::act}};
};

// Attributes of max_pool2d and avg_pool2d. `ceil` rounds the size of the result up. With
// `count_padding`, an average counts padded elements, but none beyond the padding.
struct Pool2d {
  Sizes kernel = {1, 1};
  Sizes stride = {1, 1};
  Sizes padding = {0, 0};
  bool ceil = false;
  bool count_padding = true;
  bool operator==(const Pool2d&) const = default;
  static constexpr auto fields = std::tuple{
      AttributeField{"kernel", &Pool2d::kernel}, AttributeField{"stride", &Pool2d::stride},
      AttributeField{"padding", &Pool2d::padding}, AttributeField{"ceil", &Pool2d::ceil},
      AttributeField{"count_padding", &Pool2d::count_padding}};
};

// Attributes of batch_norm and batch_moments. Each group of `group` samples is normalised
// separately; 0 means the whole batch.
struct BatchNorm {
  double eps = 1e-5;
  std::int64_t group = 0;
  bool operator==(const BatchNorm&) const = default;
  static constexpr auto fields = std::tuple{AttributeField{"eps", &BatchNorm::eps},
                                            AttributeField{"group", &BatchNorm::group}};
};

// Attributes of layer_norm, rms_norm and batch_normalize.
struct Norm {
  double eps = 1e-5;
  bool operator==(const Norm&) const = default;
  static constexpr auto fields = std::tuple{AttributeField{"eps", &Norm::eps}};
};

// Attributes of softmax. With `causal`, element t of row s counts only if t <= s. The rows are the
// dimension before the last.
struct Softmax {
  std::int64_t axis = -1;
  bool causal = false;
  bool operator==(const Softmax&) const = default;
  static constexpr auto fields = std::tuple{AttributeField{"axis", &Softmax::axis},
                                            AttributeField{"causal", &Softmax::causal}};
};

struct Attention {
  double scale = 1;
  bool causal = false;
  bool operator==(const Attention&) const = default;
  static constexpr auto fields = std::tuple{AttributeField{"scale", &Attention::scale},
                                            AttributeField{"causal", &Attention::causal}};
};

enum class BagMode : std::uint8_t { kSum, kMean };
inline std::string attribute_text(BagMode m) { return m == BagMode::kSum ? "sum" : "mean"; }
inline bool parse_attribute(std::string_view text, BagMode& out) {
  out = text == "mean" ? BagMode::kMean : BagMode::kSum;
  return text == "mean" || text == "sum";
}
struct EmbeddingBag {
  BagMode mode = BagMode::kSum;
  bool operator==(const EmbeddingBag&) const = default;
  static constexpr auto fields = std::tuple{AttributeField{"mode", &EmbeddingBag::mode}};
};

// Attributes of top_k_gate.
struct TopK {
  std::int64_t k = 1;
  bool operator==(const TopK&) const = default;
  static constexpr auto fields = std::tuple{AttributeField{"k", &TopK::k}};
};

// Attributes of moe_dispatch. `density` is the fraction of the tokens that each expert gets: k /
// experts, times the assumed imbalance.
struct Dispatch {
  double density = 1;
  bool operator==(const Dispatch&) const = default;
  static constexpr auto fields = std::tuple{AttributeField{"density", &Dispatch::density}};
};

// Attributes of concat and append.
struct Concat {
  std::int64_t axis = 0;
  bool operator==(const Concat&) const = default;
  static constexpr auto fields = std::tuple{AttributeField{"axis", &Concat::axis}};
};

// Attributes of split, which returns part number `part` of `parts` equal parts.
struct SplitAttributes {
  std::int64_t axis = 0;
  std::int64_t parts = 1;
  std::int64_t part = 0;
  bool operator==(const SplitAttributes&) const = default;
  static constexpr auto fields = std::tuple{AttributeField{"axis", &SplitAttributes::axis},
                                            AttributeField{"parts", &SplitAttributes::parts},
                                            AttributeField{"part", &SplitAttributes::part}};
};

struct Slice {
  std::int64_t axis = 0;
  std::int64_t begin = 0;
  std::int64_t size = 1;
  bool operator==(const Slice&) const = default;
  static constexpr auto fields =
      std::tuple{AttributeField{"axis", &Slice::axis}, AttributeField{"begin", &Slice::begin},
                 AttributeField{"size", &Slice::size}};
};

// Attributes of pad, which adds zeros `before` and `after` the input along `axis`.
struct Pad {
  std::int64_t axis = 0;
  std::int64_t before = 0;
  std::int64_t after = 0;
  bool operator==(const Pad&) const = default;
  static constexpr auto fields =
      std::tuple{AttributeField{"axis", &Pad::axis}, AttributeField{"before", &Pad::before},
                 AttributeField{"after", &Pad::after}};
};

// Attributes of reshape and expand.
struct Reshape {
  Sizes shape = {};
  bool operator==(const Reshape&) const = default;
  static constexpr auto fields = std::tuple{AttributeField{"shape", &Reshape::shape}};
};

// Attributes of flatten. The dimensions before `axis` become one dimension, and the remaining ones
// another.
struct Flatten {
  std::int64_t axis = 1;
  bool operator==(const Flatten&) const = default;
  static constexpr auto fields = std::tuple{AttributeField{"axis", &Flatten::axis}};
};

// Attributes of transpose. Dimension d of the result is dimension perm[d] of the input.
struct Transpose {
  Sizes perm = {};
  bool operator==(const Transpose&) const = default;
  static constexpr auto fields = std::tuple{AttributeField{"perm", &Transpose::perm}};
};

// Attributes of reduce_sum, reduce_mean and reduce_max. `keep_dims` retains the reduced dimensions
// with size 1.
struct Reduction {
  Sizes axes = {};
  bool keep_dims = false;
  bool operator==(const Reduction&) const = default;
  static constexpr auto fields = std::tuple{AttributeField{"axes", &Reduction::axes},
                                            AttributeField{"keep", &Reduction::keep_dims}};
};

// Attributes of dropout. `origin` distinguishes this node's random numbers from those of other
// nodes; graph rewrites preserve it.
struct Dropout {
  double p = 0.5;
  std::int64_t origin = 0;
  bool operator==(const Dropout&) const = default;
  static constexpr auto fields =
      std::tuple{AttributeField{"p", &Dropout::p}, AttributeField{"origin", &Dropout::origin}};
};

struct Cast {
  DType to = DType::kFp32;
  bool operator==(const Cast&) const = default;
  static constexpr auto fields = std::tuple{AttributeField{"to", &Cast::to}};
};

struct ScaleAttributes {
  double factor = 1;
  bool operator==(const ScaleAttributes&) const = default;
  static constexpr auto fields = std::tuple{AttributeField{"factor", &ScaleAttributes::factor}};
};

// Attributes of convert_leaky_relu.
struct Slope {
  double slope = 0.01;
  bool operator==(const Slope&) const = default;
  static constexpr auto fields = std::tuple{AttributeField{"slope", &Slope::slope}};
};

struct Clip {
  double min = 0;
  double max = 1;
  bool operator==(const Clip&) const = default;
  static constexpr auto fields =
      std::tuple{AttributeField{"min", &Clip::min}, AttributeField{"max", &Clip::max}};
};

// Attributes of rope. The angles are position x base^(-2i / width). `first` is the position of the
// first row.
struct Rope {
  double base = 10000;
  std::int64_t first = 0;
  bool operator==(const Rope&) const = default;
  static constexpr auto fields =
      std::tuple{AttributeField{"base", &Rope::base}, AttributeField{"first", &Rope::first}};
};

// Attributes of partition and combine.
struct DimDegree {
  std::int64_t dim = 0;
  std::int64_t degree = 1;
  bool operator==(const DimDegree&) const = default;
  static constexpr auto fields = std::tuple{AttributeField{"dim", &DimDegree::dim},
                                            AttributeField{"degree", &DimDegree::degree}};
};

// Attributes of replicate, reduce and unreplicate.
struct Degree {
  std::int64_t degree = 1;
  bool operator==(const Degree&) const = default;
  static constexpr auto fields = std::tuple{AttributeField{"degree", &Degree::degree}};
};

}  // namespace tandem::ops
