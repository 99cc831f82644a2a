// What `explore --vary` sweeps over. A key is a flag of what is run (batch, dtype, task, ...), a
// field of the machine file, its software, `scale`, a setting of the strategies (tp, micro,
// recompute, ...; `strategy.KEY` says so, too), or else a hyperparameter of the model.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"
#include "search/sweep.h"
#include "strategies/setting.h"

namespace tandem::cli {

// What a case runs.
struct Variant {
  Job job;
  std::vector<std::string> strategies;  // groups or texts
  search::Values settings = {};         // in place of what each strategy says of them
};

// One value, put in place of what is said. Throws UserError.
void vary(Variant& variant, const std::string& key, const std::string& value);

struct VariantSettings {
  std::vector<strategies::Setting> possible;
  std::vector<search::Refused> refused;  // that the machine's devices cannot be grouped for
};
// The strategies with the settings in place. Throws UserError where a group is given a setting that
// only some strategies have, and where nothing is possible.
VariantSettings settings_of(const Variant& variant, const strategies::Problem& problem);

// Throws UserError where a key is nothing that can be varied, with all that can.
void check_axes(const std::vector<search::Axis>& axes, const std::string& model);

// Does it vary the strategies, not what they run?
bool is_strategy_key(const std::string& key);

// None of the others: a hyperparameter.
bool is_hyperparameter(const std::string& key);

}  // namespace tandem::cli
