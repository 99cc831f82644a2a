#include "search/neighbours/rewrite_moves.h"

#include <algorithm>

namespace tandem::search {

namespace {

using rewrite::Draft;
using rewrite::Match;
using rewrite::RuleSet;
using rewrite::Side;
using rewrite::Slot;

// Returns the number of operators on the longest path of the pattern.
std::size_t compute_depth(const Side& side) {
  std::vector<std::size_t> depth(side.nodes.size());
  for (std::size_t n = 0; n < side.nodes.size(); ++n) {
    if (side.nodes[n].is_variable()) continue;
    for (auto i : side.nodes[n].inputs) depth[n] = std::max(depth[n], depth[i]);
    ++depth[n];
  }
  return depth.empty() ? 0 : *std::ranges::max_element(depth);
}

// Hashes of what is visible from a slot within a number of operators: looks[depth][slot]. At depth
// 0 it is the slot's type.
class Looks {
 public:
  explicit Looks(const Draft& draft) : draft_(draft), users_(draft) {
    std::vector<Hash> types(draft.slot_count());
    for (auto slot : draft.order()) types[slot] = draft.node(slot).type.value;
    looks_.push_back(std::move(types));
  }

  Hash get_look(Slot slot, std::size_t depth) {
    while (looks_.size() <= depth) deepen();
    return looks_[depth][slot];
  }

 private:
  void deepen() {
    const auto& below = looks_.back();
    std::vector<Hash> out(draft_.slot_count());
    for (auto slot : draft_.order()) {
      const auto& node = draft_.node(slot);
      Hash h = hash_combine(node.op_hash, node.type.value);
      h = hash_combine(h, users_.of(slot).size());
      for (auto input : draft_.inputs(slot)) h = hash_combine(h, below[input]);
      out[slot] = h;
    }
    looks_.push_back(std::move(out));
  }

  const Draft& draft_;
  rewrite::Users users_;
  std::vector<std::vector<Hash>> looks_;
};

}  // namespace

RewriteState::RewriteState(const graph::Graph& first, const RuleSet& rules,
                           rewrite::Dictionary& dictionary)
    : rules_(&rules),
      draft_(Draft::from_graph(first, dictionary)),
      matches_(rewrite::Matches::find(rules, draft_)) {}

std::vector<RewriteState::At> RewriteState::find_places() const {
  Looks looks(draft_);
  std::vector<At> out;
  for (const auto& match : matches_.all()) {
    const auto& source = rules_->rules()[match.rule].source;
    const auto depth = compute_depth(source);
    Hash look = match.rule;
    for (std::size_t o = 0; o < source.outputs.size(); ++o) {
      look = hash_combine(look, looks.get_look(match.outputs[o], depth));
    }
    out.push_back({{.rule = match.rule, .look = look}, match});
  }
  return out;
}

std::vector<Move> RewriteState::list_moves() const {
  std::vector<Move> out;
  for (const auto& at : find_places()) out.push_back(at.move);
  std::ranges::sort(out);
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

std::vector<Move> RewriteState::list_single_moves() const {
  std::vector<Move> out;
  for (const auto& at : find_places()) out.push_back(at.move);
  std::ranges::sort(out);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const bool is_next = i > 0 && out[i].rule == out[i - 1].rule && out[i].look == out[i - 1].look;
    out[i].which = Move::Which::kOne;
    out[i].one = is_next ? out[i - 1].one + 1 : 0;
  }
  return out;
}

std::vector<Match> RewriteState::select_places(const Move& move) const {
  auto places = this->find_places();
  std::erase_if(
      places, [&](const At& at) { return at.move.rule != move.rule || at.move.look != move.look; });
  std::vector<std::size_t> order(draft_.slot_count());
  for (std::size_t i = 0; i < draft_.order().size(); ++i) order[draft_.order()[i]] = i;
  std::ranges::sort(places, {},
                    [&](const At& at) { return std::pair(order[at.match.outputs[0]], at.match); });
  const auto is_meant = [&](std::size_t i) {
    switch (move.which) {
      case Move::Which::kAll:
        return true;
      case Move::Which::kEven:
        return i % 2 == 0;
      case Move::Which::kOdd:
        return i % 2 == 1;
      case Move::Which::kOne:
        return i == move.one;
    }
    return false;
  };
  std::vector<Match> out;
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (is_meant(i)) out.push_back(places[i].match);
  }
  return out;
}

std::optional<RewriteState> RewriteState::apply(const Move& move,
                                                rewrite::Derivation* steps) const {
  auto out = *this;
  if (rules_->rules()[move.rule].source.outputs.size() == 1) {
    rewrite::DraftEdits edits(out.draft_);
    bool is_rewritten = false;
    for (const auto& match : select_places(move)) {
      const auto output = match.outputs[0];
      // The previous place's rewrite may have removed this one.
      if (!out.draft_.node(output).in_use) continue;
      rewrite::DerivationStep step{rules_->rules()[move.rule].name,
                                   {out.draft_.node(output).hash},
                                   {},
                                   out.draft_.hash(),
                                   0};
      if (!rules_->apply(edits, match)) continue;
      is_rewritten = true;
      step.after = out.draft_.hash();
      if (steps != nullptr) steps->push_back(std::move(step));
    }
    if (!is_rewritten) return std::nullopt;
    out.matches_ = matches_.find_after_rewrite(*rules_, out.draft_, edits.finish());
    return out;
  }
  bool changed_any = false;
  std::vector<Slot> changed;
  for (const auto& match : select_places(move)) {
    // The previous place's rewrite may have removed this one.
    if (changed_any && !out.matches_.contains(match, *rules_)) continue;
    auto draft = rules_->apply(out.draft_, match, changed);
    if (!draft) continue;
    if (steps != nullptr)
      steps->push_back(make_derivation_step(*rules_, match, out.draft_, *draft));
    out.matches_ = out.matches_.find_after_rewrite(*rules_, *draft, changed);
    out.draft_ = std::move(*draft);
    changed_any = true;
  }
  if (!changed_any) return std::nullopt;
  return out;
}

}  // namespace tandem::search
