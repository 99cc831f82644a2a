// Lists every strategy worth trying for a model on a machine, for `explore`: the baselines that a
// plan is compared with (strategies/grid.h), and variants that trade time for memory.
#pragma once

#include "strategies/grid.h"

namespace tandem::strategies {

// Returns Megatron in pipelines of every length. Tensor parallelism is inside a node, on its
// innermost levels. There are variants with sp and recomputation; micro-batches are the default.
std::vector<Setting> list_pipeline_settings(const Problem& problem);

// Returns data parallelism, sharded or not, and Megatron, with recomputation. The data parallel
// ones also come in 4 or 16 micro-batches.
std::vector<Setting> list_memory_saving_settings(const Problem& problem);

// Returns the list_madmax_settings in which vocabulary embeddings are sharded by default or like
// the transformer. Others would multiply the grid by 16 for a few thousandths of the weights.
std::vector<Setting> list_reduced_madmax_settings(const Problem& problem);

// Returns the settings of a group: "all", "baselines" ("find_best_baseline" as elsewhere),
// "madmax_grid", "pipelines" or "memory_saving". Any other name is one strategy's text, which is
// completed. Throws UserError.
std::vector<Setting> list_named_settings(const std::string& name, const Problem& problem);

}  // namespace tandem::strategies
