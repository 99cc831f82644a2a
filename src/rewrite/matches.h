// All matches of a rule set in a draft, updated incrementally. After a rewrite, only nodes near the
// change are matched again. The other matches are shared with those of the previous draft.
#pragma once

#include <memory>
#include <vector>

#include "rewrite/rule_set.h"

namespace tandem::rewrite {

class Matches {
 public:
  // Returns all matches of `rules` in `draft`.
  static Matches find(const RuleSet& rules, const Draft& draft);
  // Returns the matches in `draft`, which is the draft of these matches after a rewrite. `changed`
  // are the slots that the rewrite reported. The result equals find(rules, draft) in another order.
  [[nodiscard]] Matches find_after_rewrite(const RuleSet& rules, const Draft& draft,
                                           std::span<const Slot> changed) const;

  [[nodiscard]] std::size_t size() const { return size_; }
  // Returns whether the rule set's limit was reached, so that some matches are missing.
  [[nodiscard]] bool is_cut() const { return is_cut_; }
  [[nodiscard]] std::vector<Match> all() const;
  [[nodiscard]] bool contains(const Match& match, const RuleSet& rules) const;

 private:
  void match_at(const RuleSet& rules, const Draft& draft, Slot slot);

  std::vector<std::shared_ptr<const std::vector<Match>>> single_;  // by slot; null: none
  std::vector<Match> several_;  // matches of rules with several outputs
  std::size_t size_ = 0;
  bool is_cut_ = false;
};

}  // namespace tandem::rewrite
