#include "rewrite/matches.h"

#include <algorithm>

namespace tandem::rewrite {

namespace {

// Returns for every slot whether a match with an output there may depend on the change. This holds
// for `changed` and its users up to `levels` above.
std::vector<bool> mark_nearby_slots(const Draft& draft, const Users& users,
                                    std::span<const Slot> changed, std::size_t levels) {
  std::vector<bool> out(draft.slot_count());
  std::vector<Slot> level(changed.begin(), changed.end());
  for (auto slot : level) out[slot] = true;
  for (std::size_t i = 0; i < levels && !level.empty(); ++i) {
    std::vector<Slot> above;
    for (auto slot : level) {
      for (auto user : users.of(slot)) {
        if (out[user]) continue;
        out[user] = true;
        above.push_back(user);
      }
    }
    level = std::move(above);
  }
  return out;
}

}  // namespace

void Matches::match_at(const RuleSet& rules, const Draft& draft, Slot slot) {
  std::vector<Match> found;
  rules.match_single(draft, slot, found);
  size_ -= single_[slot] ? single_[slot]->size() : 0;
  size_ += found.size();
  single_[slot] =
      found.empty() ? nullptr : std::make_shared<const std::vector<Match>>(std::move(found));
}

Matches Matches::find(const RuleSet& rules, const Draft& draft) {
  Matches out;
  const Users users(draft);
  out.single_.resize(draft.slot_count());
  const std::vector<bool> everywhere(draft.slot_count(), true);
  for (auto slot : draft.order()) {
    out.is_cut_ = out.size_ + out.several_.size() >= rules.limits().matches;
    if (out.is_cut_) break;
    out.match_at(rules, draft, slot);
    rules.match_several(draft, users, slot, everywhere, out.several_);
  }
  out.size_ += out.several_.size();
  return out;
}

Matches Matches::find_after_rewrite(const RuleSet& rules, const Draft& draft,
                                    std::span<const Slot> changed) const {
  auto out = *this;
  const Users users(draft);
  const auto is_near =
      mark_nearby_slots(draft, users, changed, rules.depth() == 0 ? 0 : rules.depth() - 1);
  out.single_.resize(draft.slot_count());
  out.size_ -= out.several_.size();
  for (Slot slot = 0; slot < draft.slot_count(); ++slot) {
    if (draft.node(slot).in_use || !out.single_[slot]) continue;
    out.size_ -= out.single_[slot]->size();
    out.single_[slot] = nullptr;
  }
  std::erase_if(out.several_, [&](const Match& match) {
    const auto outputs = rules.rules()[match.rule].source.outputs.size();
    return std::any_of(match.outputs.begin(),
                       match.outputs.begin() + static_cast<std::ptrdiff_t>(outputs),
                       [&](Slot slot) { return is_near[slot] || !draft.node(slot).in_use; });
  });
  for (auto slot : draft.order()) {
    if (!is_near[slot]) continue;
    out.match_at(rules, draft, slot);
    rules.match_several(draft, users, slot, is_near, out.several_);
  }
  out.size_ += out.several_.size();
  return out;
}

std::vector<Match> Matches::all() const {
  std::vector<Match> out = several_;
  for (const auto& at : single_) {
    if (at) out.insert(out.end(), at->begin(), at->end());
  }
  return out;
}

bool Matches::contains(const Match& match, const RuleSet& rules) const {
  if (rules.rules()[match.rule].source.outputs.size() > 1) {
    return std::ranges::find(several_, match) != several_.end();
  }
  const auto slot = match.outputs[0];
  return slot < single_.size() && single_[slot] &&
         std::ranges::find(*single_[slot], match) != single_[slot]->end();
}

}  // namespace tandem::rewrite
