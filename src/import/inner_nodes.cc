// Converts nodes inside nodes: the functions that a model defines and the branches of an If replace
// the node that has them.
#include <fmt/format.h>

#include <algorithm>

#include "import/importer.h"

namespace tandem::import {

namespace {

constexpr std::int64_t kInnerAlways = std::int64_t{1} << 16U;  // number that any file may have
constexpr std::size_t kLongName = 256;

}  // namespace

std::string_view Importer::declare(std::string_view given) {
  auto name = given;
  if (scope_ == nullptr || name.empty()) return name;
  auto own = name;
  // A function may be called often, and a long name would be stored for each call.
  if (name.size() > kLongName) name = "long_name";
  if (const auto at = scope_->results.find(given); at != scope_->results.end()) {
    own = at->second;
  } else {
    auto fresh = fmt::format("{}.{}", scope_->prefix, name);
    while (values_.contains(fresh)) {
      fresh = fmt::format("{}.{}_{}", scope_->prefix, name, next_own_++);
    }
    own = own_names_.emplace_back(std::move(fresh));
  }
  if (!scope_->names.emplace(given, own).second) {
    reject(fmt::format("two tensors have the name '{}'", name));
  }
  return own;
}

const FunctionProto* Importer::find_function(const NodeProto& node) {
  const auto key = [](const auto& x, std::string_view name) {
    return fmt::format("{}\n{}\n{}", x.domain == "ai.onnx" ? "" : x.domain, name, x.overload);
  };
  if (functions_.empty()) {
    for (auto message : model_.functions) {
      auto function = read_function(message);
      functions_.emplace(key(function, function.name), std::move(function));
    }
  }
  const auto at = functions_.find(key(node, node.op));
  return at == functions_.end() ? nullptr : &at->second;
}

// Converts the function's nodes in the place of the call.
void Importer::call_function(const NodeProto& call, const FunctionProto& function) {
  constexpr int kMostDepth = 32;
  if (depth_ == kMostDepth) reject("functions are nested too deeply");
  if (call.inputs.size() > function.inputs.size() ||
      call.outputs.size() > function.outputs.size()) {
    reject(fmt::format("the call has {} inputs and {} outputs, but the function has {} and {}",
                       call.inputs.size(), call.outputs.size(), function.inputs.size(),
                       function.outputs.size()));
  }
  inner_nodes_ += static_cast<std::int64_t>(function.nodes.size()) + 1;
  if (inner_nodes_ > kInnerAlways + static_cast<std::int64_t>(file_.size())) {
    reject("the model's functions expand to too many nodes");
  }
  Scope scope{.is_function = true, .attributes = call.attributes};
  for (const auto& a : function.defaults) {
    const bool given =
        std::ranges::find(call.attributes, a.name, &Attribute::name) != call.attributes.end();
    if (!given) scope.attributes.push_back(a);
  }
  for (std::size_t i = 0; i < call.outputs.size(); ++i) {
    const auto output = call.outputs[i];
    if (output.empty()) continue;
    if (values_.contains(output)) reject(fmt::format("two tensors have the name '{}'", output));
    scope.results.try_emplace(function.outputs[i], output);
    if (scope.prefix.empty() && output.size() <= kLongName) scope.prefix = output;
  }
  for (std::size_t i = 0; i < function.inputs.size(); ++i) {
    const auto given = i < call.inputs.size() ? call.inputs[i] : std::string_view{};
    if (!values_.contains(given) && !given.empty()) {
      reject(fmt::format("no earlier node produces '{}'", given));
    }
    scope.names[function.inputs[i]] = given;
  }
  auto* outer = scope_;
  const auto outer_opset = opset_;
  scope_ = &scope;
  if (function.opset > 0) opset_ = function.opset;
  ++depth_;
  convert_nodes(function.nodes);
  --depth_;
  opset_ = outer_opset;
  scope_ = outer;
  for (std::size_t i = 0; i < call.outputs.size(); ++i) {
    if (call.outputs[i].empty() || values_.contains(call.outputs[i])) continue;
    const auto at = values_.find(scope.resolve(function.outputs[i]));
    if (at == values_.end())
      reject(fmt::format("the function does not produce its output '{}'", function.outputs[i]));
    define(call.outputs[i], Value(at->second));
  }
}

void OnnxCall::inline_graph(std::string_view message) {
  constexpr int kMostDepth = 8;
  if (importer_.depth_ == kMostDepth) reject("inner graphs are nested too deeply");
  if (node_.outputs.empty()) reject("has no output");
  const auto graph = read_subgraph(message);
  Scope scope{.outer = importer_.scope_};
  if (node_.outputs[0].size() <= kLongName) scope.prefix = node_.outputs[0];
  for (std::size_t i = 0; i < std::min(graph.outputs.size(), outputs()); ++i) {
    const auto name = read_value_info(graph.outputs[i]).name;
    if (wants(i)) scope.results.try_emplace(name, node_.outputs[i]);
  }
  auto* outer = importer_.scope_;
  importer_.scope_ = &scope;
  ++importer_.depth_;
  importer_.convert_all(graph);
  --importer_.depth_;
  importer_.scope_ = outer;
  if (graph.outputs.size() != outputs())
    reject("the inner graph has a different number of outputs");
  for (std::size_t i = 0; i < outputs(); ++i) {
    const auto name = scope.resolve(read_value_info(graph.outputs[i]).name);
    if (name == node_.outputs[i]) continue;
    const auto at = importer_.values_.find(name);
    if (at == importer_.values_.end()) {
      reject(fmt::format("no node of the inner graph produces '{}'", name));
    }
    set_result(Value(at->second), i);
  }
}

}  // namespace tandem::import
