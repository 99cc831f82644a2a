// Parts of a tensor along one dimension (split, slice), and a tensor surrounded by zeros (pad). All
// read the input at a shifted index, and elements outside it are zero. A device that computes a
// part of the dimension reads a window.
#include "ops/attributes.h"
#include "ops/index_text.h"
#include "ops/registry.h"
#include "ops/trial.h"

namespace tandem::ops {

namespace {

// Returns the index text of `size` elements, the first at `begin` of the input: "a0 c+4 -> a0 c:8".
std::string format_shifted_index(std::size_t axis, std::size_t rank, std::int64_t begin,
                                 std::int64_t size) {
  Names from;
  for (std::size_t d = 0; d < rank; ++d) from.push_back(fmt::format("a{}", d));
  Names to = from;
  from[axis] = fmt::format("c{:+}", begin);
  to[axis] = fmt::format("c:{}", size);
  return fmt::format("{} -> {}", join(from, " "), join(to, " "));
}

std::string split_index(const SplitAttributes& a, std::span<const Shape> in) {
  check_inputs(in, 1, 1);
  const auto axis = normalize_axis(a.axis, in[0].rank());
  if (a.parts < 1 || in[0][axis] % a.parts != 0) {
    return report_misfit([&] {
      return fmt::format("dim {} is {}, which is not divisible into {} equal parts", axis,
                         in[0][axis], a.parts);
    });
  }
  check_attribute("part", a.part, 0, a.parts - 1);
  const auto size = in[0][axis] / a.parts;
  return format_shifted_index(axis, in[0].rank(), a.part * size, size);
}

std::string slice_index(const Slice& a, std::span<const Shape> in) {
  check_inputs(in, 1, 1);
  const auto axis = normalize_axis(a.axis, in[0].rank());
  const auto all = in[0][axis];
  if (a.begin < 0 || a.size < 1 || a.begin > all || a.size > all - a.begin) {
    return report_misfit([&] {
      return fmt::format("dim {} is {}, too small for {} elements from {}", axis, all, a.size,
                         a.begin);
    });
  }
  return format_shifted_index(axis, in[0].rank(), a.begin, a.size);
}

std::string pad_index(const Pad& a, std::span<const Shape> in) {
  check_inputs(in, 1, 1);
  const auto axis = normalize_axis(a.axis, in[0].rank());
  check_attribute("before", a.before, 0, kLargestSize);
  check_attribute("after", a.after, 0, kLargestSize);
  return format_shifted_index(axis, in[0].rank(), -a.before, a.before + in[0][axis] + a.after);
}

template <class Attributes>
OpSpec define_shift(const std::string& name, const std::string& doc, const std::string& index,
                    const std::string& onnx,
                    std::string (*index_text)(const Attributes&, std::span<const Shape>)) {
  return define_op<Attributes>({
      .name = name,
      .doc = doc,
      .index = index,
      .kernel = name,
      .onnx = {onnx},
      .index_text = index_text,
      .meaning = [](const Attributes&, std::span<const Shape>) { return term::input(0); },
  });
}

}  // namespace

const OpSpec kPad =
    define_shift<Pad>("pad", "pads the input with `before` and `after` zeros along `axis`",
                      "a c-1 -> a c", "Pad", pad_index);
const OpSpec kSlice =
    define_shift<Slice>("slice", "out = `size` elements along `axis`, starting at `begin`",
                        "a c+4 -> a c", "Slice", slice_index);
const OpSpec kSplit = define_shift<SplitAttributes>(
    "split", "out = part number `part` of `parts` equal parts along `axis`", "a c+4 -> a c",
    "Split", split_index);

}  // namespace tandem::ops
