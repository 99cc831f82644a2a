// What a network is run for: --task and --freeze.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "graph/graph.h"
#include "lower/program.h"

namespace tandem::cli {

struct TaskFlags {
  std::string task = "pretrain";
  std::string freeze;  // empty: finetune's default

  void add_flags(CLI::App& command);
  [[nodiscard]] lower::Phase phase() const;
};

// The model as the task has it: as it is, with frozen weights, or without what trains it. Throws
// UserError where flags contradict each other or there is nothing of what they name.
graph::Graph graph_for(const TaskFlags& flags, const graph::Graph& model);

// Of a parallel graph that may come from a plan: "finetune" where weights are frozen.
std::string_view task_of(const lower::Program& program);

}  // namespace tandem::cli
