// Describes what machine digits do: "batch over node 8, column-parallel (n) over gpu 3".
#pragma once

#include <string>
#include <vector>

#include "machine/node_layout.h"
#include "strategies/factor_kinds.h"

namespace tandem::report {

// Digits that do the same for an operator.
struct Use {
  std::string what;   // "batch", "sequence", "heads", a factor's name; "partial", "copies", "idle"
  std::string words;  // the same in the field's words: "column-parallel (n)", "replicated"
  bool cuts = false;  // whether they partition a factor
  machine::DigitMask digits = 0;
  bool operator==(const Use&) const = default;
};

// Returns the uses of `layout`, ordered by their first digits.
std::vector<Use> list_uses(const strategies::AnalyzedNode& node, const machine::NodeLayout& layout,
                           const machine::Digits& digits);

// A machine level, and how many places some digits make in it.
struct LevelPart {
  std::string level;  // "micro-batch" for digits of time
  std::int64_t size = 1;
};
std::vector<LevelPart> list_level_parts(machine::DigitMask mask, const machine::Machine& machine,
                                        const machine::Digits& digits);
// Returns the levels that the digits span: "node 2 x socket 2".
std::string levels_text(machine::DigitMask mask, const machine::Machine& machine,
                        const machine::Digits& digits);

std::string uses_text(const std::vector<Use>& uses, const machine::Machine& machine,
                      const machine::Digits& digits);

}  // namespace tandem::report
