// Converts values of the file to operands of the graph's nodes.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "import/importer.h"
#include "ops/attributes.h"
#include "ops/registry.h"

namespace tandem::import {

namespace {

constexpr std::int64_t kKnownAlways = std::int64_t{1}
                                      << 22U;  // elements that constants of any file may have

Shape to_shape(const Sizes& sizes, std::string_view what) {
  check_rank(sizes, what);
  for (auto size : sizes) {
    if (size == 0) reject(fmt::format("{} has no elements", what));
  }
  count_elements(sizes, what);
  return Shape(sizes);
}

// Returns a finite score whose exponential is zero in every dtype. -1e30 is not finite in fp16.
double hidden_score(DType dtype) { return dtype == DType::kFp16 ? -65504 : -1e30; }

}  // namespace

std::string quote(std::string_view name) { return fmt::format("'{}'", name); }

void check_rank(const Sizes& sizes, std::string_view what) {
  if (sizes.size() <= Shape::kMaxRank) return;
  reject(fmt::format("{} has {} dimensions; at most {} are supported", what, sizes.size(),
                     Shape::kMaxRank));
}

std::string Importer::free_name(std::string_view name) {
  std::string out;
  out.reserve(name.size());
  for (char c : name) {
    const bool bad = static_cast<unsigned char>(c) <= ' ' ||
                     std::string_view("%,()#:=\"{}").find(c) != std::string_view::npos;
    out += bad ? '_' : c;
  }
  if (out.empty()) out += 'x';
  if (!builder_.find(out)) return out;
  for (auto& n = next_number_.try_emplace(out, 2).first->second;; ++n) {
    auto numbered = fmt::format("{}_{}", out, n);
    if (!builder_.find(numbered)) return numbered;
  }
}

NodeId Importer::add(const ops::Op& op, std::span<const NodeId> inputs, std::string_view name) {
  added_node_ = true;
  try {
    return builder_.add(op, inputs, free_name(name));
  } catch (const UserError& e) {
    throw UserError("onnx", "", e.message, e.hint);
  }
}

Value Importer::make_value(NodeId id) const {
  const auto& type = builder_.node(id).type;
  Value v{.node = id};
  for (const auto& [onnx, dtype] : {std::pair{kFloat, DType::kFp32},
                                    {kDouble, DType::kFp64},
                                    {kFloat16, DType::kFp16},
                                    {kBfloat16, DType::kBf16}}) {
    if (type.dtype == dtype) v.type = onnx;
  }
  v.sizes.assign(type.shape.sizes.begin(), type.shape.sizes.end());
  return v;
}

void Importer::charge(std::int64_t elements) {
  known_elements_ += elements;
  if (known_elements_ > kKnownAlways + static_cast<std::int64_t>(file_.size())) {
    reject("constant folding needs too many elements", "only small constants are folded");
  }
}

KnownPtr Importer::known(Value& v) {
  if (v.known || (v.stored.empty() && !v.fill)) return v.known;
  const auto count = count_elements(v.sizes, "it");
  charge(count);
  if (v.fill) {
    Known k{.type = v.type, .sizes = v.sizes};
    const auto n = static_cast<std::size_t>(count);
    if (k.has_integers()) {
      k.ints.assign(n, static_cast<std::int64_t>(*v.fill));
    } else {
      k.reals.assign(n, *v.fill);
    }
    v.known = std::make_shared<Known>(std::move(k));
  } else {
    v.known = std::make_shared<Known>(read_known(read_tensor(v.stored), options_.directory));
  }
  return v.known;
}

NodeId Importer::add_weight(std::string_view name, const Value& v, DType dtype) {
  const auto own = free_name(name);
  out_.names[own] = std::string(v.origin);
  return builder_.weight(own, ParallelShape(to_shape(v.sizes, "it")), dtype);
}

NodeId Importer::add_input(std::string_view name, const Sizes& sizes, DType dtype,
                           std::int64_t below) {
  const auto own = free_name(name);
  out_.names[own] = std::string(name);
  if (derived_.contains(name)) out_.derived.push_back(own);
  return builder_.input(own, ParallelShape(to_shape(sizes, quote(name))), dtype, below);
}

NodeId Importer::add_source(std::string_view name, const Known& k, DType dtype) {
  const auto shape = to_shape(k.sizes, quote(name));
  if (const auto written = match_constant(k); written && std::isfinite(written->value)) {
    const ops::Constant constant{ParallelShape(shape), dtype, written->kind, written->value,
                                 written->axis};
    return builder_.add(ops::make_op(ops::kConstant, constant), {}, free_name(name));
  }
  Dense<double> contents(shape);
  for (std::size_t i = 0; i < k.count(); ++i) {
    contents.data[i] = std::max(k.real(i), std::min(hidden_score(dtype), 0.0));
    if (!std::isfinite(contents.data[i])) reject(fmt::format("{} is not finite", quote(name)));
  }
  const auto own = free_name(name);
  out_.fixed.emplace(own, std::move(contents));
  return builder_.input(own, ParallelShape(shape), dtype);
}

NodeId Importer::tensor(std::string_view name, Value& v, bool trained) {
  if (v.node) return *v.node;
  if (!v.tied.empty()) {
    v.node = tensor(v.tied, values_.at(v.tied), trained);
    return *v.node;
  }
  if (!v.unusable.empty()) reject(fmt::format("{} cannot be used: {}", quote(name), v.unusable));
  if (v.scores) {
    v.node = add_masked_scores(name, v);
    return *v.node;
  }
  const auto dtype = to_real_dtype(v.type);
  if (!dtype) {
    reject(fmt::format("{} is {} and must be a floating-point tensor here", quote(name),
                       type_name(v.type)),
           "integers computed from inputs are not supported");
  }
  // Computed contents are no weight; frequencies and masks are not either.
  trained = trained && !v.untrained && (v.input || v.data || !v.stored.empty() || v.fill);
  const bool scalar = v.sizes.empty();
  if (v.input && !trained) {
    v.node = add_input(name, v.sizes, *dtype);
  } else if (trained || (v.data && !scalar)) {
    v.node = add_weight(name, v, *dtype);
  } else if (v.fill) {
    const ops::Constant constant{ParallelShape(to_shape(v.sizes, quote(name))), *dtype, "fill",
                                 *v.fill, 0};
    v.node = builder_.add(ops::make_op(ops::kConstant, constant), {}, free_name(name));
  } else {
    const auto contents = known(v);
    CHECK(contents != nullptr, std::string(name));
    v.node = add_source(name, *contents, *dtype);
  }
  return *v.node;
}

ops::Op make_row_move(const ops::Op& op, std::int64_t width) {
  if (op.is(ops::kTranspose)) {
    auto a = op.get<ops::Transpose>();
    a.perm.push_back(static_cast<std::int64_t>(a.perm.size()));
    return ops::make_op(op.spec(), std::move(a));
  }
  if (op.is(ops::kReshape) || op.is(ops::kExpand)) {
    auto a = op.get<ops::Reshape>();
    a.shape.push_back(width);
    return ops::make_op(op.spec(), std::move(a));
  }
  CHECK(op.is(ops::kSlice), op.name());
  return op;
}

NodeId Importer::index(Value& v, std::int64_t below) {
  const std::string name(v.fed);
  const auto type = input_types_.at(v.fed);
  if (!to_index_dtype(type)) {
    reject(fmt::format("{} is {} and must be int32 or int64 to index rows", quote(v.fed),
                       type_name(type)));
  }
  auto& least = below_.try_emplace(name, below).first->second;
  if (below < least) {
    least = below;
    needs_reimport_ = true;
  }
  const auto at = index_inputs_.find(name);
  if (at != index_inputs_.end()) return at->second;
  const auto node = add_input(name, values_.at(v.fed).sizes, *to_index_dtype(type), least);
  index_inputs_.emplace(name, node);
  return node;
}

NodeId Importer::real_input(Value& v, DType dtype) {
  const std::string name(v.fed);
  auto at = real_inputs_.find({name, dtype});
  if (at == real_inputs_.end()) {
    const auto node = add_input(name, values_.at(v.fed).sizes, dtype);
    at = real_inputs_.emplace(std::pair{name, dtype}, node).first;
  }
  auto node = at->second;
  for (const auto& move : v.moves) node = add(move, std::span(&node, 1), name);
  return node;
}

NodeId Importer::add_masked_scores(std::string_view name, Value& v) {
  const auto dtype = builder_.node(*v.scores).type.dtype;
  if (v.times_mask) {
    const NodeId inputs[] = {*v.scores, add_source(fmt::format("{}.mask", name), *v.mask, dtype)};
    return add(ops::parse_op(ops::kMul, {}), inputs, name);
  }
  Known shown{.type = kFloat, .sizes = v.mask->sizes};
  for (std::size_t i = 0; i < v.mask->count(); ++i) {
    shown.reals.push_back(is_hidden(v.mask->real(i)) ? 0 : 1);
  }
  const auto mask = add_source(fmt::format("{}.shown", name), shown, dtype);
  const ops::Constant fill{ParallelShape(Shape{}), dtype, "fill", hidden_score(dtype), 0};
  const auto hidden =
      builder_.add(ops::make_op(ops::kConstant, fill), {}, free_name("hidden_score"));
  const NodeId inputs[] = {mask, *v.scores, hidden};
  return add(ops::parse_op(ops::kWhere, {}), inputs, name);
}

}  // namespace tandem::import
