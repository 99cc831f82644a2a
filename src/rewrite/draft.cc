#include "rewrite/draft.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <unordered_set>
#include <utility>

#include "graph/hashes.h"

namespace tandem::rewrite {

Draft Draft::from_graph(const graph::Graph& graph, Dictionary& dictionary) {
  Draft out;
  const auto hashes = graph::hash_nodes(graph, graph::HashKind::kIdentity);
  std::unordered_map<Hash, Slot> slots;
  std::vector<Slot> slot_of(graph.size());
  for (auto id : graph.ids()) {
    const auto& node = graph.node(id);
    const auto slot = static_cast<Slot>(out.nodes_.size());
    const auto [known, fresh] = slots.emplace(hashes[id.index()], slot);
    slot_of[id.index()] = known->second;
    if (!fresh) continue;
    DraftNode entry{.op = dictionary.intern(node.op),
                    .type = dictionary.intern(node.type),
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
      ids[slot] = builder.copy_node(first, node.named_after, operands);
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

Slot Draft::add(OpId op, Hash op_hash, TypeId type, std::span<const Slot> inputs, Slot replaced) {
  const auto hash =
      graph::hash_node(op_hash, inputs, [&](Slot input) { return nodes_[input].hash; });
  if (const auto known = find(hash)) return *known;
  added_.push_back(take_slot({.op = op,
                              .type = type,
                              .in_use = true,
                              .named_after = nodes_[replaced].named_after,
                              .op_hash = op_hash,
                              .hash = hash},
                             inputs));
  return added_.back();
}

Slot Draft::take_slot(const DraftNode& node, std::span<const Slot> inputs) {
  auto slot = static_cast<Slot>(nodes_.size());
  if (free_.empty()) {
    nodes_.emplace_back();
  } else {
    slot = free_.back();
    free_.pop_back();
  }
  nodes_[slot] = node;
  nodes_[slot].first_input = static_cast<std::uint32_t>(inputs_.size());
  nodes_[slot].input_count = static_cast<std::uint16_t>(inputs.size());
  inputs_.insert(inputs_.end(), inputs.begin(), inputs.end());
  return slot;
}

bool Draft::replace(std::span<const Replacement> replacements, std::vector<Slot>& changed) {
  const auto replaced = [&](Slot slot) {
    for (const auto& r : replacements) {
      if (r.before == slot) return r.after;
    }
    return slot;
  };
  // Redirects the operands of `node`. Returns whether any of them was replaced.
  const auto redirect = [&](const DraftNode& node) {
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

// Sorts depth-first from the outputs. Returns false if there is a cycle.
bool Draft::sort() {
  enum class State : std::uint8_t { kNew, kOpen, kDone };
  std::vector<State> state(nodes_.size(), State::kNew);
  struct DraftSortFrame {
    Slot slot;
    std::uint32_t next;
  };
  std::vector<DraftSortFrame> stack;
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

// Recomputes the hashes of all nodes that have operands. The others keep theirs.
void Draft::hash_all() {
  const auto hash_of = [&](Slot slot) { return nodes_[slot].hash; };
  for (auto slot : order_) {
    auto& node = nodes_[slot];
    if (node.input_count != 0) node.hash = graph::hash_node(node.op_hash, inputs(slot), hash_of);
  }
  hash_ = graph::hash_outputs(outputs_, hash_of);
}

DraftEdits::DraftEdits(Draft& draft)
    : draft_(draft), uses_(draft.slot_count()), is_changed_(draft.slot_count()) {
  for (auto slot : draft.order_) {
    for (auto input : draft.inputs(slot)) ++uses_[input];
    if (draft.nodes_[slot].input_count > 0) by_key_.try_emplace(compute_key(slot), slot);
  }
  for (auto output : draft.outputs_) ++uses_[output];
}

Hash DraftEdits::compute_key(Slot slot) const {
  return graph::hash_node(draft_.nodes_[slot].op_hash, draft_.inputs(slot),
                          [](Slot input) { return static_cast<Hash>(input); });
}

Slot DraftEdits::add(OpId op, Hash op_hash, TypeId type, std::span<const Slot> inputs,
                     Slot replaced) {
  auto& nodes = draft_.nodes_;
  const auto hash =
      graph::hash_node(op_hash, inputs, [&](Slot input) { return nodes[input].hash; });
  const auto key =
      graph::hash_node(op_hash, inputs, [](Slot input) { return static_cast<Hash>(input); });
  if (inputs.empty()) {
    if (const auto known = draft_.find(hash)) return *known;
  } else if (const auto known = by_key_.find(key); known != by_key_.end()) {
    is_out_of_order_ = true;
    return known->second;
  }
  const auto slot = draft_.take_slot({.op = op,
                                      .type = type,
                                      .in_use = true,
                                      .named_after = nodes[replaced].named_after,
                                      .op_hash = op_hash,
                                      .hash = hash},
                                     inputs);
  uses_.resize(nodes.size());
  is_changed_.resize(nodes.size());
  uses_[slot] = 0;
  is_changed_[slot] = true;
  for (auto input : inputs) ++uses_[input];
  if (!inputs.empty()) by_key_.emplace(key, slot);
  added_.push_back(slot);
  return slot;
}

void DraftEdits::forget(Slot slot) {
  if (draft_.nodes_[slot].input_count == 0) return;
  const auto at = by_key_.find(compute_key(slot));
  if (at != by_key_.end() && at->second == slot) by_key_.erase(at);
}

void DraftEdits::drop_if_unused(Slot slot) {
  auto& node = draft_.nodes_[slot];
  if (uses_[slot] > 0 || !node.in_use) return;
  forget(slot);
  node.in_use = false;
  dropped_.push_back(slot);
  for (auto input : draft_.inputs(slot)) {
    --uses_[input];
    drop_if_unused(input);
  }
}

void DraftEdits::undo() {
  while (!added_.empty()) {
    drop_if_unused(added_.back());
    added_.pop_back();
  }
  is_out_of_order_ = false;
}

// Inserts the added nodes at the position of the node that they replace, which is after all nodes
// that they read. Hashes change from there on.
void DraftEdits::replace(Slot before, Slot after) {
  auto& nodes = draft_.nodes_;
  auto& order = draft_.order_;
  const auto begin = std::ranges::find(order, before) - order.begin();
  order.insert(order.begin() + begin, added_.begin(), added_.end());
  const auto first = static_cast<std::size_t>(begin) + added_.size();
  std::vector<bool> has_other_hash(nodes.size());
  has_other_hash[after] = true;
  for (auto at = first; at < order.size(); ++at) {
    const auto slot = order[at];
    const auto& node = nodes[slot];
    if (!node.in_use) continue;
    const auto inputs = std::span(draft_.inputs_).subspan(node.first_input, node.input_count);
    const auto uses = std::ranges::count(inputs, before);
    if (uses > 0) {
      forget(slot);
      std::ranges::replace(inputs, before, after);
      by_key_.try_emplace(compute_key(slot), slot);
      uses_[before] -= static_cast<std::uint32_t>(uses);
      uses_[after] += static_cast<std::uint32_t>(uses);
      is_changed_[slot] = true;
    }
    if (std::ranges::none_of(inputs, [&](Slot input) { return has_other_hash[input]; })) continue;
    has_other_hash[slot] = true;
    nodes[slot].hash =
        graph::hash_node(node.op_hash, inputs, [&](Slot input) { return nodes[input].hash; });
  }
  for (auto& output : draft_.outputs_) {
    if (output != before) continue;
    output = after;
    --uses_[before];
    ++uses_[after];
  }
  draft_.hash_ = graph::hash_outputs(draft_.outputs_, [&](Slot slot) { return nodes[slot].hash; });
  added_.clear();
  drop_if_unused(before);
  // An existing node may come later than the nodes that read it now.
  if (!std::exchange(is_out_of_order_, false)) return;
  CHECK(draft_.sort(), draft_.slot_count());
  draft_.hash_all();
}

std::vector<Slot> DraftEdits::finish() {
  CHECK(draft_.sort(), draft_.slot_count());
  draft_.free_.insert(draft_.free_.end(), dropped_.begin(), dropped_.end());
  draft_.drop_unused();
  std::vector<Slot> out;
  for (auto slot : draft_.order_) {
    if (is_changed_[slot]) out.push_back(slot);
  }
  return out;
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
