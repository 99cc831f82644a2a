// What `show` prints of a plan, or of a model under a strategy: its parallel computation graph.
#pragma once

#include "cli/lowered.h"

namespace tandem::cli {

enum class Form : std::uint8_t {
  kWords,  // operators and communication; of a model alone, the graph's text
  kText,   // the graph's text, which parses back
  kJson,   // figures
  kGraphJson,
  kDot,
};

void show_mapped(const Lowered& lowered, Form form, bool unfolded);

}  // namespace tandem::cli
