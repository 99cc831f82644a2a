// Compares two plans: their jobs, costs, schedules, graphs, and the placement of each operator. The
// plans may be for different models or machines. Notes then state what is not compared.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "report/plan_view.h"

namespace tandem::report {

struct PlanDiff {
  // A property with a different value in each plan.
  struct ComparedProperty {
    std::string name, a, b;
  };
  // A number of both plans. Its JSON key ends in its unit.
  struct Figure {
    std::string section;  // "step", "memory", "serialized", "exposed"
    std::string name, key;
    double a = 0, b = 0;
  };
  // Operators or stored tensors whose placement differs. Equal layers are one group.
  struct Spread {
    std::string name, op;
    std::size_t count = 0;
    std::string a, b;  // placement in each plan: "batch over node 2"
  };
  // Nodes that only one plan's graph has, or that differ between the graphs.
  struct Nodes {
    std::string name, op;
    std::size_t count = 0;
  };
  using Rules = std::vector<std::pair<std::string, std::size_t>>;

  std::vector<ComparedProperty> header;  // model, machine, batch, ...
  std::vector<Figure> figures;
  std::vector<ComparedProperty> schedule;
  std::size_t compared = 0;    // number of nodes that both plans have
  std::vector<Spread> spread;  // compared nodes with different placements
  bool same_graph = true;      // whether the graphs are equal without parallelization operators
  std::vector<Nodes> only_a, only_b, changed;
  Rules rules_a, rules_b;  // of the derivations
  // Whether graph and placements are equal but the parallelization operators differ.
  bool moves_differ = false;
  std::vector<std::string> notes;

  [[nodiscard]] bool is_same() const {
    return header.empty() && schedule.empty() && spread.empty() && same_graph && only_a.empty() &&
           only_b.empty() && changed.empty() && !moves_differ;
  }
};

// Compares `a` and `b`. Layouts and communication are compared only if the machines are equal.
PlanDiff compare_plans(const PlanView& a, const PlanView& b);

std::string diff_text(const PlanDiff& diff);
// Returns the differences as JSON. A figure's "ratio" is b / a, or null if a is 0.
nlohmann::ordered_json diff_json(const PlanDiff& diff);

}  // namespace tandem::report
