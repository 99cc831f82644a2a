// The task of a network (pretraining, fine-tuning or inference): --task and --freeze.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "graph/graph.h"
#include "lower/program.h"

namespace tandem::cli {

struct TaskFlags {
  std::string task = "pretrain";
  std::string freeze;  // kinds of layers; empty: the default of finetune

  void add_flags(CLI::App& command);
  [[nodiscard]] lower::Mode mode() const;
};

// Returns the model for the task: unchanged, with frozen weights, or without its training part.
// Throws UserError if the flags contradict each other or name layers that the model lacks.
graph::Graph make_task_graph(const TaskFlags& flags, const graph::Graph& model);

// Returns the task of a lowered program, which may come from a plan: "finetune" if some weights are
// frozen.
std::string_view find_task_name(const lower::Program& program);

}  // namespace tandem::cli
