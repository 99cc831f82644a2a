// What competes in a search: candidates are costed, several at a time, and taken in their order, so
// that the winner does not depend on the number of threads.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "search/search.h"

namespace tandem::search {

struct Candidate {
  std::string name;
  std::vector<plan::Choice> choices;
  plan::Schedule schedule = {};
  bool may_win = true;                              // else it is costed to compare with
  std::shared_ptr<const Rewritten> rewritten = {};  // whose choices these are; null: the model's
};

class Contest {
 public:
  Contest(const graph::Graph& model, const machine::Machine& machine, const Options& options);

  // What each came to; nothing for those that the search was over before. The first of all
  // candidates is costed in any case.
  std::vector<std::optional<Costed>> enter(const std::vector<Candidate>& candidates);

  // Has Options::until come? Then result().stop_reason says which.
  bool is_over();

  Result& result() { return result_; }

 private:
  Costed cost(const Candidate& candidate) const;
  void consider(const Costed& costed);

  const graph::Graph& model_;
  const machine::Machine& machine_;
  const Options& options_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  bool over_ = false;
  Result result_;
};

}  // namespace tandem::search
