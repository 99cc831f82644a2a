// The order in which a search for instances of a rule chooses types for its tensors and values for
// its symbols. A condition follows as soon as all that it mentions is known, so that misfits end
// early. Example: (linear ?x ?w act=?a) if rank(?x) == 2 gives the steps tensor ?x, node ?x,
// condition, tensor ?w, node ?w, node linear (which chooses ?a).
#pragma once

#include <cstdint>
#include <vector>

#include "verify/node_choices.h"

namespace tandem::verify {

struct SearchStep {
  enum class StepSubject : std::uint8_t { kTensor, kSymbol, kNode, kCondition } kind;
  std::size_t which = 0;
  std::vector<std::size_t> symbols = {};  // kNode: symbols that it is the first to need
  NodeChoices* choices = nullptr;         // kNode: set if all its symbols are new
};

// Returns the steps for the source of `rule`, which is all that a search chooses. `values` are
// those of the rule's symbols.
std::vector<SearchStep> plan_search(const Rule& rule,
                                    const std::vector<std::vector<Value>>& values);

}  // namespace tandem::verify
