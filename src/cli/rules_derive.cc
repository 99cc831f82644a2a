// tandem rules derive: finds the rules by which one graph becomes another.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>

#include "base/error.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/derivers.h"
#include "cli/rules.h"
#include "graph/hashes.h"
#include "graph/text.h"

namespace tandem::cli {

namespace {

struct DeriveFlags {
  bool json = false;
  std::string from;
  std::string to;
  std::vector<std::string> files;
  rewrite::DeriveLimits limits;
};

// Returns the names of the nodes that `step` rewrites, in the graph before it.
std::string place_text(const graph::Graph& graph, const rewrite::DerivationStep& step) {
  const auto hashes = graph::hash_nodes(graph, graph::HashKind::kIdentity);
  std::vector<std::string> names;
  for (auto place : step.place) {
    const auto at = std::ranges::find(hashes, place) - hashes.begin();
    names.push_back("%" + graph.node(graph::NodeId(static_cast<std::size_t>(at))).name);
  }
  return join(names, ", ");
}

// Returns the steps as JSON. Replays each step with code that is independent of the search, so a
// wrong step fails here.
Json replay_to_json(graph::Graph graph, const rewrite::Derivation& derivation,
                    const std::vector<rewrite::Rule>& rules) {
  Json out = Json::array();
  for (const auto& step : derivation) {
    const Json entry = {
        {"rule", step.rule}, {"at", place_text(graph, step)}, {"step", to_text(step)}};
    out.push_back(entry);
    graph = rewrite::replay(graph, {step}, rewrite::make_rule_finder(rules));
  }
  return out;
}

void print_derivation(const Json& steps) {
  for (std::size_t i = 0; i < steps.size(); ++i) {
    std::cout << fmt::format("{:>3}  {} at {}\n", i + 1, steps[i]["rule"].get<std::string>(),
                             steps[i]["at"].get<std::string>());
  }
}

int run(const DeriveFlags& flags) {
  const auto from = graph::parse_graph(read_file(flags.from), flags.from);
  const auto to = graph::parse_graph(read_file(flags.to), flags.to);
  Derivers derivers(flags.files);
  const auto answer = derivers.derive(from, to, flags.limits);
  const auto& found = answer.derived;
  const auto& rules = *answer.rules;
  const auto steps = replay_to_json(from, found.steps, rules);
  const auto back = replay_to_json(to, found.back, rules);
  if (flags.json) {
    print_json({{"derived", found.is_found},
                {"steps", steps},
                {"back", back},
                {"graphs", found.graphs},
                {"complete", found.is_complete}});
  } else if (found.is_found) {
    print_derivation(steps);
    if (!back.empty()) std::cout << "Steps from the second graph to the same graph:\n";
    print_derivation(back);
    std::cout << fmt::format("derived in {}, {} visited\n",
                             pluralize(static_cast<std::int64_t>(found.length()), "step"),
                             pluralize(static_cast<std::int64_t>(found.graphs), "graph"));
  } else {
    std::cout << fmt::format("no derivation found, {} visited{}\n",
                             pluralize(static_cast<std::int64_t>(found.graphs), "graph"),
                             found.is_complete ? "; none exists with these rules" : "");
  }
  return found.is_found ? ExitCode::kDone : ExitCode::kCannot;
}

}  // namespace

void add_rules_derive(CLI::App& rules, int& exit_code) {
  auto flags = std::make_shared<DeriveFlags>();
  auto* command = add_command(rules, "derive", "find the rules that turn one graph into another",
                              "rules derive plain.graph megatron.graph", flags->json);
  command->add_option("from", flags->from, "first graph, in text form")->required();
  command->add_option("to", flags->to, "second graph, in text form")->required();
  command->add_option("--rules", flags->files, "files of rules; default: the shipped rules");
  command->add_option("--graphs", flags->limits.graphs, "limit of graphs to visit")
      ->capture_default_str();
  command->add_option("--steps", flags->limits.steps, "limit of steps in the derivation")
      ->capture_default_str();
  command->callback([flags, &exit_code] { exit_code = run(*flags); });
}

}  // namespace tandem::cli
