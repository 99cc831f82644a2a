#include "import/frequencies.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "base/error.h"

namespace tandem::import {

namespace {

constexpr std::array<std::string_view, 14> kPassing = {
    "Cast", "Concat",  "Einsum", "Expand",  "Gather", "Identity",  "MatMul",
    "Mul",  "Reshape", "Slice",  "Squeeze", "Tile",   "Transpose", "Unsqueeze"};

bool is_sine_or_cosine(const NodeProto& node) { return node.op == "Sin" || node.op == "Cos"; }

bool is_vector(const Sizes& sizes) {
  return std::ranges::count_if(sizes, [](auto size) { return size != 1; }) <= 1;
}

// Returns all tensors that depend on a layer's weights or an image.
std::unordered_set<std::string_view> find_activations(const ModelProto& model,
                                                      const std::vector<NodeProto>& nodes) {
  std::unordered_set<std::string_view> others;
  for (auto message : model.inputs) {
    const auto info = read_value_info(message);
    if (to_real_dtype(info.type) && info.shape.size() > 1) others.insert(info.name);
  }
  for (auto message : model.initializers) {
    const auto tensor = read_tensor(message);
    if (to_real_dtype(tensor.type) && !is_vector(tensor.sizes)) others.insert(tensor.name);
    if (is_vector(tensor.sizes)) others.erase(tensor.name);
  }
  for (const auto& node : nodes) {
    if (node.op == "Shape" ||
        std::ranges::none_of(node.inputs, [&](auto input) { return others.contains(input); })) {
      continue;
    }
    others.insert(node.outputs.begin(), node.outputs.end());
  }
  return others;
}

std::unordered_set<std::string_view> search_frequencies(const ModelProto& model) {
  std::vector<NodeProto> nodes;
  bool waves = false;
  for (auto message : model.nodes) waves = waves || is_sine_or_cosine(read_node(message));
  if (!waves) return {};
  for (auto message : model.nodes) nodes.push_back(read_node(message));
  const auto others = find_activations(model, nodes);
  // Walks backward and keeps the tensors that only waves of positions use.
  std::unordered_map<std::string_view, bool> alone;
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
    if (node->op == "Shape" || node->outputs.empty()) continue;
    bool wave =
        is_sine_or_cosine(*node) && !node->inputs.empty() && !others.contains(node->inputs[0]);
    if (std::ranges::find(kPassing, node->op) != kPassing.end()) {
      const auto at = alone.find(node->outputs[0]);
      wave = at != alone.end() && at->second;
    }
    for (auto input : node->inputs) {
      auto& is_alone = alone.try_emplace(input, true).first->second;
      is_alone = is_alone && wave;
    }
  }
  std::unordered_set<std::string_view> out;
  for (auto message : model.initializers) {
    const auto tensor = read_tensor(message);
    const auto at = alone.find(tensor.name);
    if (at != alone.end() && at->second && is_vector(tensor.sizes)) out.insert(tensor.name);
  }
  return out;
}

}  // namespace

std::unordered_set<std::string_view> find_frequencies(const ModelProto& model) {
  try {
    return search_frequencies(model);
  } catch (const UserError&) {
    return {};  // the import reads it again and reports the error with its place
  }
}

}  // namespace tandem::import
