// tandem explain: explains a plan as a whole, or one node of it.
#include <fmt/format.h>

#include <iostream>

#include "base/error.h"
#include "cli/lowered.h"
#include "cli/read_plan.h"
#include "report/explanation.h"
#include "report/node_facts.h"
#include "report/tensor_names.h"
#include "strategies/layer_kinds.h"

namespace tandem::cli {

namespace {

struct ExplainFlags {
  bool json = false;
  std::string path;
  std::string node;  // empty: the whole plan
};

void explain_plan(const LoweredPlan& lowered, bool json) {
  const auto view = make_plan_view(lowered);
  const auto tokens = strategies::count_tokens(graph::erase_parallelism(lowered.program.pcg));
  if (json) {
    Json out = describe_costed_plan(lowered.plan);
    out["task"] = find_task_name(lowered.program);
    out.update(simulation_json(
        lowered.simulation,
        {.batch = lowered.plan.batch, .tokens = tokens, .devices = lowered.machine.devices()}));
    out.update(report::explanation_json(view));
    return print_json(out);
  }
  std::cout << make_plan_title(lowered) << "\n\n" << report::explanation_text(view, tokens);
}

void explain_node(const LoweredPlan& lowered, const ExplainFlags& flags) {
  const auto view = make_plan_view(lowered);
  const auto id = report::find_node(lowered.program.pcg, flags.node, flags.path);
  const auto facts = report::collect_node_facts(view, id);
  if (flags.json) {
    Json out = describe_plan(lowered.plan);
    out["iteration_s"] = lowered.simulation.iteration.value;
    out["node"] = report::node_json(facts, view);
    return print_json(out);
  }
  std::cout << make_plan_title(lowered) << "\n\n" << report::node_text(facts, view);
}

}  // namespace

void add_explain(CLI::App& app, int& /*exit_code*/) {
  auto flags = std::make_shared<ExplainFlags>();
  auto* command = add_command(app, "explain", "explain a plan or one node of it",
                              "explain plan.json linear1", flags->json);
  command->add_option("plan", flags->path, "plan file, like plan.json")->required();
  command->add_option(
      "node", flags->node,
      "name of a node, as printed by `tandem show plan.json`; default: the whole plan");
  command->callback([flags] {
    const auto lowered = read_and_lower(flags->path);
    if (flags->node.empty()) {
      explain_plan(lowered, flags->json);
    } else {
      explain_node(lowered, *flags);
    }
  });
}

}  // namespace tandem::cli
