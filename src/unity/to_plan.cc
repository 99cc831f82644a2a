#include "unity/to_plan.h"

#include <algorithm>

#include "rewrite/derivation.h"
#include "rewrite/rule_text.h"

namespace tandem::unity {

namespace {

using graph::NodeId;
using machine::DigitRole;
using machine::Layout;
using rewrite::Draft;
using rewrite::Match;
using rewrite::Slot;

constexpr Slot kNowhere = 0xffffffff;

// Finds the nodes of a piece's draft in the whole model's draft, which has no parallelization
// operators. Sources are found by name, operators by their kind and operands.
class Counterparts {
 public:
  Counterparts(const Draft& whole, const PieceSolution& solved,
               const rewrite::Dictionary& dictionary)
      : whole_(whole), solved_(solved), dictionary_(dictionary), users_(whole) {
    for (auto slot : whole.order()) {
      const auto& node = whole.node(slot);
      if (node.is_first) by_model_.push_back({node.named_after, slot});
    }
    std::ranges::sort(by_model_, {}, &ModelSlot::node);
  }

  // Returns the slots in the whole model by slot of `draft`. `border`: the slot of the piece's
  // border input in the whole model.
  std::vector<Slot> find_slots(const Draft& draft, Slot border) const {
    std::vector<Slot> out(draft.slot_count(), kNowhere);
    for (auto slot : draft.order()) {
      const auto& node = draft.node(slot);
      const auto role = dictionary_.op(node.op).role();
      if (role == ops::Role::kParallel) {
        out[slot] = out[draft.inputs(slot)[0]];
      } else if (role == ops::Role::kSource) {
        out[slot] = find_source(node, border);
      } else {
        out[slot] = find_equal(draft, slot, out);
      }
    }
    return out;
  }

 private:
  struct ModelSlot {
    NodeId node;
    Slot slot;
  };

  [[nodiscard]] Slot find_source(const Draft::DraftNode& node, Slot border) const {
    const auto& own = solved_.piece.border;
    if (node.is_first && own && node.named_after == own->input) return border;
    if (node.is_first) {
      const auto model = solved_.model_node[node.named_after.index()];
      const auto at = std::ranges::lower_bound(by_model_, model, {}, &ModelSlot::node);
      return at != by_model_.end() && at->node == model ? at->slot : kNowhere;
    }
    // A constant that a rule has created.
    for (auto slot : whole_.order()) {
      if (whole_.node(slot).op == node.op) return slot;
    }
    return kNowhere;
  }

  [[nodiscard]] Slot find_equal(const Draft& draft, Slot slot, const std::vector<Slot>& at) const {
    const auto inputs = draft.inputs(slot);
    const auto first = at[inputs[0]];
    if (first == kNowhere) return kNowhere;
    const auto is_it = [&](Slot other) {
      const auto others = whole_.inputs(other);
      if (whole_.node(other).op != draft.node(slot).op || others.size() != inputs.size())
        return false;
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (others[i] != at[inputs[i]]) return false;
      }
      return true;
    };
    for (auto user : users_.of(first)) {
      if (is_it(user)) return user;
    }
    return kNowhere;
  }

  const Draft& whole_;
  const PieceSolution& solved_;
  const rewrite::Dictionary& dictionary_;
  rewrite::Users users_;
  std::vector<ModelSlot> by_model_;
};

class Conversion {
 public:
  Conversion(const graph::Graph& model, const std::vector<PieceSolution>& pieces,
             Substitutions& substitutions)
      : model_(model),
        pieces_(pieces),
        shared_(substitutions),
        dictionary_(substitutions.dictionary()),
        whole_(Draft::from_graph(model, dictionary_)) {}

  std::optional<UnityPlan> run() {
    TaskGraphBuilder builder(dictionary_, shared_.placements());
    std::vector<Draft> ends;
    for (const auto& solved : pieces_) {
      if (!apply_steps(solved)) return std::nullopt;
      ends.push_back(shared_.replay_steps(solved.piece, solved.steps).back());
      builder.append(ends.back(), solved.piece.border);
    }
    const auto graph = builder.finish();
    const auto mapping = shared_.mapping().find_best(graph);
    if (mapping.seconds == kImpossible) return std::nullopt;
    return make_plan(graph, mapping, ends);
  }

 private:
  // Applies a piece's algebraic steps to the whole model.
  bool apply_steps(const PieceSolution& solved) {
    const auto drafts = shared_.replay_steps(solved.piece, solved.steps);
    for (std::size_t i = 0; i < solved.steps.size(); ++i) {
      const auto& rule = shared_.rules().rules()[solved.steps[i].rule];
      if (is_parallel(rule)) continue;
      const auto at = find_counterparts(solved, drafts[i]);
      auto match = solved.steps[i];
      for (std::size_t o = 0; o < rule.source.outputs.size(); ++o) {
        match.outputs[o] = at[match.outputs[o]];
        if (match.outputs[o] == kNowhere) return false;
      }
      std::vector<Slot> changed;
      auto next = shared_.rules().apply(whole_, match, changed);
      if (!next) return false;
      derivation_.push_back(make_derivation_step(shared_.rules(), match, whole_, *next));
      const auto text = to_text(rule);
      if (std::ranges::find(rules_, text) == rules_.end()) rules_.push_back(text);
      whole_ = std::move(*next);
    }
    const auto at = find_counterparts(solved, drafts.back());
    border_ = at[drafts.back().outputs()[0]];
    borders_.push_back(border_);
    return border_ != kNowhere;
  }

  [[nodiscard]] std::vector<Slot> find_counterparts(const PieceSolution& solved,
                                                    const Draft& draft) const {
    return Counterparts(whole_, solved, dictionary_).find_slots(draft, border_);
  }

  std::optional<UnityPlan> make_plan(const TaskGraph& graph, const TaskMapping& mapping,
                                     const std::vector<Draft>& ends) {
    UnityPlan out{
        .choices = {}, .rewritten = nullptr, .node_seconds = {}, .seconds = mapping.seconds};
    const auto& whole = derivation_.empty() ? model_ : make_rewritten(out);
    std::vector<NodeId> node_of(whole_.slot_count());
    for (std::size_t i = 0; i < whole_.order().size(); ++i) {
      const auto slot = whole_.order()[i];
      node_of[slot] = derivation_.empty() ? whole_.node(slot).named_after : NodeId(i);
    }
    // A later piece may have rewritten a border, so the current slots are looked up again.
    std::vector<std::vector<Slot>> at;
    for (std::size_t p = 0; p < pieces_.size(); ++p) {
      border_ = p == 0 ? kNowhere : borders_[p - 1];
      at.push_back(find_counterparts(pieces_[p], ends[p]));
    }
    const auto digits = shared_.placements().digits().count();
    out.choices.resize(whole.size());
    out.node_seconds.resize(whole.size());
    for (auto id : whole.ids())
      out.choices[id.index()].source = Layout(digits, DigitRole::kReplica);
    std::vector<bool> is_placed(whole.size());
    for (std::size_t v = 0; v < graph.vertices.size(); ++v) {
      const auto& vertex = graph.vertices[v];
      const auto slot = at[vertex.piece][vertex.slot];
      if (slot == kNowhere) return std::nullopt;
      const auto id = node_of[slot];
      const auto& place = mapping.places[v];
      out.choices[id.index()].node =
          shared_.placements().get_placements(vertex.kind, place.region)[place.placement].node;
      out.node_seconds[id.index()] = compute_seconds(graph, mapping, v);
      is_placed[id.index()] = true;
    }
    for (auto id : whole.ids()) {
      if (whole.node(id).op.role() != ops::Role::kCompute) continue;
      if (!is_placed[id.index()]) return std::nullopt;
      place_sources(whole, id, out.choices);
    }
    return out;
  }

  double compute_seconds(const TaskGraph& graph, const TaskMapping& mapping, std::size_t v) {
    auto& placements = shared_.placements();
    const auto& vertex = graph.vertices[v];
    const auto& place = mapping.places[v];
    auto out = placements.get_placements(vertex.kind, place.region)[place.placement].seconds;
    for (const auto& edge : vertex.in) {
      const auto& from = mapping.places[edge.from];
      out += placements
                 .get_reshard_costs(graph.vertices[edge.from].kind, from.region, vertex.kind,
                                    place.region, edge.operand)
                 .at(from.placement, place.placement);
    }
    return out;
  }

  const graph::Graph& make_rewritten(UnityPlan& out) {
    auto made = std::make_shared<search::Rewritten>();
    made->graph = whole_.to_graph(model_, dictionary_);
    made->derivation = derivation_;
    made->rules = rules_;
    out.rewritten = made;
    return out.rewritten->graph;
  }

  // Lays out the sources of an operator as their first reader needs them.
  void place_sources(const graph::Graph& whole, NodeId id, std::vector<plan::Choice>& choices) {
    const auto inputs = whole.inputs(id);
    sources_.resize(whole.size());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const auto source = inputs[i].index();
      if (whole.node(inputs[i]).op.role() != ops::Role::kSource || sources_[source]) continue;
      sources_[source] = true;
      choices[source].source =
          compute_input_layout(get_node_signature(whole, id), choices[id.index()].node,
                               shared_.placements().digits().count(), i);
    }
  }

  const graph::Graph& model_;
  const std::vector<PieceSolution>& pieces_;
  Substitutions& shared_;
  rewrite::Dictionary& dictionary_;
  Draft whole_;
  Slot border_ = kNowhere;     // input of the current piece
  std::vector<Slot> borders_;  // results of the pieces
  std::vector<bool> sources_;  // by node: whether it has a layout
  rewrite::Derivation derivation_;
  std::vector<std::string> rules_;
};

}  // namespace

std::optional<UnityPlan> to_plan(const graph::Graph& model,
                                 const std::vector<PieceSolution>& pieces,
                                 Substitutions& substitutions) {
  return Conversion(model, pieces, substitutions).run();
}

}  // namespace tandem::unity
