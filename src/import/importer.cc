#include "import/importer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <set>

#include "base/text.h"
#include "import/frequencies.h"
#include "ops/attributes.h"
#include "ops/registry.h"

namespace tandem::import {

namespace {

bool is_batch(std::string_view dimension) {
  std::string lower(dimension);
  for (auto& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower.find("batch") != std::string::npos;
}

// Returns the sum in a text like "past + 1" from `sizes`, or nullopt if it is no sum or a size is
// unknown.
std::optional<std::int64_t> evaluate_sum(const std::string& text,
                                         const std::map<std::string, std::int64_t>& sizes) {
  if (text.find('+') == std::string::npos) return std::nullopt;
  constexpr auto kMost = std::int64_t{1} << 40U;
  std::int64_t sum = 0;
  for (auto part : tandem::split(text, '+')) {
    const std::string name(trim(part));
    const auto at = sizes.find(name);
    const auto size = at != sizes.end() ? std::optional(at->second) : parse_int(name);
    if (!size || *size < 0 || *size > kMost - sum) return std::nullopt;
    sum += *size;
  }
  return sum;
}

}  // namespace

Importer::Importer(std::string_view file, const std::string& source, const OnnxOptions& options)
    : file_(file), source_(source), options_(options), builder_("onnx") {
  try {
    model_ = read_model(file);
  } catch (const UserError& e) {
    fail("", e);
  }
  builder_ = graph::GraphBuilder(free_name(model_.graph_name.empty() ? "onnx" : model_.graph_name));
  opset_ = out_.opset = model_.opset == 0 ? 1 : model_.opset;
}

void Importer::fail(const std::string& where, const UserError& e) const {
  const auto place = where.empty() ? source_ : fmt::format("{}: {}", source_, where);
  throw UserError("onnx", place, e.message, e.hint);
}

// --- What the graph begins with -----------------------------------------------------------------

void Importer::define(std::string_view name, Value value) {
  if (!is_utf8(name)) reject("a tensor's name is not UTF-8");
  if (value.origin.empty()) value.origin = name;
  if (!values_.try_emplace(name, std::move(value)).second) {
    reject(fmt::format("two tensors have the name {}", quote(name)));
  }
}

void Importer::read_initializers(const ModelProto& graph) {
  for (auto message : graph.initializers) {
    Tensor tensor;
    try {
      tensor = read_tensor(message);
      if (tensor.name.empty()) reject("an initializer has no name");
      count_elements(tensor.sizes, "it");
      const auto name = declare(tensor.name);
      const bool untrained = frequencies_.contains(name) || is_triangle(tensor);
      define(name, {.type = tensor.type,
                    .sizes = tensor.sizes,
                    .stored = message,
                    .data = !untrained,
                    .untrained = untrained,
                    .origin = tensor.name});
    } catch (const UserError& e) {
      fail(fmt::format("initializer {}", quote(tensor.name)), e);
    }
  }
}

// Throws UserError if a size in the options names no dimension of an input.
void Importer::check_dims(const std::vector<ValueInfo>& infos) const {
  for (const auto& [name, size] : options_.dims) {
    bool found = false;
    std::set<std::string> names;
    for (const auto& info : infos) {
      for (std::size_t d = 0; d < info.shape.size(); ++d) {
        found = found || name == fmt::format("{}.{}", info.name, d);
        for (auto part : tandem::split(info.shape[d].name, '+')) {
          found = found || part == name;
          if (!parse_int(part) && is_utf8(part)) names.emplace(part);
        }
      }
    }
    if (found) continue;
    fail("", UserError("onnx", "", fmt::format("no input dimension is called '{}'", name),
                       names.empty() ? "write INPUT.1 for an unnamed dimension"
                                     : "named dimensions: " +
                                           join(std::vector(names.begin(), names.end()), ", ")));
  }
}

void Importer::read_inputs() {
  std::vector<ValueInfo> infos;
  for (auto message : model_.inputs) {
    ValueInfo info;
    try {
      info = read_value_info(message);
    } catch (const UserError& e) {
      fail("an input", e);
    }
    // Old files list their initializers here too.
    if (!values_.contains(info.name)) infos.push_back(std::move(info));
  }
  for (const auto& info : infos) {
    for (const auto& dim : info.shape) has_batch_name_ = has_batch_name_ || is_batch(dim.name);
  }
  check_dims(infos);
  bool first = true;
  for (const auto& info : infos) {
    try {
      read_input(info, first);
    } catch (const UserError& e) {
      fail(fmt::format("input {}", quote(info.name)), e);
    }
    first = false;
  }
}

void Importer::read_input(const ValueInfo& info, bool first) {
  if (info.type == 0) reject("is not a tensor or has no element type");
  if (!to_real_dtype(info.type) && !is_integer_type(info.type)) {
    reject(fmt::format("has the unsupported element type {}", type_name(info.type)));
  }
  if (!info.has_shape) reject("has no shape");
  Value v{.type = info.type};
  for (std::size_t d = 0; d < info.shape.size(); ++d) {
    const auto& dim = info.shape[d];
    const std::string name(dim.name);
    const auto key = fmt::format("{}.{}", info.name, d);
    if (const auto at = options_.dims.find(name); !name.empty() && at != options_.dims.end()) {
      v.sizes.push_back(at->second);
    } else if (const auto by_place = options_.dims.find(key); by_place != options_.dims.end()) {
      v.sizes.push_back(by_place->second);
    } else if (const auto sum = evaluate_sum(name, options_.dims)) {
      v.sizes.push_back(*sum);
    } else if (dim.size && *dim.size != 0) {
      v.sizes.push_back(*dim.size);
      if (*dim.size < 0) reject(fmt::format("dim {} has the negative size {}", d, *dim.size));
      if (d > 0) continue;
      // The first dimension is the batch: that of the first input, and equal ones of the others.
      if (first) out_.batch = *dim.size;
      const bool same = first || (file_batch_ != 0 && *dim.size == file_batch_);
      if (same && options_.batch > 0) {
        if (first && options_.batch != *dim.size) file_batch_ = *dim.size;
        v.sizes[0] = options_.batch;
        out_.batch = options_.batch;
      }
    } else if (is_batch(name) || (d == 0 && (!has_batch_name_ || name.empty()))) {
      v.sizes.push_back(std::max<std::int64_t>(options_.batch, 1));
      if (first || is_batch(name)) out_.batch = v.sizes.back();
      if (!name.empty()) options_.dims.try_emplace(name, v.sizes[0]);
    } else {
      const auto flag = name.empty() ? key : name;
      reject(fmt::format("dim {}{} has no fixed size", d,
                         name.empty() ? "" : fmt::format(" ('{}')", name)),
             fmt::format("set it with --dim {0}=SIZE or FILE.onnx:{0}=SIZE", flag));
    }
  }
  check_rank(v.sizes, "it");
  count_elements(v.sizes, "it");
  input_types_[info.name] = info.type;
  if (to_real_dtype(info.type)) {
    v.input = true;
  } else {
    v.fed = info.name;
  }
  define(info.name, std::move(v));
}

// --- Nodes --------------------------------------------------------------------------------------

bool is_plain_operator(const ops::OpSpec* spec) {
  return spec->role == ops::Role::kCompute && spec->attributes.empty() &&
         (spec->index == "... -> ..." || spec->index == "..., ... -> ...");
}

namespace {

std::string describe_place(const NodeProto& node) {
  const auto op =
      node.domain.empty() ? std::string(node.op) : fmt::format("{}.{}", node.domain, node.op);
  if (!node.name.empty()) return fmt::format("{} '{}'", op, node.name);
  return node.outputs.empty() ? op : fmt::format("{} with output '{}'", op, node.outputs[0]);
}

const ops::OpSpec* find_plain_operator(std::string_view op) {
  static const auto kByName = [] {
    std::unordered_map<std::string_view, const ops::OpSpec*> out;
    for (const auto* spec : ops::all_ops()) {
      for (const auto& name : spec->onnx) {
        if (is_plain_operator(spec)) out.emplace(name, spec);
      }
    }
    return out;
  }();
  const auto at = kByName.find(op);
  return at == kByName.end() ? nullptr : at->second;
}

[[noreturn]] void reject_unknown_operator(const NodeProto& node) {
  const auto op =
      node.domain.empty() ? std::string(node.op) : fmt::format("{}.{}", node.domain, node.op);
  const auto foldable = list_foldable_operators();
  if (std::ranges::find(foldable, node.op) != foldable.end()) {
    reject(fmt::format("the operator {} is supported only for constant operands", op),
           "these operands are computed from inputs; only shapes and constants are folded");
  }
  reject(fmt::format("the operator {} is not supported", op),
         "supported: " + join(list_supported_onnx_operators(), " "));
}

}  // namespace

// Converts a node whose operator belongs to ONNX or ONNX Runtime.
void Importer::convert_known(OnnxCall& call, const NodeProto& node) {
  const auto at = converters().find(node.op);
  const auto* spec = at == converters().end() ? find_plain_operator(node.op) : nullptr;
  if (fold(call) || derive(call)) {
  } else if (at != converters().end()) {
    at->second(call);
  } else if (spec != nullptr) {
    std::vector<NodeId> inputs;
    for (std::size_t i = 0; i < call.inputs(); ++i) inputs.push_back(call.tensor(i));
    call.set_result(ops::parse_op(*spec, {}), inputs);
  } else if (const auto* function = find_function(node)) {
    call_function(node, *function);
    return;
  } else {
    reject_unknown_operator(node);
  }
  call.check_attributes();
  call.note_from_whole();
}

void Importer::convert(NodeProto node) {
  added_node_ = false;
  try {
    for (auto text : {node.name, node.op, node.domain}) {
      if (!is_utf8(text)) reject("a name is not UTF-8");
    }
    if (node.op.empty()) reject("the node has no operator");
    if (scope_ != nullptr) {
      for (auto& name : node.inputs) name = scope_->resolve(name);
      for (auto& name : node.outputs) name = declare(name);
      scope_->resolve_attributes(node);
    }
    if (node.domain.empty() || node.domain == "ai.onnx" || node.domain == "com.microsoft") {
      OnnxCall call(*this, node);
      convert_known(call, node);
    } else if (const auto* function = find_function(node)) {
      call_function(node, *function);
      return;
    } else {
      reject_unknown_operator(node);
    }
  } catch (const UserError& e) {
    // The innermost node is the place of the error.
    if (e.where.starts_with(source_)) throw;
    fail(describe_place(node), e);
  }
  if (!added_node_) ++out_.folded[std::string(node.op)];
}

std::vector<NodeId> Importer::collect_outputs() {
  std::vector<NodeId> out;
  for (auto message : model_.outputs) {
    std::string_view name;
    try {
      name = read_value_info(message).name;
      const auto at = values_.find(name);
      if (at == values_.end()) reject("no node produces it");
      auto& v = at->second;
      if (v.sizes.end() != std::ranges::find(v.sizes, 0)) continue;
      // A tensor that the file only passes on or computes from constants is no result of a network.
      if (!v.node && !v.scores && model_.outputs.size() > 1) continue;
      if (const auto contents = v.node || v.input ? nullptr : known(v); contents) {
        v.node = add_source(name, *contents, to_real_dtype(v.type).value_or(DType::kFp32));
      }
      out.push_back(tensor(name, v, false));
    } catch (const UserError& e) {
      fail(fmt::format("output {}", quote(name)), e);
    }
  }
  if (out.empty()) fail("", UserError("onnx", "", "the graph has no computed output"));
  return out;
}

NodeId Importer::append_loss(NodeId output) {
  const auto& type = builder_.node(output).type;
  if (type.shape.rank() == 0) return output;
  const auto target = builder_.input(free_name("target"), type.shape, type.dtype);
  const NodeId inputs[] = {output, target};
  return add(ops::parse_op(ops::kMse, {}), inputs, "loss");
}

void Importer::convert_all(const ModelProto& graph) {
  if (graph.has_sparse_initializer) {
    fail("", UserError("onnx", "", "sparse initializers are not supported"));
  }
  read_initializers(graph);
  if (depth_ == 0) read_inputs();
  convert_nodes(graph.nodes);
}

void Importer::convert_nodes(std::span<const std::string_view> nodes) {
  for (auto message : nodes) {
    NodeProto node;
    try {
      node = read_node(message);
    } catch (const UserError& e) {
      fail("a node", e);
    }
    convert(std::move(node));
  }
}

// Returns the graph without the nodes that no output needs: what the file computes for a Shape, or
// a mask whose values come from outside.
graph::Graph Importer::finish(std::vector<NodeId> outputs) {
  auto all = builder_.finish(std::move(outputs));
  std::vector<bool> needed(all.size());
  for (auto id : all.outputs()) needed[id.index()] = true;
  for (std::size_t i = all.size(); i-- > 0;) {
    if (!needed[i]) continue;
    for (auto input : all.inputs(NodeId(i))) needed[input.index()] = true;
  }
  if (std::ranges::find(needed, false) == needed.end()) return all;
  graph::GraphBuilder builder(std::string(all.name()));
  std::vector<NodeId> now(all.size());
  for (auto id : all.ids()) {
    const auto& name = all.node(id).name;
    if (!needed[id.index()]) {
      out_.fixed.erase(name);
      out_.names.erase(name);
      std::erase(out_.derived, name);
      continue;
    }
    std::vector<NodeId> inputs;
    for (auto input : all.inputs(id)) inputs.push_back(now[input.index()]);
    now[id.index()] = builder.copy_node(all, id, inputs);
  }
  std::vector<NodeId> results;
  for (auto id : all.outputs()) results.push_back(now[id.index()]);
  return builder.finish(std::move(results));
}

OnnxModel Importer::run() {
  frequencies_ = find_frequencies(model_);
  convert_all(model_);
  auto results = collect_outputs();
  if (options_.append_loss) results.insert(results.begin(), append_loss(results[0]));
  try {
    out_.graph = finish(std::move(results));
  } catch (const UserError& e) {
    fail(e.where, e);
  }
  return std::move(out_);
}

}  // namespace tandem::import
