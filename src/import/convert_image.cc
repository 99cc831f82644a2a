// Converters of convolutions, pools, normalizations and resizing of images. Operators on one
// spatial dimension become operators on two, with rows of size 1.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "import/importer.h"
#include "ops/attributes.h"
#include "ops/registry.h"

namespace tandem::import {

namespace {

using ops::make_op;

// Returns [n, c, w] as [n, c, 1, w]; an image of rank 4 is unchanged.
NodeId as_image(OnnxCall& call, NodeId x) {
  auto sizes = call.node_sizes(x);
  if (sizes.size() == 4) return x;
  if (sizes.size() != 3) {
    reject(fmt::format("a tensor of rank {} is not supported", sizes.size()),
           "images must have one or two spatial dimensions");
  }
  sizes.insert(sizes.begin() + 2, 1);
  return call.add_reshape(x, sizes);
}

// Defines the result of an operator on images, with the spatial dimensions of the input.
void set_image_result(OnnxCall& call, const ops::Op& op, std::span<const NodeId> inputs) {
  if (call.rank(0) == 4) {
    call.set_result(op, inputs);
    return;
  }
  const auto image = call.add(op, inputs);
  auto sizes = call.node_sizes(image);
  sizes.erase(sizes.begin() + 2);
  call.set_result(make_op(ops::kReshape, ops::Reshape{sizes}), {image});
}

struct WindowSizes {
  Sizes kernel, stride, padding, dilation;
};

std::int64_t check_range(std::int64_t value, std::int64_t least) {
  if (value < least || value > (std::int64_t{1} << 20U)) {
    reject(fmt::format("a kernel size, stride, dilation or padding of {} is out of range", value));
  }
  return value;
}

// Reads kernel_shape, strides, pads, dilations and auto_pad for two dimensions. `kernel` holds the
// spatial sizes of the weight.
WindowSizes read_window_sizes(OnnxCall& call, Sizes kernel) {
  const auto spatial = call.rank(0) < 2 ? 0 : call.rank(0) - 2;
  if (const auto given = call.integers("kernel_shape")) kernel = *given;
  WindowSizes w{.kernel = std::move(kernel),
                .stride = call.integers("strides").value_or(Sizes(spatial, 1)),
                .padding = call.integers("pads").value_or(Sizes(2 * spatial, 0)),
                .dilation = call.integers("dilations").value_or(Sizes(spatial, 1))};
  if (w.kernel.size() != spatial || w.stride.size() != spatial || w.dilation.size() != spatial ||
      w.padding.size() != 2 * spatial) {
    reject(fmt::format(
        "kernel_shape, strides, dilations or pads do not match {} spatial dimensions", spatial));
  }
  for (auto n : w.kernel) check_range(n, 1);
  for (auto n : w.stride) check_range(n, 1);
  for (auto n : w.dilation) check_range(n, 1);
  const auto mode = call.text("auto_pad", "NOTSET");
  if (mode != "NOTSET" && mode != "VALID" && mode != "SAME_UPPER" && mode != "SAME_LOWER") {
    reject(fmt::format("auto_pad {} is not supported", mode));
  }
  for (std::size_t d = 0; d < spatial && mode.starts_with("SAME"); ++d) {
    const auto size = call.sizes(0)[2 + d];
    const auto windows = (size + w.stride[d] - 1) / w.stride[d];
    const auto reach = (windows - 1) * w.stride[d] + (w.kernel[d] - 1) * w.dilation[d] + 1;
    const auto total = std::max<std::int64_t>(0, reach - size);
    const auto less = total / 2;
    w.padding[d] = mode == "SAME_UPPER" ? less : total - less;
    w.padding[spatial + d] = total - w.padding[d];
  }
  for (auto n : w.padding) check_range(n, 0);
  if (spatial == 1) {
    w.kernel.insert(w.kernel.begin(), 1);
    w.stride.insert(w.stride.begin(), 1);
    w.dilation.insert(w.dilation.begin(), 1);
    w.padding = {0, w.padding[0], 0, w.padding[1]};
  }
  if (w.padding.size() == 4 && w.padding[0] == w.padding[2] && w.padding[1] == w.padding[3]) {
    w.padding.resize(2);
  }
  return w;
}

void convert_conv(OnnxCall& call) {
  const auto weight_sizes = call.sizes(1);
  if (weight_sizes.size() != call.rank(0) || weight_sizes.size() < 3) {
    reject(fmt::format("the weight has rank {}, but the input has rank {}", weight_sizes.size(),
                       call.rank(0)));
  }
  const auto w = read_window_sizes(call, Sizes(weight_sizes.begin() + 2, weight_sizes.end()));
  std::vector<NodeId> inputs = {as_image(call, call.tensor(0)), as_image(call, call.weight(1))};
  if (call.has(2)) inputs.push_back(call.weight(2));
  const ops::Conv2d a{w.stride, w.padding, w.dilation, call.integer("group", 1),
                      ops::Activation::kNone};
  set_image_result(call, make_op(ops::kConv2d, a), inputs);
}

// Merges two neighbouring dimensions of three if the windows do not span them. PyTorch exports
// local response normalization as such a pool over the channels.
struct Joined {
  WindowSizes windows;
  Sizes image;  // empty if nothing was merged
};

Joined join_dimensions(WindowSizes w, const Sizes& sizes) {
  const auto alone = [&](std::size_t d) {
    return w.kernel[d] == 1 && w.stride[d] == 1 && w.padding[d] == 0 && w.padding[3 + d] == 0;
  };
  for (std::size_t d = 0; sizes.size() == 5 && w.padding.size() == 6 && d < 2; ++d) {
    if (!alone(d) || !alone(d + 1)) continue;
    const auto at = static_cast<std::ptrdiff_t>(d);
    Sizes image = sizes;
    image[2 + d] *= image[3 + d];
    image.erase(image.begin() + 3 + at);
    for (auto* list : {&w.kernel, &w.stride, &w.dilation}) list->erase(list->begin() + at);
    w.padding.erase(w.padding.begin() + 3 + at);
    w.padding.erase(w.padding.begin() + at);
    return {std::move(w), std::move(image)};
  }
  return {std::move(w), {}};
}

void convert_pool(OnnxCall& call) {
  if (!call.attribute("kernel_shape")) reject("attribute kernel_shape is missing");
  const auto [w, joined] = join_dimensions(read_window_sizes(call, {}), call.sizes(0));
  if (std::ranges::any_of(w.dilation, [](auto n) { return n != 1; })) {
    reject("dilations other than 1 are not supported");
  }
  if (call.integer("storage_order", 0) != 0) reject("storage_order 1 is not supported");
  const bool average = call.op() == "AveragePool";
  const ops::Pool2d a{w.kernel, w.stride, w.padding, call.integer("ceil_mode", 0) != 0,
                      average && call.integer("count_include_pad", 0) != 0};
  const auto x =
      joined.empty() ? as_image(call, call.tensor(0)) : call.add_reshape(call.tensor(0), joined);
  // Without padding, the mean covers the whole window either way.
  auto attributes = a;
  const bool padded = std::ranges::any_of(a.padding, [](auto n) { return n != 0; });
  if (!average || (!padded && !a.ceil)) attributes.count_padding = true;
  const auto op = make_op(average ? ops::kAvgPool2d : ops::kMaxPool2d, attributes);
  if (joined.empty()) {
    set_image_result(call, op, std::span(&x, 1));
  } else {
    // Splits the merged dimensions, whose sizes are unchanged.
    const auto pooled = call.add(op, {x});
    auto sizes = call.sizes(0);
    const auto now = call.node_sizes(pooled);
    sizes[now[2] == sizes[2] * sizes[3] ? 4 : 2] = now[now[2] == sizes[2] * sizes[3] ? 3 : 2];
    call.set_result(make_op(ops::kReshape, ops::Reshape{sizes}), {pooled});
  }
  call.mark_unusable(1, "it holds the indices of a MaxPool");
}

void convert_global_pool(OnnxCall& call) {
  if (call.rank(0) < 3) reject("the input must have spatial dimensions");
  ops::Reduction a{.axes = {}, .keep_dims = true};
  for (std::size_t d = 2; d < call.rank(0); ++d) a.axes.push_back(static_cast<std::int64_t>(d));
  const bool mean = call.op() == "GlobalAveragePool";
  call.set_result(make_op(mean ? ops::kReduceMean : ops::kReduceMax, a), {call.tensor(0)});
}

// Converts with the statistics of the batch, as in training. The running statistics are no
// parameters.
void convert_batch_norm(OnnxCall& call) {
  // For vectors, every position is a channel.
  if (call.integer("spatial", 1) == 0 && call.rank(0) != 2) {
    reject("spatial=0 (statistics for every position) is not supported");
  }
  call.integer("training_mode", 0);
  for (std::size_t i = 3; i < 5; ++i) {
    if (call.has(i)) call.value(i);
  }
  const ops::BatchNorm a{call.real("epsilon", 1e-5), 0};
  call.set_result(make_op(ops::kBatchNorm, a), {call.tensor(0), call.weight(1), call.weight(2)});
  for (std::size_t i = 1; i < call.outputs(); ++i) {
    call.mark_unusable(i, "it is a statistic of a BatchNormalization");
  }
}

// Takes scale and shift from the file, unless they change nothing: exporters write group norm with
// ones and zeros here and the real scale and shift behind it.
void convert_instance_norm(OnnxCall& call) {
  const auto operand = [&](std::size_t i) {
    const auto k = call.known(i);
    return k && match_constant(*k) ? call.tensor(i) : call.weight(i);
  };
  const ops::BatchNorm a{call.real("epsilon", 1e-5), 1};
  const auto x = call.tensor(0);
  call.set_result(make_op(ops::kBatchNorm, a), {x, operand(1), operand(2)});
}

void convert_group_norm(OnnxCall& call) {
  const auto groups = call.integer("num_groups", 0);
  if (call.rank(0) < 2 || groups < 1 || call.sizes(0)[1] % groups != 0) {
    reject(fmt::format("num_groups is {} and must divide the number of channels", groups));
  }
  const auto channels = call.sizes(0)[1];
  // Before opset 21 there was one value for each group.
  const auto operand = [&](std::size_t i) {
    const auto x = call.weight(i);
    if (call.node_sizes(x) != Sizes{groups} || groups == channels) return x;
    const Sizes wide = {groups, channels / groups};
    return call.add_reshape(
        call.add(make_op(ops::kExpand, ops::Reshape{wide}), {call.add_reshape(x, {groups, 1})}),
        {channels});
  };
  const auto op =
      ops::parse_op(ops::kGroupNorm, {{"groups", fmt::format("{}", groups)},
                                      {"eps", fmt::format("{}", call.real("epsilon", 1e-5))}});
  call.set_result(op, {call.tensor(0), operand(1), operand(2)});
}

// Subtracts the mean and divides by the standard deviation; by default over all dimensions but the
// channels.
void convert_mean_variance_norm(OnnxCall& call) {
  ops::Reduction a{.axes = call.integers("axes").value_or(Sizes{0, 2, 3}), .keep_dims = true};
  for (auto& axis : a.axes) axis = static_cast<std::int64_t>(call.axis(axis, call.rank(0)));
  const auto mean = make_op(ops::kReduceMean, a);
  const auto x = call.tensor(0);
  const auto centred = call.add(ops::kSub, {x, call.add(mean, {x})});
  const auto variance = call.add(mean, {call.add(ops::kSquare, {centred})});
  const auto least = call.scalar(1e-9, call.dtype(x));
  const auto root = call.add(ops::kSqrt, {call.add(ops::kAdd, {variance, least})});
  call.set_result(ops::kDiv, {centred, root});
}

void convert_lrn(OnnxCall& call) {
  const auto text = [&](const char* name, double otherwise) {
    return fmt::format("{}", call.real(name, otherwise));
  };
  const auto op = ops::parse_op(ops::kLrn, {{"size", fmt::format("{}", call.integer("size", 0))},
                                            {"alpha", text("alpha", 1e-4)},
                                            {"beta", text("beta", 0.75)},
                                            {"bias", text("bias", 1)}});
  call.set_result(op, {call.tensor(0)});
}

// Converts Resize and Upsample to an integer multiple by the nearest element: copies along new
// dimensions.
void convert_upsample(OnnxCall& call) {
  const auto mode = call.text("mode", "nearest");
  if (mode != "nearest") reject(fmt::format("mode {} is not supported", mode), "use nearest");
  // Accepts the modes with which an integer multiple copies every element.
  const bool old = call.op() == "Upsample" || call.opset() < 11;
  const auto place = call.text("coordinate_transformation_mode", old ? "asymmetric" : "half_pixel");
  const auto rounding = call.text("nearest_mode", old ? "floor" : "round_prefer_floor");
  const bool centred = place == "half_pixel" || place == "pytorch_half_pixel";
  if (!(centred && rounding.starts_with("round")) &&
      !(place == "asymmetric" && rounding == "floor")) {
    reject(fmt::format("{} with nearest_mode {} is not supported", place, rounding),
           "supported: asymmetric with floor, half_pixel with round_prefer_floor");
  }
  call.real("cubic_coeff_a", 0), call.real("extrapolation_value", 0);
  const auto x = call.tensor(0);
  const auto from = call.sizes(0);
  std::vector<double> scales;
  const auto* written = call.attribute("scales");
  const std::size_t at = call.op() == "Upsample" || call.opset() < 11 ? 1 : 2;
  const auto read_scales = [&](std::size_t i) {
    const auto k = call.has(i) ? call.contents(i) : nullptr;
    for (std::size_t d = 0; k && d < k->count(); ++d) scales.push_back(k->real(d));
  };
  if (written != nullptr) {
    scales = written->floats;
  } else {
    read_scales(at);
  }
  if (const auto* h = call.attribute("height_scale")) {
    scales = {1, 1, h->f, call.real("width_scale", 1)};
  }
  if (scales.empty() && call.has(3)) {
    const auto sizes = call.known_integers(3, "sizes");
    for (std::size_t d = 0; d < std::min(sizes.size(), from.size()); ++d) {
      scales.push_back(static_cast<double>(sizes[d]) / static_cast<double>(from[d]));
    }
  }
  if (scales.size() != from.size()) reject("the number of scales differs from the rank");
  Sizes apart;
  Sizes copied;
  Sizes to;
  for (std::size_t d = 0; d < from.size(); ++d) {
    if (!(scales[d] >= 1 && scales[d] <= 1024) || scales[d] != std::floor(scales[d])) {
      reject(fmt::format("a scale of {} is not supported", scales[d]),
             "supported: integers from 1 to 1024");
    }
    const auto times = static_cast<std::int64_t>(scales[d]);
    apart.push_back(from[d]);
    copied.push_back(from[d]);
    if (times > 1) apart.push_back(1), copied.push_back(times);
    to.push_back(from[d] * times);
  }
  if (to == from) {
    call.alias_input();
    return;
  }
  const auto wide =
      call.add(make_op(ops::kExpand, ops::Reshape{copied}), {call.add_reshape(x, apart)});
  call.set_result(make_op(ops::kReshape, ops::Reshape{to}), {wide});
}

}  // namespace

ConverterList image_converters() {
  return {
      {"AveragePool", convert_pool},
      {"BatchNormalization", convert_batch_norm},
      {"Conv", convert_conv},
      {"GlobalAveragePool", convert_global_pool},
      {"GlobalMaxPool", convert_global_pool},
      {"GroupNormalization", convert_group_norm},
      {"InstanceNormalization", convert_instance_norm},
      {"LRN", convert_lrn},
      {"MaxPool", convert_pool},
      {"MeanVarianceNormalization", convert_mean_variance_norm},
      {"Resize", convert_upsample},
      {"Upsample", convert_upsample},
  };
}

}  // namespace tandem::import
