#include "search/neighbours/sharding_search.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "search/limits.h"
#include "strategies/setting_groups.h"

namespace tandem::search {

namespace {

using strategies::LayerKind;
using strategies::LevelSharding;
using strategies::Setting;

// Maps vocabulary embeddings to the transformer: both get their sharding together.
LayerKind get_coordinate(LayerKind kind) {
  return kind == LayerKind::kWordEmbedding ? LayerKind::kTransformer : kind;
}

std::map<LayerKind, LevelSharding> list_other_shardings(LayerKind kind, const Setting& setting) {
  auto out = setting.layers;
  std::erase_if(out, [&](const auto& layer) { return get_coordinate(layer.first) == kind; });
  return out;
}

class Descent {
 public:
  Descent(const strategies::Problem& problem, const Try& attempt)
      : problem_(problem),
        attempt_(attempt),
        grid_(strategies::list_reduced_madmax_settings(problem)) {}

  std::vector<Evaluated> run(std::size_t whole) {
    if (grid_.size() <= whole) return attempt_(grid_);
    Setting best = {.family = strategies::Family::kMadmax};
    for (auto before = asked_.size() + 1; before != asked_.size();) {
      before = asked_.size();
      for (auto kind : strategies::kLayerKinds) {
        if (get_coordinate(kind) != kind || !problem_.has(kind)) continue;
        try_shardings_of(kind, best);
        const auto first = choose_promising(tried_, 1);
        if (!first.empty()) best = first[0];
      }
    }
    return std::move(tried_);
  }

 private:
  // Tries every untried sharding of this kind, with the other kinds as in `base`.
  void try_shardings_of(LayerKind kind, const Setting& base) {
    std::vector<Setting> settings;
    const auto others = list_other_shardings(kind, base);
    for (const auto& setting : grid_) {
      if (list_other_shardings(kind, setting) == others && !is_tried(setting))
        settings.push_back(setting);
    }
    std::ranges::move(attempt_(settings), std::back_inserter(tried_));
    asked_.insert(asked_.end(), settings.begin(), settings.end());
  }

  [[nodiscard]] bool is_tried(const Setting& setting) const {
    return std::ranges::find(asked_, setting) != asked_.end();
  }

  const strategies::Problem& problem_;
  const Try& attempt_;
  std::vector<Setting> grid_;
  std::vector<Setting> asked_;
  std::vector<Evaluated> tried_;
};

}  // namespace

std::vector<Evaluated> try_shardings(const strategies::Problem& problem, std::size_t whole,
                                     const Try& attempt) {
  return Descent(problem, attempt).run(whole);
}

std::vector<Evaluated> enter_shardings(
    CandidatePool& pool, const strategies::Problem& problem,
    const std::function<bool(const std::vector<plan::Choice>&)>& may_win) {
  std::vector<Candidate> seen;
  return try_shardings(
      problem, limits::kSimulatedShardings, [&](const std::vector<Setting>& settings) {
        std::vector<Candidate> candidates;
        std::vector<Evaluated> out;
        for (const auto& setting : settings) {
          auto made = make_strategy(setting, problem);
          auto* strategy = std::get_if<strategies::Strategy>(&made);
          if (strategy == nullptr || !may_win(strategy->choices)) continue;
          if (std::ranges::find(seen, strategy->choices, &Candidate::choices) != seen.end())
            continue;
          candidates.push_back(make_candidate(std::move(*strategy)));
          seen.push_back(candidates.back());
        }
        for (const auto& evaluated : pool.enter(candidates)) {
          if (evaluated) out.push_back(summarize(*evaluated));
        }
        return out;
      });
}

}  // namespace tandem::search
