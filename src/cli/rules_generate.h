// `tandem rules generate`: a subcommand of `tandem rules`.
#pragma once

#include <CLI/CLI.hpp>

namespace tandem::cli {

void add_rules_generate(CLI::App& rules);

}  // namespace tandem::cli
