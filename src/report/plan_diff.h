// How two plans differ: what they are for, what they cost, how a step runs, which operators lie
// differently, and whether they compute the same graph. Plans of different models or machines are
// compared as far as that means anything; notes say what does not.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "report/plan_view.h"

namespace tandem::report {

struct PlanDiff {
  // Something that is another word in each.
  struct Field {
    std::string name, a, b;
  };
  // A number of each, under its key in JSON, which says the unit.
  struct Figure {
    std::string section;  // "step", "memory", "serialized", "exposed"
    std::string name, key;
    double a = 0, b = 0;
  };
  // Operators, or stored tensors, of both plans; equal layers together.
  struct Spread {
    std::string name, op;
    std::size_t count = 0;
    std::string a, b;  // in words
  };
  // Nodes of one plan's graph only, or of both but not the same.
  struct Nodes {
    std::string name, op;
    std::size_t count = 0;
  };
  using Rules = std::vector<std::pair<std::string, std::size_t>>;

  std::vector<Field> header;  // model, machine, batch, ...
  std::vector<Figure> figures;
  std::vector<Field> schedule;
  std::size_t compared = 0;    // nodes that both have
  std::vector<Spread> spread;  // of these, those that lie differently
  bool same_graph = true;      // without parallelization operators
  std::vector<Nodes> only_a, only_b, changed;
  Rules rules_a, rules_b;  // of the derivations
  // The same operators lie alike, but what moves tensors between them is different.
  bool moves_differ = false;
  std::vector<std::string> notes;

  [[nodiscard]] bool same() const {
    return header.empty() && schedule.empty() && spread.empty() && same_graph && only_a.empty() &&
           only_b.empty() && changed.empty() && !moves_differ;
  }
};

PlanDiff compare_plans(const PlanView& a, const PlanView& b);

std::string diff_text(const PlanDiff& diff);
// Ratios are b over a, null where a has none.
nlohmann::ordered_json diff_json(const PlanDiff& diff);

}  // namespace tandem::report
