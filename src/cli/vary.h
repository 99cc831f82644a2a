// One value of what `explore --vary` says, put into a job.
#pragma once

#include <string>

#include "cli/command.h"

namespace tandem::cli {

// The key is a flag without its dashes (batch, dtype, optimizer, task, ...), `scale`, a field of
// the machine file, or else a hyperparameter of the model. Throws UserError.
void vary(Job& job, const std::string& key, const std::string& value);

// None of the others: a hyperparameter.
bool is_hyperparameter(const std::string& key);

}  // namespace tandem::cli
