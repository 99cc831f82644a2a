// Sizes and types of integers that a file computes from integer inputs: positions that skip
// padding, masks by comparison. The graph computes with floating-point numbers only, so such a
// result becomes an input of its own, which is computed before the graph runs.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "import/importer.h"

namespace tandem::import {

namespace {

constexpr std::array<std::string_view, 9> kTruths = {
    "And", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Not", "Or", "Xor"};
constexpr std::array<std::string_view, 16> kOfElements = {
    "Abs", "Add", "Clip", "CumSum", "Div", "Max", "Min",  "Mod",
    "Mul", "Neg", "Pow",  "Sign",   "Sub", "Sum", "Cast", "BitShift"};
constexpr std::array<std::string_view, 6> kReductions = {"ArgMax",    "ArgMin",     "ReduceMax",
                                                         "ReduceMin", "ReduceProd", "ReduceSum"};

bool is_one_of(std::string_view op, std::span<const std::string_view> list) {
  return std::ranges::find(list, op) != list.end();
}

// Returns whether operand `i` is computed from integers and constants.
bool is_from_whole(OnnxCall& call, std::size_t i) {
  const auto& v = call.value(i);
  return !v.fed.empty() || v.from_whole || call.is_known(i);
}

Sizes compute_broadcast_sizes(OnnxCall& call) {
  Sizes out;
  for (std::size_t i = 0; i < call.inputs(); ++i) {
    if (call.has(i)) out = broadcast_sizes(out, call.sizes(i));
  }
  return out;
}

Sizes compute_reduced_sizes(OnnxCall& call) {
  const bool arg = call.op().starts_with("Arg");
  const bool keep = call.integer("keepdims", 1) != 0;
  Sizes axes =
      arg ? Sizes{call.integer("axis", 0)} : call.integers_or_input("axes", 1).value_or(Sizes{});
  for (const char* name : {"select_last_index", "noop_with_empty_axes"}) call.attribute(name);
  std::vector<bool> gone(call.rank(0), axes.empty());
  for (auto a : axes) gone[call.axis(a, call.rank(0))] = true;
  Sizes out;
  for (std::size_t d = 0; d < gone.size(); ++d) {
    if (!gone[d] || keep) out.push_back(gone[d] ? 1 : call.sizes(0)[d]);
  }
  return out;
}

Sizes compute_tiled_sizes(OnnxCall& call) {
  auto out = call.sizes(0);
  const auto times = call.known_integers(1, "the repeats");
  if (times.size() != out.size()) reject("the number of repeats differs from the rank");
  for (std::size_t d = 0; d < out.size(); ++d) {
    if (times[d] < 1 || times[d] > (std::int64_t{1} << 20U)) {
      reject(fmt::format("a repeat count of {} is out of range", times[d]));
    }
    out[d] *= times[d];
  }
  return out;
}

// Returns the sizes of a GatherND or GatherElements.
Sizes compute_gathered_sizes(OnnxCall& call) {
  const auto& at = call.sizes(1);
  if (call.op() == "GatherElements") {
    call.attribute("axis");
    return at;
  }
  const auto& from = call.sizes(0);
  const auto batch = call.integer("batch_dims", 0);
  const auto taken = at.empty() ? -1 : at.back();
  if (batch < 0 || taken < 0 || batch > static_cast<std::int64_t>(from.size()) ||
      taken > static_cast<std::int64_t>(from.size()) - batch) {
    reject("the indices do not match the rank");
  }
  Sizes out(at.begin(), at.end() - 1);
  out.insert(out.end(), from.begin() + batch + taken, from.end());
  return out;
}

Sizes compute_concat_sizes(OnnxCall& call) {
  auto out = call.sizes(0);
  const auto axis = call.axis(call.integer("axis", 1), out.size());
  for (std::size_t i = 1; i < call.inputs(); ++i) {
    if (call.rank(i) != out.size()) reject("the inputs differ in rank");
    out[axis] += call.sizes(i)[axis];
  }
  return out;
}

}  // namespace

bool derive(OnnxCall& call) {
  const auto op = call.op();
  const bool truth = is_one_of(op, kTruths);
  const bool choice = op == "Where";
  const bool reduction = is_one_of(op, kReductions);
  const bool concat = op == "Concat";
  const bool tile = op == "Tile";
  const bool gather = op == "GatherND" || op == "GatherElements";
  if (!truth && !choice && !reduction && !concat && !tile && !gather && !is_one_of(op, kOfElements))
    return false;
  if (call.inputs() == 0 || !call.has(0)) return false;
  // A cast of an input is converted elsewhere. A cast of a computed tensor back to integers is an
  // input again.
  const auto& first = call.value(0);
  if (op == "Cast") {
    const auto to = static_cast<std::int32_t>(call.integer("to", 0));
    if (!first.from_whole || !first.node || !is_integer_type(to)) return false;
    call.set_derived_input(to, first.sizes);
    return true;
  }
  const auto type = truth                   ? std::int32_t{kBool}
                    : op.starts_with("Arg") ? std::int32_t{kInt64}
                    : choice && call.has(1) ? call.value(1).type
                                            : first.type;
  if (!is_integer_type(type)) return false;
  bool any = false;
  for (std::size_t i = 0; i < call.inputs(); ++i) {
    if (!call.has(i)) continue;
    if (!is_from_whole(call, i)) return false;
    any = any || !call.is_known(i);
  }
  if (!any) return false;
  for (const char* name : {"exclusive", "reverse", "fmod", "direction"}) call.attribute(name);
  auto sizes = reduction        ? compute_reduced_sizes(call)
               : concat         ? compute_concat_sizes(call)
               : tile           ? compute_tiled_sizes(call)
               : gather         ? compute_gathered_sizes(call)
               : op == "CumSum" ? call.sizes(0)
                                : compute_broadcast_sizes(call);
  count_elements(sizes, "the result");
  call.set_derived_input(type, std::move(sizes));
  return true;
}

}  // namespace tandem::import
