// Drafts: graphs while they are rewritten. A draft consists of flat arrays that are indexed by
// slot. A node keeps its slot while it is in use, so that matches away from a rewrite stay valid.
// Copying a draft copies a few arrays.
//
// Equal nodes are one node: no two nodes have the same operator and the same operands. The hash is
// that of the graph (Graph::identity_hash) and is updated with it.
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
  struct DraftNode {
    OpId op;
    TypeId type;
    std::uint32_t first_input = 0;  // index in inputs_
    std::uint16_t input_count = 0;
    bool in_use = false;
    bool is_first = false;           // whether it is a node of the first graph
    graph::NodeId named_after = {};  // the node of the first graph that it is, or replaces
    Hash op_hash = 0;
    Hash hash = 0;
  };

  static Draft from_graph(const graph::Graph& graph, Dictionary& dictionary);
  // Returns the draft as a graph. `first` is the graph of the first draft. Its nodes are shared; a
  // new node derives its name from the node that it replaces.
  [[nodiscard]] graph::Graph to_graph(const graph::Graph& first,
                                      const Dictionary& dictionary) const;

  [[nodiscard]] std::size_t slot_count() const { return nodes_.size(); }
  [[nodiscard]] const DraftNode& node(Slot slot) const { return nodes_[slot]; }
  [[nodiscard]] std::span<const Slot> inputs(Slot slot) const {
    return std::span(inputs_).subspan(nodes_[slot].first_input, nodes_[slot].input_count);
  }
  // Returns the slots in use, in topological order.
  [[nodiscard]] const std::vector<Slot>& order() const { return order_; }
  [[nodiscard]] const std::vector<Slot>& outputs() const { return outputs_; }
  [[nodiscard]] Hash hash() const { return hash_; }

  // Adds a node as part of an edit: first add nodes, then replace. Returns the existing node if
  // there is an equal one. A new node derives its name from `replaced`. Discard a draft whose
  // edit fails.
  Slot add(OpId op, Hash op_hash, TypeId type, std::span<const Slot> inputs, Slot replaced);
  // Makes all users of an old node use the new one, except nodes that this edit added, and drops
  // nodes that no output needs. Takes time linear in the draft. Returns false if a node would
  // depend on itself. Stores in `changed` the slots that are new or have another operand than
  // before.
  struct Replacement {
    Slot before = 0, after = 0;
  };
  bool replace(std::span<const Replacement> replacements, std::vector<Slot>& changed);

 private:
  friend class DraftEdits;

  bool sort();
  Slot take_slot(const DraftNode& node, std::span<const Slot> inputs);
  void drop_unused();
  void hash_all();
  [[nodiscard]] std::optional<Slot> find(Hash hash) const;

  std::vector<DraftNode> nodes_;
  std::vector<Slot> inputs_;
  std::vector<Slot> order_;
  std::vector<Slot> outputs_;
  std::vector<Slot> free_;
  std::vector<Slot> added_;  // slots that the current edit added
  Hash hash_ = 0;
};

// A series of edits of one draft, each of which replaces one node. The edits are made in place, so
// that the draft is neither copied nor sorted for each.
class DraftEdits {
 public:
  explicit DraftEdits(Draft& draft);

  [[nodiscard]] const Draft& draft() const { return draft_; }
  [[nodiscard]] const Draft::DraftNode& node(Slot slot) const { return draft_.node(slot); }
  // These work like Draft::add and Draft::replace. The new node must not depend on the old one.
  Slot add(OpId op, Hash op_hash, TypeId type, std::span<const Slot> inputs, Slot replaced);
  void replace(Slot before, Slot after);
  // Drops the nodes that were added since the last replacement.
  void undo();
  // Ends the edits. Returns the slots that are new or have another operand than before the edits.
  std::vector<Slot> finish();

 private:
  [[nodiscard]] Hash compute_key(Slot slot) const;
  void forget(Slot slot);
  void drop_if_unused(Slot slot);

  Draft& draft_;
  std::unordered_map<Hash, Slot> by_key_;  // nodes with operands, by hash of operator and operands
  std::vector<std::uint32_t> uses_;        // number of uses by slot, including draft outputs
  std::vector<Slot> added_;                // since the last replacement
  std::vector<Slot> dropped_;
  std::vector<bool> is_changed_;  // by slot
  bool is_out_of_order_ = false;  // whether an added node may read a later node
};

// The users of every node of a draft.
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
