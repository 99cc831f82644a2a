// Makes the JSON document that the page of a plan shows (report_page.h): the plan with its program
// and simulation, the compared strategies, and the search.
//
//   {"tandem_report": 1, "title", "headline": {...}, "configurations": [...],
//    "explanation": explanation_json,
//    "strategies": {...} | null, "search": {...} | null, "graph": {...}, "before": {...} | null,
//    "machine": {...}, "timeline": {...}, "memory": {...}}
//
// Large lists are in columns: one array per property, by node or by span.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "report/plan_view.h"

namespace tandem::report {

// A strategy that the plan is compared with.
struct ComparedStrategy {
  std::string name;    // name with settings: "megatron:tp=2"
  std::string family;  // "megatron"
  Seconds iteration;
  Bytes memory;
  bool feasible = false;
  bool is_front = false;  // whether no other is both faster and smaller
};

struct ReportInput {
  const PlanView& view;
  std::string title;
  nlohmann::ordered_json headline = {};  // the job, its parallelism and its simulation_json
  // [{"name", "text", "notes"} | {"name", "why_not"}, ...]
  nlohmann::ordered_json configurations = {};
  // Compared strategies. If there can be none, `no_strategies` says why.
  std::vector<ComparedStrategy> strategies = {};
  std::string no_strategies = {};
  std::size_t untried = 0;  // number of strategies that the time limit excluded
  // Search that found the plan; null if the plan was read from a file.
  const search::Result* found = nullptr;
  // Graph that the plan's derivation starts from; null if it is not known.
  const graph::Graph* model = nullptr;
};

// Largest number of spans in the document, unless the busiest class of devices alone has more.
inline constexpr std::size_t kMostReportedSpans = 120'000;

nlohmann::ordered_json report_data(const ReportInput& input,
                                   std::size_t most_spans = kMostReportedSpans);

}  // namespace tandem::report
