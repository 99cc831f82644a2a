// Converters of operators that take parts of tensors or join tensors.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "import/importer.h"
#include "ops/attributes.h"
#include "ops/registry.h"

namespace tandem::import {

namespace {

using ops::make_op;

constexpr std::size_t kMostParts = 64;  // most slices that a gather by known indices becomes

ops::Op make_slice(std::size_t axis, std::int64_t begin, std::int64_t size) {
  return make_op(ops::kSlice, ops::Slice{static_cast<std::int64_t>(axis), begin, size});
}

// --- Parts --------------------------------------------------------------------------------------

void convert_concat(OnnxCall& call) {
  if (call.inputs() == 0) reject("the node has no inputs");
  const auto axis = call.axis(call.integer("axis", 1), call.rank(0));
  std::vector<NodeId> inputs;
  for (std::size_t i = 0; i < call.inputs(); ++i) {
    // An operand of size 0 along the axis contributes nothing.
    if (call.rank(i) == call.rank(0) && call.sizes(i)[axis] == 0) continue;
    inputs.push_back(call.tensor(i));
  }
  if (inputs.size() == 1) {
    std::size_t only = 0;
    while (call.sizes(only)[axis] == 0 && only + 1 < call.inputs()) ++only;
    call.alias_input(0, only);
    return;
  }
  if (inputs.empty()) reject("all inputs are empty");
  call.set_result(make_op(ops::kConcat, ops::Concat{static_cast<std::int64_t>(axis)}), inputs);
}

void convert_split(OnnxCall& call) {
  const auto axis = call.axis(call.integer("axis", 0), call.rank(0));
  const auto whole = call.sizes(0)[axis];
  const auto n = static_cast<std::int64_t>(call.outputs());
  if (n == 0) reject("the node has no outputs");
  if (call.integer("num_outputs", n) != n) reject("num_outputs differs from the number of outputs");
  auto parts = call.integers_or_input("split", 1).value_or(Sizes{});
  if (parts.empty()) {
    const auto each = (whole + n - 1) / n;
    for (std::int64_t i = 0; i < n; ++i) parts.push_back(std::min(each, whole - i * each));
  }
  std::int64_t begin = 0;
  if (parts.size() != call.outputs())
    reject("the number of split sizes differs from the number of outputs");
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i] < 1 || parts[i] > whole - begin) {
      reject(fmt::format("the split sizes do not sum to {}", whole));
    }
    if (call.wants(i)) call.apply_move(make_slice(axis, begin, parts[i]), 0, i);
    begin += parts[i];
  }
  if (begin != whole) reject(fmt::format("the split sizes do not sum to {}", whole));
}

struct SliceRange {
  std::size_t axis;
  std::int64_t begin, size, step;
};

// Returns the range that a Slice with steps of at least 1 takes of each dimension.
std::vector<SliceRange> read_slice_ranges(OnnxCall& call) {
  const auto list = [&](const char* name, std::size_t i) {
    return call.integers_or_input(name, i);
  };
  const auto starts = list("starts", 1);
  const auto ends = list("ends", 2);
  auto axes = list("axes", 3);
  if (!starts || !ends) reject("starts or ends are missing");
  if (!axes) {
    axes.emplace(starts->size());
    std::iota(axes->begin(), axes->end(), 0);
  }
  const auto steps = list("steps", 4).value_or(Sizes(starts->size(), 1));
  if (ends->size() != starts->size() || axes->size() != starts->size() ||
      steps.size() != starts->size()) {
    reject("starts, ends, axes and steps differ in length");
  }
  std::vector<SliceRange> out;
  for (std::size_t i = 0; i < starts->size(); ++i) {
    const auto d = call.axis((*axes)[i], call.rank(0));
    const auto size = call.sizes(0)[d];
    const auto place = [&](std::int64_t at) {
      return std::clamp<std::int64_t>(at < 0 ? at + size : at, 0, size);
    };
    if (steps[i] < 1) reject(fmt::format("a step of {} is not supported", steps[i]));
    const auto begin = place((*starts)[i]);
    const auto length = place((*ends)[i]) - begin;
    if (length <= 0) reject("the result has no elements");
    if (begin != 0 || length != size || steps[i] != 1) out.push_back({d, begin, length, steps[i]});
  }
  return out;
}

// Takes every step-th element of the dimension: the first element of each group of `step`.
NodeId take_every_nth(OnnxCall& call, NodeId x, const SliceRange& p) {
  auto sizes = call.node_sizes(x);
  const auto groups = (p.size + p.step - 1) / p.step;
  const auto missing = groups * p.step - p.size;
  if (missing > 0) {
    x = call.add(make_op(ops::kPad, ops::Pad{static_cast<std::int64_t>(p.axis), 0, missing}), {x});
  }
  const auto at = static_cast<std::ptrdiff_t>(p.axis);
  sizes[p.axis] = p.step;
  sizes.insert(sizes.begin() + at, groups);
  x = call.add(make_slice(p.axis + 1, 0, 1), {call.add_reshape(x, sizes)});
  sizes.erase(sizes.begin() + at + 1);
  return call.add_reshape(x, sizes);
}

void convert_slice(OnnxCall& call) {
  const auto pieces = read_slice_ranges(call);
  if (pieces.empty()) {
    call.alias_input();
    return;
  }
  if (pieces.size() == 1 && pieces[0].step == 1) {
    call.apply_move(make_slice(pieces[0].axis, pieces[0].begin, pieces[0].size));
    return;
  }
  const bool apart = std::ranges::all_of(pieces, [](const SliceRange& p) { return p.step == 1; });
  if (apart && !call.value(0).fed.empty()) {
    auto v = call.value(0);
    for (const auto& p : pieces) v = call.move_fed_input(v, make_slice(p.axis, p.begin, p.size));
    call.set_result(std::move(v));
    return;
  }
  auto x = call.tensor(0);
  for (const auto& p : pieces) {
    if (p.begin != 0 || p.size != call.node_sizes(x)[p.axis]) {
      x = call.add(make_slice(p.axis, p.begin, p.size), {x});
    }
    if (p.step > 1) x = take_every_nth(call, x, p);
  }
  call.set_result(ops::kIdentity, {x});
}

void convert_pad(OnnxCall& call) {
  if (call.text("mode", "constant") != "constant") {
    reject(fmt::format("mode {} is not supported", call.text("mode", "")), "supported: constant");
  }
  auto value = call.real("value", 0);
  auto pads = call.integers_or_input(call.attribute("paddings") ? "paddings" : "pads", 1);
  if (call.has(2)) {
    const auto k = call.known_scalar(2);
    if (!k) reject("the value must be a constant scalar");
    value = *k;
  }
  if (value != 0)
    reject(fmt::format("padding with {} is not supported", value), "supported: padding with 0");
  if (!pads) reject("pads are missing");
  const auto rank = call.rank(0);
  Sizes axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  if (call.has(3)) axes = call.known_integers(3, "the axes");
  if (pads->size() != 2 * axes.size())
    reject("the number of pads must be twice the number of axes");
  std::vector<ops::Op> steps;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto d = call.axis(axes[i], rank);
    const auto before = (*pads)[i];
    const auto after = (*pads)[axes.size() + i];
    if (std::max(std::abs(static_cast<double>(before)), std::abs(static_cast<double>(after))) >
        0x1p40) {
      reject("a padding is out of range");
    }
    const auto signed_axis = static_cast<std::int64_t>(d);
    if (before < 0 || after < 0) {
      const auto begin = std::max<std::int64_t>(-before, 0);
      const auto size = call.sizes(0)[d] - begin - std::max<std::int64_t>(-after, 0);
      steps.push_back(make_slice(d, begin, size));
    }
    if (before > 0 || after > 0) {
      const ops::Pad a{signed_axis, std::max<std::int64_t>(before, 0),
                       std::max<std::int64_t>(after, 0)};
      steps.push_back(make_op(ops::kPad, a));
    }
  }
  auto x = call.tensor(0);
  if (steps.empty()) {
    call.alias_input();
    return;
  }
  for (std::size_t i = 0; i + 1 < steps.size(); ++i) x = call.add(steps[i], {x});
  call.set_result(steps.back(), {x});
}

// --- Gather -------------------------------------------------------------------------------------

// Looks up rows of `table`, of shape [rows, ...], by operand `from`, an integer input.
void look_up(OnnxCall& call, NodeId table, std::size_t from) {
  const auto table_sizes = call.node_sizes(table);
  if (table_sizes.empty()) reject("the table is a scalar");
  const auto rows = table_sizes[0];
  const Sizes behind(table_sizes.begin() + 1, table_sizes.end());
  const auto width = compute_product(behind);
  if (table_sizes.size() != 2) table = call.add_reshape(table, {rows, width});
  const auto index = call.index(from, rows);
  const auto moves = call.value(from).moves;
  if (moves.empty() && behind.size() == 1) {
    call.set_result(ops::kEmbedding, {index, table});
    return;
  }
  // The operators that moved the indices move the rows.
  auto out = call.add(ops::kEmbedding, {index, table});
  for (const auto& move : moves) out = call.add(make_row_move(move, width), {out});
  auto sizes = call.sizes(from);
  sizes.insert(sizes.end(), behind.begin(), behind.end());
  if (sizes == call.node_sizes(out)) {
    call.set_result(ops::kIdentity, {out});
  } else {
    call.set_result(make_op(ops::kReshape, ops::Reshape{sizes}), {out});
  }
}

// Looks up rows along `axis` by constant indices: an embedding whose indices the file fixes. The
// axis moves to the front first; afterwards the dimensions of the indices take its place.
void look_up_fixed(OnnxCall& call, const Known& rows, std::size_t axis) {
  auto table = call.factor(0);
  Sizes perm;
  for (std::size_t d = 0; d < call.rank(0); ++d) perm.push_back(static_cast<std::int64_t>(d));
  std::rotate(perm.begin(), perm.begin() + static_cast<std::ptrdiff_t>(axis),
              perm.begin() + static_cast<std::ptrdiff_t>(axis) + 1);
  if (axis != 0) table = call.add(make_op(ops::kTranspose, ops::Transpose{perm}), {table});
  const auto moved = call.node_sizes(table);
  table = call.add_reshape(table, {moved[0], -1});
  auto out = call.add(ops::kEmbedding, {call.fixed_index(rows, moved[0]), table});
  auto to = rows.sizes;
  to.insert(to.end(), moved.begin() + 1, moved.end());
  out = call.add_reshape(out, to);
  if (axis != 0) {
    // Transposes [rows..., before..., behind...] to [before..., rows..., behind...].
    Sizes back;
    const auto own = rows.sizes.size();
    for (std::size_t d = 0; d < axis; ++d) back.push_back(static_cast<std::int64_t>(own + d));
    for (std::size_t d = 0; d < own; ++d) back.push_back(static_cast<std::int64_t>(d));
    for (std::size_t d = own + axis; d < to.size(); ++d) {
      back.push_back(static_cast<std::int64_t>(d));
    }
    out = call.add(make_op(ops::kTranspose, ops::Transpose{back}), {out});
  }
  call.set_result(ops::kIdentity, {out});
}

// Converts OneHot to a lookup of rows of a matrix with `on` on the diagonal and `off` elsewhere.
void convert_one_hot(OnnxCall& call) {
  const auto depth = call.known_integers(1, "the depth");
  const auto values = call.contents(2);
  if (depth.size() != 1 || depth[0] < 1) reject("the depth must be one positive integer");
  if (!values || values->count() != 2) reject("the values must be two constants");
  if (call.value(0).fed.empty()) reject("the indices must be a graph input");
  count_elements({depth[0], depth[0]}, "the table");
  const auto rank = call.rank(0) + 1;
  const auto axis = call.axis(call.integer("axis", -1), rank);
  if (axis + 1 != rank) reject("only the last axis is supported", "use axis -1");
  const double off = values->real(0);
  const double on = values->real(1);
  Known table{.type = kFloat, .sizes = {depth[0], depth[0]}};
  call.charge(compute_product(table.sizes));
  for (std::int64_t r = 0; r < depth[0]; ++r) {
    for (std::int64_t c = 0; c < depth[0]; ++c) table.reals.push_back(r == c ? on : off);
  }
  const auto dtype = to_real_dtype(values->type).value_or(DType::kFp32);
  look_up(call, call.constant(table, dtype), 0);
}

// Returns the integers of `indices` in the range 0..size-1; -1 stands for the last one.
Sizes wrap_indices(const Known& indices, std::int64_t size) {
  Sizes out = indices.ints;
  if (!indices.has_integers() || out.empty()) reject("the indices must be integers");
  for (auto& i : out) {
    if (i < -size || i >= size) reject(fmt::format("index {} is out of range 0..{}", i, size - 1));
    if (i < 0) i += size;
  }
  return out;
}

// Returns `sizes` with the dimensions `instead` in place of dimension `axis`.
Sizes replace_dim(const Sizes& sizes, std::size_t axis, const Sizes& instead) {
  const auto at = sizes.begin() + static_cast<std::ptrdiff_t>(axis);
  Sizes out(sizes.begin(), at);
  out.insert(out.end(), instead.begin(), instead.end());
  out.insert(out.end(), at + 1, sizes.end());
  return out;
}

// Consecutive indices begin, begin + 1, ..., begin + size - 1.
struct IndexRun {
  std::int64_t begin;
  std::int64_t size;
};

// Returns the runs of consecutive indices: {3, 4, 5, 0} -> {3, size 3}, {0, size 1}.
std::vector<IndexRun> find_index_runs(const Sizes& indices) {
  std::vector<IndexRun> runs;
  for (auto i : indices) {
    if (!runs.empty() && runs.back().begin + runs.back().size == i) {
      ++runs.back().size;
    } else {
      runs.push_back({i, 1});
    }
  }
  return runs;
}

// Gathers one run of an integer input of the graph. The result has the shape `to`.
void slice_integer_input(OnnxCall& call, std::size_t axis, const IndexRun& run, const Sizes& to) {
  auto part = call.move_fed_input(call.value(0), make_slice(axis, run.begin, run.size));
  if (part.sizes != to) part = call.move_fed_input(part, make_op(ops::kReshape, ops::Reshape{to}));
  call.set_result(std::move(part));
}

// Gathers runs of a tensor as one slice each, and concatenates these. The result has the shape
// `to`.
void concat_slices(OnnxCall& call, std::size_t axis, const std::vector<IndexRun>& runs,
                   const Sizes& to) {
  const auto whole = call.sizes(0)[axis];
  const auto data = call.tensor(0);
  std::vector<NodeId> parts;
  parts.reserve(runs.size());
  for (const auto& [begin, size] : runs) {
    parts.push_back(size == whole ? data : call.add(make_slice(axis, begin, size), {data}));
  }
  const auto joined =
      parts.size() == 1
          ? parts[0]
          : call.add(make_op(ops::kConcat, ops::Concat{static_cast<std::int64_t>(axis)}), parts);
  const auto shaped = call.add_reshape(joined, to);
  Value v{.type = call.value(0).type, .sizes = to};
  v.node = shaped;
  call.set_result(std::move(v));
}

// Gathers at known indices along `axis`. Runs of consecutive indices become slices, and many runs
// become an embedding.
void gather_fixed(OnnxCall& call, const Known& indices, std::size_t axis) {
  const auto from = call.sizes(0);
  const auto at = wrap_indices(indices, from[axis]);
  const auto to = replace_dim(from, axis, indices.sizes);
  const auto runs = find_index_runs(at);
  const bool is_integer_input = !call.value(0).fed.empty();
  if (runs.size() > 1 && is_integer_input) {
    call.set_derived_input(call.value(0).type, to);
  } else if (is_integer_input) {
    slice_integer_input(call, axis, runs[0], to);
  } else if (runs.size() > kMostParts) {
    look_up_fixed(call, {.type = kInt64, .sizes = indices.sizes, .ints = at}, axis);
  } else {
    concat_slices(call, axis, runs, to);
  }
}

void convert_gather(OnnxCall& call) {
  const auto indices = call.contents(1);
  const auto axis = call.axis(call.integer("axis", 0), call.rank(0));
  if (indices) {
    gather_fixed(call, *indices, axis);
    return;
  }
  if (call.value(1).fed.empty()) reject("indices computed from inputs are not supported");
  if (axis != 0) reject("indices that are a graph input require axis 0");
  look_up(call, call.weight(0), 1);
}

void convert_trilu(OnnxCall& call) {
  const auto& sizes = call.sizes(0);
  if (sizes.size() < 2) reject("the input must have at least 2 dimensions");
  const bool upper = call.integer("upper", 1) != 0;
  const auto given = call.has(1) ? call.known_integers(1, "the diagonal") : Sizes{0};
  if (given.size() != 1) reject("the diagonal must be a scalar");
  const auto most = sizes.back() + sizes[sizes.size() - 2];
  const auto diagonal = std::clamp<std::int64_t>(given[0], -most, most);
  Known mask{.type = kFloat, .sizes = {sizes[sizes.size() - 2], sizes.back()}};
  call.charge(compute_product(mask.sizes));
  for (std::int64_t r = 0; r < mask.sizes[0]; ++r) {
    for (std::int64_t c = 0; c < mask.sizes[1]; ++c) {
      const bool on = upper ? c - r >= diagonal : c - r <= diagonal;
      mask.reals.push_back(on ? 1 : 0);
    }
  }
  const auto x = call.tensor(0);
  call.set_result(ops::kMul, {x, call.constant(mask, call.dtype(x))});
}

}  // namespace

ConverterList parts_converters() {
  return {
      {"Concat", convert_concat}, {"Gather", convert_gather}, {"OneHot", convert_one_hot},
      {"Pad", convert_pad},       {"Slice", convert_slice},   {"Split", convert_split},
      {"Trilu", convert_trilu},
  };
}

}  // namespace tandem::import
