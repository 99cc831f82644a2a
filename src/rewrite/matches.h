// All matches of a rule set in a draft, kept up to date: after a rewrite only what is near the
// change is matched again, the rest is shared with the draft before.
#pragma once

#include <memory>
#include <vector>

#include "rewrite/rule_set.h"

namespace tandem::rewrite {

class Matches {
 public:
  static Matches find(const RuleSet& rules, const Draft& draft);
  // Those of `draft`, which a rewrite of the draft of these has made; `changed` is what the rewrite
  // gave. The same as find(rules, draft), in another order.
  [[nodiscard]] Matches after(const RuleSet& rules, const Draft& draft,
                              std::span<const Slot> changed) const;

  [[nodiscard]] std::size_t size() const { return size_; }
  // Are there more than the rule set's limit, so that not all are here?
  [[nodiscard]] bool is_cut() const { return is_cut_; }
  [[nodiscard]] std::vector<Match> all() const;
  [[nodiscard]] bool contains(const Match& match, const RuleSet& rules) const;

 private:
  void match_at(const RuleSet& rules, const Draft& draft, Slot slot);

  std::vector<std::shared_ptr<const std::vector<Match>>> single_;  // by slot; null: none
  std::vector<Match> several_;                                     // of rules with several outputs
  std::size_t size_ = 0;
  bool is_cut_ = false;
};

}  // namespace tandem::rewrite
