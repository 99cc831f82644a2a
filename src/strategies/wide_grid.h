// Every strategy worth trying of a model on a machine, for `explore`: the baselines that a plan is
// compared with (strategies/grid.h), and around them what trades time for memory.
#pragma once

#include "strategies/grid.h"

namespace tandem::strategies {

// Megatron in pipelines of every length: tensor parallelism inside a node, on its innermost levels,
// with and without sp and recomputation, micro-batches as by default.
std::vector<Setting> pipeline_settings(const Problem& problem);

// Data parallelism, sharded or not, and Megatron, with recomputation, or in 4 or 16 micro-batches.
std::vector<Setting> memory_saving_settings(const Problem& problem);

// madmax_settings in which tables of words are spread by default or as the transformer is: more
// would multiply the grid by 16 for a few thousandths of the weights.
std::vector<Setting> madmax_settings_of_layers(const Problem& problem);

// By a group's name: "all", "baselines" ("best_baseline" as elsewhere), "madmax_grid", "pipelines",
// "memory_saving"; else one strategy's text, completed. Throws UserError.
std::vector<Setting> settings_named(const std::string& name, const Problem& problem);

}  // namespace tandem::strategies
