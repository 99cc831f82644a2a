// Converters of operators that only give sizes or move elements.
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

// --- Sizes --------------------------------------------------------------------------------------

void convert_shape(OnnxCall& call) {
  const auto sizes = call.sizes(0);
  const auto rank = static_cast<std::int64_t>(sizes.size());
  const auto place = [&](std::int64_t at) {
    return std::clamp<std::int64_t>(at < 0 ? at + rank : at, 0, rank);
  };
  const auto from = place(call.integer("start", 0));
  const auto to = std::max(from, place(call.integer("end", rank)));
  call.set_result(make_integers(Sizes(sizes.begin() + from, sizes.begin() + to)));
}

void convert_size(OnnxCall& call) {
  call.set_result(Known{.type = kInt64, .sizes = {}, .ints = {compute_product(call.sizes(0))}});
}

void convert_constant(OnnxCall& call) {
  if (const auto* a = call.attribute("value"); a != nullptr) {
    const auto tensor = read_tensor(a->tensor);
    count_elements(tensor.sizes, "the tensor");
    // The contents are read where they are needed: it may be a weight.
    call.set_result(Value{.type = tensor.type, .sizes = tensor.sizes, .stored = a->tensor});
    return;
  }
  const auto scalar_or_list = [&](const char* one, const char* many) -> const Attribute* {
    const auto* a = call.attribute(one);
    return a != nullptr ? a : call.attribute(many);
  };
  if (const auto* a = scalar_or_list("value_int", "value_ints"); a != nullptr) {
    auto k = make_integers(a->name == "value_int" ? Sizes{a->i} : a->ints);
    if (a->name == "value_int") k.sizes = {};
    call.set_result(std::move(k));
  } else if (const auto* b = scalar_or_list("value_float", "value_floats"); b != nullptr) {
    Known k{.type = kFloat};
    if (b->name == "value_float") {
      k.reals = {b->f};
    } else {
      k.sizes = {static_cast<std::int64_t>(b->floats.size())};
      k.reals = b->floats;
    }
    call.set_result(std::move(k));
  } else {
    reject("the constant has no numeric value");
  }
}

// Converts a tensor with one value everywhere. If the sizes are stored in the file, the tensor is a
// weight without its numbers.
void convert_fill(OnnxCall& call) {
  Value v{.type = kFloat, .fill = 0};
  if (call.op() == "ConstantOfShape") {
    if (const auto* a = call.attribute("value"); a != nullptr) {
      const auto k = read_known(read_tensor(a->tensor));
      if (k.count() != 1) reject("value must have one element");
      v.type = k.type;
      v.fill = k.real(0);
    }
    v.sizes = call.known_integers(0, "the shape");
    v.data = !call.value(0).stored.empty();
  } else {
    v.fill = call.real("value", 0);
    v.type = static_cast<std::int32_t>(call.integer("dtype", kFloat));
    for (const char* name : {"input_as_shape", "extra_shape"}) call.attribute(name);
    v.sizes = call.integers("shape").value_or(Sizes{});
    v.data = true;
    if (call.has(0)) {
      v.sizes = call.integer("input_as_shape", 0) != 0 ? call.known_integers(0, "the shape")
                                                       : call.sizes(0);
    }
    const auto extra = call.integers("extra_shape").value_or(Sizes{});
    v.sizes.insert(v.sizes.end(), extra.begin(), extra.end());
  }
  count_elements(v.sizes, "the tensor");
  if (!to_real_dtype(v.type) && !is_integer_type(v.type)) {
    reject(fmt::format("the type {} is not supported", type_name(v.type)));
  }
  call.set_result(std::move(v));
}

// --- Shapes -------------------------------------------------------------------------------------

void convert_reshape(OnnxCall& call) {
  const auto from = call.sizes(0);
  auto to = call.opset() < 5 ? call.integers("shape").value_or(Sizes{})
                             : call.known_integers(1, "the shape");
  const bool zero_is_size = call.integer("allowzero", 0) != 0;
  for (std::size_t d = 0; d < to.size(); ++d) {
    if (to[d] == 0 && !zero_is_size) {
      if (d >= from.size())
        reject(fmt::format("size 0 at dim {} copies a dimension that the input does not have", d));
      to[d] = from[d];
    }
    if (to[d] < -1) reject(fmt::format("the shape has a size of {}", to[d]));
  }
  const auto count = compute_product(from);
  const auto open = std::ranges::count(to, -1);
  if (open > 1) reject("the shape has more than one size of -1");
  const auto known_count = [&] {
    double out = 1;
    for (auto n : to) out *= n == -1 ? 1 : static_cast<double>(n);
    return out;
  };
  // A file for one batch size has it in its shapes, as the first size.
  const auto file_batch = call.file_batch();
  const bool fits = open == 1 ? count % std::max<std::int64_t>(compute_product(to) * -1, 1) == 0
                              : known_count() == static_cast<double>(count);
  if (file_batch > 0 && !to.empty() && !from.empty() && to[0] > 0 && to[0] % file_batch == 0 &&
      (!fits || (open == 1 && to[0] == file_batch && from[0] == call.batch()))) {
    to[0] = to[0] / file_batch * call.batch();
  }
  if (known_count() > 0x1p50) reject("the shape has more than 2^50 elements");
  if (open == 1) {
    const auto rest = static_cast<std::int64_t>(known_count());
    if (rest == 0 || count % rest != 0) {
      reject(fmt::format("the shape does not divide {} elements evenly", count));
    }
    *std::ranges::find(to, -1) = count / rest;
  }
  if (compute_product(to) != count) {
    reject(fmt::format("{} elements cannot be reshaped to {}", count, compute_product(to)),
           file_batch > 0
               ? "the file fixes its batch size; export it with a symbolic batch dimension"
               : "");
  }
  call.reshape(to);
}

void convert_flatten(OnnxCall& call) {
  const auto& from = call.sizes(0);
  const auto rank = static_cast<std::int64_t>(from.size());
  auto axis = call.integer("axis", 1);
  if (axis < -rank || axis > rank) reject(fmt::format("axis {} is out of range", axis));
  if (axis < 0) axis += rank;
  call.reshape({compute_product(Sizes(from.begin(), from.begin() + axis)),
                compute_product(Sizes(from.begin() + axis, from.end()))});
}

void convert_squeeze(OnnxCall& call) {
  const auto from = call.sizes(0);
  const auto axes = call.integers_or_input("axes", 1);
  std::vector<bool> gone(from.size());
  for (std::size_t d = 0; d < from.size() && !axes; ++d) gone[d] = from[d] == 1;
  for (auto axis : axes.value_or(Sizes{})) gone[call.axis(axis, from.size())] = true;
  Sizes to;
  for (std::size_t d = 0; d < from.size(); ++d) {
    if (gone[d] && from[d] != 1) reject(fmt::format("dim {} is {} and must be 1", d, from[d]));
    if (!gone[d]) to.push_back(from[d]);
  }
  call.reshape(to);
}

void convert_unsqueeze(OnnxCall& call) {
  const auto from = call.sizes(0);
  const auto axes = call.integers_or_input("axes", 1);
  if (!axes) reject("axes are missing");
  if (axes->size() + from.size() > 64) reject("the result has too many dimensions");
  std::vector<bool> fresh(from.size() + axes->size());
  for (auto axis : *axes) {
    const auto d = call.axis(axis, fresh.size());
    if (fresh[d]) reject(fmt::format("axes contain dim {} twice", d));
    fresh[d] = true;
  }
  Sizes to;
  auto next = from.begin();
  for (bool is_fresh : fresh) to.push_back(is_fresh ? 1 : *next++);
  call.reshape(to);
}

void convert_expand(OnnxCall& call) {
  const auto from = call.sizes(0);
  auto to = call.known_integers(1, "the shape");
  if (call.file_batch() == 1 && to.size() >= from.size() && !from.empty() && to[0] == 1 &&
      from[0] == call.batch()) {
    to[0] = call.batch();
  }
  while (to.size() < from.size()) to.insert(to.begin(), 1);
  const auto fresh = to.size() - from.size();
  for (std::size_t d = 0; d < from.size(); ++d) {
    if (to[fresh + d] == 1) to[fresh + d] = from[d];
  }
  if (to == from) {
    call.alias_input();
  } else {
    call.apply_move(make_op(ops::kExpand, ops::Reshape{to}));
  }
}

void convert_tile(OnnxCall& call) {
  const auto from = call.sizes(0);
  const auto times = call.known_integers(1, "the repeats");
  if (times.size() != from.size()) reject("the number of repeats differs from the rank");
  Sizes apart;
  Sizes copied;
  Sizes to;
  for (std::size_t d = 0; d < from.size(); ++d) {
    if (times[d] < 1 || times[d] > (std::int64_t{1} << 30U)) {
      reject(fmt::format("a repeat count of {} is out of range", times[d]));
    }
    if (times[d] > 1) apart.push_back(1), copied.push_back(times[d]);
    apart.push_back(from[d]);
    copied.push_back(from[d]);
    to.push_back(from[d] * times[d]);
  }
  if (to == from) {
    call.alias_input();
    return;
  }
  const auto wide = call.add(make_op(ops::kExpand, ops::Reshape{copied}),
                             {call.add_reshape(call.tensor(0), apart)});
  call.set_result(make_op(ops::kReshape, ops::Reshape{to}), {wide});
}

void convert_transpose(OnnxCall& call) {
  const auto rank = call.rank(0);
  Sizes perm(rank);
  for (std::size_t d = 0; d < rank; ++d) perm[d] = static_cast<std::int64_t>(rank - 1 - d);
  perm = call.integers("perm").value_or(perm);
  if (std::ranges::is_sorted(perm) && perm.size() == rank) {
    call.alias_input();
  } else {
    call.apply_move(make_op(ops::kTranspose, ops::Transpose{perm}));
  }
}

// Moves blocks of pixels to channels, or back.
void convert_depth_and_space(OnnxCall& call) {
  const bool to_space = call.op() == "DepthToSpace";
  const bool crd = to_space && call.text("mode", "DCR") == "CRD";
  const auto block = call.integer("blocksize", 0);
  const auto s = call.sizes(0);
  if (s.size() != 4) reject("the input must have 4 dimensions");
  if (block < 1 || block > 1024 ||
      (to_space ? s[1] % (block * block) : s[2] % block + s[3] % block)) {
    reject(fmt::format("blocksize {} does not divide the input", block));
  }
  Sizes apart = {s[0], s[1], s[2] / block, block, s[3] / block, block};
  Sizes perm = {0, 3, 5, 1, 2, 4};
  Sizes to = {s[0], s[1] * block * block, s[2] / block, s[3] / block};
  if (to_space) {
    const auto depth = s[1] / (block * block);
    apart = crd ? Sizes{s[0], depth, block, block, s[2], s[3]}
                : Sizes{s[0], block, block, depth, s[2], s[3]};
    perm = crd ? Sizes{0, 1, 4, 2, 5, 3} : Sizes{0, 3, 4, 1, 5, 2};
    to = {s[0], depth, s[2] * block, s[3] * block};
  }
  const auto turned = call.add(make_op(ops::kTranspose, ops::Transpose{perm}),
                               {call.add_reshape(call.tensor(0), apart)});
  call.set_result(make_op(ops::kReshape, ops::Reshape{to}), {turned});
}

// Converts an If whose condition is known: only one branch is converted.
void convert_if(OnnxCall& call) {
  const auto condition = call.known_scalar(0);
  const auto* yes = call.attribute("then_branch");
  const auto* no = call.attribute("else_branch");
  if (!condition) reject("a condition that is computed from inputs is not supported");
  if (yes == nullptr || no == nullptr) reject("a branch is missing");
  call.inline_graph(*condition != 0 ? yes->graph : no->graph);
}

}  // namespace

ConverterList shape_converters() {
  return {
      {"Constant", convert_constant},
      {"ConstantFill", convert_fill},
      {"ConstantOfShape", convert_fill},
      {"Expand", convert_expand},
      {"DepthToSpace", convert_depth_and_space},
      {"SpaceToDepth", convert_depth_and_space},
      {"Flatten", convert_flatten},
      {"If", convert_if},
      {"Reshape", convert_reshape},
      {"Shape", convert_shape},
      {"Size", convert_size},
      {"Squeeze", convert_squeeze},
      {"Tile", convert_tile},
      {"Transpose", convert_transpose},
      {"Unsqueeze", convert_unsqueeze},
  };
}

}  // namespace tandem::import
