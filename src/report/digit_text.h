// What digits do, in words: "batch over node 8, n over gpu 3".
#pragma once

#include <string>
#include <vector>

#include "machine/node_layout.h"
#include "strategies/factor_kinds.h"

namespace tandem::report {

// Digits that do the same for an operator.
struct Use {
  std::string what;   // "batch", "sequence", "heads", a factor's name; "partial", "copies", "idle"
  bool cuts = false;  // do they run along a factor?
  machine::DigitMask digits = 0;
  bool operator==(const Use&) const = default;
};

// In the order of their first digits.
std::vector<Use> uses_of(const strategies::AnalyzedNode& node, const machine::NodeLayout& layout,
                         const machine::Digits& digits);

// The levels that the digits belong to, and how many places they make there.
struct LevelPart {
  std::string level;  // "micro-batch" for those of time
  std::int64_t size = 1;
};
std::vector<LevelPart> level_parts(machine::DigitMask mask, const machine::Machine& machine,
                                   const machine::Digits& digits);
// "node 2 x socket 2".
std::string levels_text(machine::DigitMask mask, const machine::Machine& machine,
                        const machine::Digits& digits);

std::string uses_text(const std::vector<Use>& uses, const machine::Machine& machine,
                      const machine::Digits& digits);

}  // namespace tandem::report
