// Keys of `explore --vary`. A key is one of
//
//   a flag                      batch, dtype, task, ...
//   a field of the machine      level.node.bandwidth, ...
//   its software profile        software
//   a scaling of the machine    scale
//   a setting of strategies     tp, micro, recompute, ..., or strategy.KEY
//   a hyperparameter            any other key
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"
#include "search/sweep.h"
#include "strategies/setting.h"

namespace tandem::cli {

// The job and the strategies of one case of a sweep.
struct Variant {
  Job job;
  std::vector<std::string> strategies;  // names of groups, or texts of single strategies
  search::Values settings = {};         // override the settings of each strategy
};

// Sets `key` to `value` in `variant`. Throws UserError.
void vary(Variant& variant, const std::string& key, const std::string& value);

struct VariantSettings {
  std::vector<strategies::Setting> possible;
  std::vector<search::Refused> refused;  // strategies that are impossible here, with the reasons
};
// Returns the strategies of `variant` with its settings applied. A group loses the strategies that
// do not have all the settings. Throws UserError if none has them, or if no strategy is possible.
VariantSettings list_settings(const Variant& variant, const strategies::Problem& problem);

// Throws UserError if the key of an axis cannot be varied for `model`; the hint lists all keys.
void check_axes(const std::vector<search::Axis>& axes, const std::string& model);

// Returns whether `key` is a setting of strategies.
bool is_strategy_key(const std::string& key);

// Returns whether `key` counts as a hyperparameter of the model, because it is no other key.
bool is_hyperparameter(const std::string& key);

}  // namespace tandem::cli
