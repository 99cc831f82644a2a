// All that the page of a plan shows (report_page.h), as one JSON document: a plan with its program
// and simulation, what it was compared with, and how it was found.
//
//   {"tandem_report": 1, "title", "headline": {...}, "explanation": explanation_json,
//    "strategies": {...} | null, "search": {...} | null, "graph": {...}, "before": {...} | null,
//    "machine": {...}, "timeline": {...}, "memory": {...}}
//
// What there is much of stands in columns: an array for each property, by node or by span.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "report/plan_view.h"

namespace tandem::report {

// A strategy that the plan is compared with.
struct ComparedStrategy {
  std::string name;    // with its settings
  std::string family;  // "megatron"
  Seconds iteration;
  Bytes memory;
  bool feasible = false;
  bool is_front = false;  // nothing is both faster and smaller
};

struct ReportInput {
  const PlanView& view;
  std::string title;
  nlohmann::ordered_json headline;  // what was run, and simulation_json of it
  // What is compared with; nothing where it cannot be known, as `no_strategies` says.
  std::vector<ComparedStrategy> strategies = {};
  std::string no_strategies = {};
  std::size_t untried = 0;  // strategies for which there was no time
  // How the plan was found, where it was just now; of its graph nothing but the time is shown.
  const search::Result* found = nullptr;
  // What the derivation of the plan starts from; null where it is not known.
  const graph::Graph* model = nullptr;
};

// With so many spans at the most, unless the busiest class of devices alone has more.
inline constexpr std::size_t kMostReportedSpans = 120'000;

nlohmann::ordered_json report_data(const ReportInput& input,
                                   std::size_t most_spans = kMostReportedSpans);

}  // namespace tandem::report
