// Drafts: graphs while they are rewritten. Flat arrays over slots; a node keeps its slot as long as
// it is in use, so that what was found about the parts that a rewrite does not touch (matches)
// stays true. Copying one is copying a few arrays.
//
// Equal nodes are one node: of an operator on the same operands there is never a second. The hash
// is that of the graph (Graph::identity_hash), kept up to date.
#pragma once

#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "graph/graph.h"
#include "rewrite/dictionary.h"

namespace tandem::rewrite {

using Slot = std::uint32_t;

class Draft {
 public:
  struct Node {
    OpId op;
    TypeId type;
    std::uint32_t first_input = 0;  // in inputs_
    std::uint16_t input_count = 0;
    bool in_use = false;
    bool is_first = false;           // a node of the first graph
    graph::NodeId named_after = {};  // the node of the first graph that it is, or stands for
    Hash op_hash = 0;
    Hash hash = 0;
  };

  static Draft of(const graph::Graph& graph, Dictionary& dictionary);
  // `first` is the graph that the first draft was made of: its nodes are shared, others continue
  // the names of those they stand for.
  [[nodiscard]] graph::Graph to_graph(const graph::Graph& first,
                                      const Dictionary& dictionary) const;

  [[nodiscard]] std::size_t slot_count() const { return nodes_.size(); }
  [[nodiscard]] const Node& node(Slot slot) const { return nodes_[slot]; }
  [[nodiscard]] std::span<const Slot> inputs(Slot slot) const {
    return std::span(inputs_).subspan(nodes_[slot].first_input, nodes_[slot].input_count);
  }
  // Slots in use, in topological order.
  [[nodiscard]] const std::vector<Slot>& order() const { return order_; }
  [[nodiscard]] const std::vector<Slot>& outputs() const { return outputs_; }
  [[nodiscard]] Hash hash() const { return hash_; }

  // An edit: add nodes, then replace. A draft whose edit did not succeed is to be thrown away.
  // Gives the node that there is already where there is one. `stands_for`: whose name it continues.
  Slot add(OpId op, Hash op_hash, TypeId type, std::span<const Slot> inputs, Slot stands_for);
  // Everything that used an old node, but for what was added, now uses the new one, in time linear
  // in the draft; nodes that no output needs any more are dropped. False where a node would depend
  // on itself. `changed` receives the slots that are new or use another operand than before.
  struct Replacement {
    Slot before = 0, after = 0;
  };
  bool replace(std::span<const Replacement> replacements, std::vector<Slot>& changed);

 private:
  friend class DraftEdits;

  bool sort();
  Slot take_slot(const Node& node, std::span<const Slot> inputs);
  void drop_unused();
  void hash_all();
  [[nodiscard]] std::optional<Slot> find(Hash hash) const;

  std::vector<Node> nodes_;
  std::vector<Slot> inputs_;
  std::vector<Slot> order_;
  std::vector<Slot> outputs_;
  std::vector<Slot> free_;
  std::vector<Slot> added_;  // by the edit at hand
  Hash hash_ = 0;
};

// Many edits of one draft, each of which replaces one node: in place, so that the rest of the draft
// is neither copied nor sorted for each.
class DraftEdits {
 public:
  explicit DraftEdits(Draft& draft);

  [[nodiscard]] const Draft& draft() const { return draft_; }
  [[nodiscard]] const Draft::Node& node(Slot slot) const { return draft_.node(slot); }
  // As Draft::add and Draft::replace. What replaces a node must not depend on it.
  Slot add(OpId op, Hash op_hash, TypeId type, std::span<const Slot> inputs, Slot stands_for);
  void replace(Slot before, Slot after);
  // Drops what was added since the last replacement.
  void undo();
  // Ends the edits. Returns the slots that are new or use another operand than before them.
  std::vector<Slot> finish();

 private:
  [[nodiscard]] Hash key_of(Slot slot) const;
  void forget(Slot slot);
  void drop_if_unused(Slot slot);

  Draft& draft_;
  std::unordered_map<Hash, Slot> by_key_;  // of what has operands, by operator and operands
  std::vector<std::uint32_t> uses_;        // by slot, the draft's outputs included
  std::vector<Slot> added_;                // since the last replacement
  std::vector<Slot> dropped_;
  std::vector<bool> is_changed_;  // by slot
  bool is_out_of_order_ = false;  // may what is added read a node that comes later?
};

// Who uses whom, of one draft.
class Users {
 public:
  explicit Users(const Draft& draft);
  [[nodiscard]] std::span<const Slot> of(Slot slot) const {
    return std::span(users_).subspan(begin_[slot], begin_[slot + 1] - begin_[slot]);
  }

 private:
  std::vector<std::uint32_t> begin_;
  std::vector<Slot> users_;
};

}  // namespace tandem::rewrite
