// Prints the parallel computation graph of a plan, or of a model under a strategy, for `show`.
#pragma once

#include "cli/lowered.h"

namespace tandem::cli {

enum class Form : std::uint8_t {
  kWords,      // operators and communication; the graph's text for a model without a machine
  kText,       // the graph's text, which parses back
  kJson,       // figures
  kGraphJson,  // the graph as JSON
  kDot,        // the graph for Graphviz
};

// Prints `lowered` in one form. `unfolded`: equal layers are printed one by one.
void show_mapped(const LoweredPlan& lowered, Form form, bool unfolded);

}  // namespace tandem::cli
