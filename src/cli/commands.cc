// The list of all commands.
#include "cli/command.h"
#include "cli/host.h"

namespace tandem::cli {

void add_commands(CLI::App& app, int& exit_code) {
  forget_notes();
  for (auto* add : {add_models,  add_machines, add_strategies, add_ops,      add_rules,
                    add_show,    add_plan,     add_compare,    add_check,    add_explain,
                    add_diff,    add_report,   add_export,     add_simulate, add_explore,
                    add_profile, add_train,    add_demo,       add_validate, add_completion}) {
    add(app, exit_code);
  }
}

}  // namespace tandem::cli
