#include "rewrite/draft.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "graph/hashes.h"

namespace tandem::rewrite {

Draft Draft::of(const graph::Graph& graph, Dictionary& dictionary) {
  Draft out;
  const auto hashes = graph::node_hashes(graph, graph::HashKind::kIdentity);
  std::unordered_map<Hash, Slot> slots;
  std::vector<Slot> slot_of(graph.size());
  for (auto id : graph.ids()) {
    const auto& node = graph.node(id);
    const auto slot = static_cast<Slot>(out.nodes_.size());
    const auto [known, fresh] = slots.emplace(hashes[id.index()], slot);
    slot_of[id.index()] = known->second;
    if (!fresh) continue;
    Node entry{.op = dictionary.id_of(node.op),
               .type = dictionary.id_of(node.type),
               .first_input = static_cast<std::uint32_t>(out.inputs_.size()),
               .input_count = static_cast<std::uint16_t>(graph.inputs(id).size()),
               .in_use = true,
               .is_first = true,
               .named_after = id,
               .op_hash = node.op.hash(),
               .hash = hashes[id.index()]};
    out.nodes_.push_back(entry);
    for (auto input : graph.inputs(id)) out.inputs_.push_back(slot_of[input.index()]);
  }
  for (auto output : graph.outputs()) out.outputs_.push_back(slot_of[output.index()]);
  CHECK(out.sort(), graph.name());
  out.drop_unused();
  out.hash_all();
  return out;
}

graph::Graph Draft::to_graph(const graph::Graph& first, const Dictionary& dictionary) const {
  graph::GraphBuilder builder(first.name());
  std::unordered_set<std::string> taken;
  for (auto slot : order_) {
    if (nodes_[slot].is_first) taken.insert(first.node(nodes_[slot].named_after).name);
  }
  std::vector<graph::NodeId> ids(nodes_.size());
  std::vector<graph::NodeId> operands;
  for (auto slot : order_) {
    const auto& node = nodes_[slot];
    operands.clear();
    for (auto input : inputs(slot)) operands.push_back(ids[input]);
    if (node.is_first) {
      ids[slot] = builder.keep(first, node.named_after, operands);
      continue;
    }
    const auto& name = first.node(node.named_after).name;
    auto own = name;
    for (int i = 1; !taken.insert(own).second; ++i) own = fmt::format("{}.{}", name, i);
    ids[slot] = builder.add(dictionary.op(node.op), operands, own);
  }
  std::vector<graph::NodeId> results;
  results.reserve(outputs_.size());
  for (auto output : outputs_) results.push_back(ids[output]);
  return builder.finish(std::move(results));
}

std::optional<Slot> Draft::find(Hash hash) const {
  for (Slot slot = 0; slot < nodes_.size(); ++slot) {
    if (nodes_[slot].hash == hash && nodes_[slot].in_use) return slot;
  }
  return std::nullopt;
}

Slot Draft::add(OpId op, Hash op_hash, TypeId type, std::span<const Slot> inputs, Slot stands_for) {
  const auto hash =
      graph::node_hash(op_hash, inputs, [&](Slot input) { return nodes_[input].hash; });
  if (const auto known = find(hash)) return *known;
  Slot slot = 0;
  if (free_.empty()) {
    slot = static_cast<Slot>(nodes_.size());
    nodes_.emplace_back();
  } else {
    slot = free_.back();
    free_.pop_back();
  }
  nodes_[slot] = {.op = op,
                  .type = type,
                  .first_input = static_cast<std::uint32_t>(inputs_.size()),
                  .input_count = static_cast<std::uint16_t>(inputs.size()),
                  .in_use = true,
                  .is_first = false,
                  .named_after = nodes_[stands_for].named_after,
                  .op_hash = op_hash,
                  .hash = hash};
  inputs_.insert(inputs_.end(), inputs.begin(), inputs.end());
  added_.push_back(slot);
  return slot;
}

bool Draft::replace(std::span<const Replacement> replacements, std::vector<Slot>& changed) {
  const auto replaced = [&](Slot slot) {
    for (const auto& r : replacements) {
      if (r.before == slot) return r.after;
    }
    return slot;
  };
  // Whether any of the node's operands was replaced.
  const auto redirect = [&](const Node& node) {
    bool any = false;
    for (auto& input : std::span(inputs_).subspan(node.first_input, node.input_count)) {
      const auto now = replaced(input);
      any = any || now != input;
      input = now;
    }
    return any;
  };
  changed.clear();
  for (Slot slot = 0; slot < nodes_.size(); ++slot) {
    if (!nodes_[slot].in_use) continue;
    const bool is_added = std::ranges::find(added_, slot) != added_.end();
    if (is_added || redirect(nodes_[slot])) changed.push_back(slot);
  }
  added_.clear();
  for (auto& output : outputs_) output = replaced(output);
  if (!sort()) return false;
  drop_unused();
  hash_all();
  std::erase_if(changed, [&](Slot slot) { return !nodes_[slot].in_use; });
  return true;
}

// Depth first from the outputs; false where that runs in a circle.
bool Draft::sort() {
  enum class State : std::uint8_t { kNew, kOpen, kDone };
  std::vector<State> state(nodes_.size(), State::kNew);
  struct Frame {
    Slot slot;
    std::uint32_t next;
  };
  std::vector<Frame> stack;
  order_.clear();
  for (auto output : outputs_) {
    if (state[output] == State::kNew) stack.push_back({output, 0});
    while (!stack.empty()) {
      auto& [slot, next] = stack.back();
      state[slot] = State::kOpen;
      if (next == nodes_[slot].input_count) {
        state[slot] = State::kDone;
        order_.push_back(slot);
        stack.pop_back();
        continue;
      }
      const auto input = inputs_[nodes_[slot].first_input + next++];
      if (state[input] == State::kOpen) return false;
      if (state[input] == State::kNew) stack.push_back({input, 0});
    }
  }
  return true;
}

void Draft::drop_unused() {
  std::vector<bool> used(nodes_.size());
  std::size_t edges = 0;
  for (auto slot : order_) {
    used[slot] = true;
    edges += nodes_[slot].input_count;
  }
  for (Slot slot = 0; slot < nodes_.size(); ++slot) {
    if (used[slot] || !nodes_[slot].in_use) continue;
    nodes_[slot].in_use = false;
    free_.push_back(slot);
  }
  if (inputs_.size() < 2 * edges + 64) return;
  std::vector<Slot> packed;
  packed.reserve(edges);
  for (auto slot : order_) {
    const auto own = inputs(slot);
    const auto first = static_cast<std::uint32_t>(packed.size());
    packed.insert(packed.end(), own.begin(), own.end());
    nodes_[slot].first_input = first;
  }
  inputs_ = std::move(packed);
}

// Of what has operands; the others keep theirs.
void Draft::hash_all() {
  const auto hash_of = [&](Slot slot) { return nodes_[slot].hash; };
  for (auto slot : order_) {
    auto& node = nodes_[slot];
    if (node.input_count != 0) node.hash = graph::node_hash(node.op_hash, inputs(slot), hash_of);
  }
  hash_ = graph::outputs_hash(outputs_, hash_of);
}

Users::Users(const Draft& draft) : begin_(draft.slot_count() + 1) {
  for (auto slot : draft.order()) {
    for (auto input : draft.inputs(slot)) ++begin_[input + 1];
  }
  for (std::size_t slot = 0; slot < draft.slot_count(); ++slot) begin_[slot + 1] += begin_[slot];
  users_.resize(begin_.back());
  auto next = begin_;
  for (auto slot : draft.order()) {
    for (auto input : draft.inputs(slot)) users_[next[input]++] = slot;
  }
}

}  // namespace tandem::rewrite
