#include "models/inference.h"

#include <algorithm>
#include <optional>

#include "ops/attributes.h"
#include "ops/registry.h"

namespace tandem::models {

namespace {

using graph::Graph;
using graph::NodeId;

// Returns the first operand of the loss, or nullopt if the output is no loss.
std::optional<NodeId> find_prediction(const Graph& model) {
  const auto output = model.outputs()[0];
  const auto& op = model.node(output).op;
  if (!op.is(ops::kCrossEntropy) && !op.is(ops::kMse)) return std::nullopt;
  return model.inputs(output)[0];
}

bool is_dropout(const Graph& model, NodeId id) { return model.node(id).op.is(ops::kDropout); }

// Returns the keys and values of causal attention. Attention is one operator, or three: scores,
// their softmax, and the weighted mean of the values.
std::vector<NodeId> find_keys_and_values(const Graph& model) {
  std::vector<NodeId> out;
  const auto consumers = model.consumers();
  for (auto id : model.ids()) {
    const auto& op = model.node(id).op;
    const auto inputs = model.inputs(id);
    if (op.is(ops::kAttention) && op.get<ops::Attention>().causal) {
      out.insert(out.end(), {inputs[1], inputs[2]});
    } else if (op.is(ops::kSoftmax) && op.get<ops::Softmax>().causal) {
      const auto is_contraction = [&](NodeId n) { return model.node(n).op.is(ops::kContract); };
      if (is_contraction(inputs[0])) out.push_back(model.inputs(inputs[0])[1]);
      for (auto user : consumers[id.index()]) {
        if (is_dropout(model, user)) user = consumers[user.index()][0];
        if (is_contraction(user)) out.push_back(model.inputs(user)[1]);
      }
    }
  }
  return out;
}

std::vector<bool> mark_needed_nodes(const Graph& model, const std::vector<NodeId>& outputs) {
  std::vector<bool> out(model.size());
  for (auto o : outputs) out[o.index()] = true;
  for (std::size_t n = model.size(); n-- > 0;) {
    if (!out[n]) continue;
    for (auto i : model.inputs(NodeId(n))) out[i.index()] = true;
  }
  return out;
}

}  // namespace

Graph convert_to_inference(const Graph& model) {
  const auto prediction = find_prediction(model);
  if (!prediction) return model;
  std::vector<NodeId> outputs = {*prediction};
  for (auto id : find_keys_and_values(model)) {
    if (std::ranges::find(outputs, id) == outputs.end()) outputs.push_back(id);
  }
  const auto needed = mark_needed_nodes(model, outputs);
  graph::GraphBuilder builder(model.name());
  std::vector<NodeId> image(model.size());
  for (auto id : model.ids()) {
    if (!needed[id.index()]) continue;
    std::vector<NodeId> inputs;
    for (auto i : model.inputs(id)) inputs.push_back(image[i.index()]);
    image[id.index()] = is_dropout(model, id) ? inputs[0] : builder.copy_node(model, id, inputs);
  }
  for (auto& o : outputs) o = image[o.index()];
  return builder.finish(std::move(outputs));
}

}  // namespace tandem::models
