#include "report/report_data.h"

#include <algorithm>

#include "report/explanation.h"
#include "report/report_graph.h"
#include "report/report_machine.h"
#include "report/report_timeline.h"

namespace tandem::report {

namespace {

using Json = nlohmann::ordered_json;

Json result_json(const search::Evaluated& costed) {
  return {{"strategy", costed.name},
          {"iteration_s", costed.simulation.iteration.value},
          {"memory_bytes", static_cast<std::int64_t>(costed.simulation.memory.value)}};
}

Json strategies_json(const ReportInput& input) {
  Json points = Json::array();
  for (const auto& s : input.strategies) {
    points.push_back({{"name", s.name},
                      {"family", s.family},
                      {"feasible", s.feasible},
                      {"front", s.is_front},
                      {"iteration_s", s.iteration.value},
                      {"memory_bytes", static_cast<std::int64_t>(s.memory.value)}});
  }
  // The best strategy of each family, with the figures of the search.
  Json baselines = Json::array();
  if (input.found != nullptr) {
    for (const auto& b : input.found->baselines) {
      auto row = result_json(b);
      row["family"] = b.family;
      row["feasible"] = b.feasible;
      baselines.push_back(std::move(row));
    }
  }
  return {{"points", points},
          {"baselines", baselines},
          {"why_none", input.no_strategies},
          {"untried", input.untried}};
}

Json search_json(const ReportInput& input) {
  if (input.found == nullptr) return nullptr;
  const auto& found = *input.found;
  return {{"seconds", found.search_s},
          {"simulated", found.candidates},
          {"estimated", found.estimated},
          {"stop_reason", name(found.stop_reason)},
          {"lower_bound_s", found.lower_bound ? Json(found.lower_bound->value) : Json()},
          {"bound_scope", found.bound_scope},
          {"runner_up", found.runner_up ? result_json(*found.runner_up) : Json()}};
}

// Returns the graph before rewrites, or null if the plan has none.
Json initial_graph_json(const ReportInput& input) {
  if (input.model == nullptr || input.view.plan.derivation.empty()) return nullptr;
  return plain_graph_json(*input.model);
}

}  // namespace

Json report_data(const ReportInput& input, std::size_t most_spans) {
  Json out{{"tandem_report", 1}, {"title", input.title}, {"headline", input.headline}};
  out["configurations"] = input.configurations;
  out["explanation"] = explanation_json(input.view);
  out["strategies"] = strategies_json(input);
  out["search"] = search_json(input);
  out["graph"] = report_graph(input.view, input.model);
  out["before"] = initial_graph_json(input);
  out["machine"] = report_machine(input.view);
  out["timeline"] = report_timeline(input.view, most_spans);
  return out;
}

}  // namespace tandem::report
