// The machine of a record: the built-in machine with its GPU, with the record's number of nodes and
// link bandwidths.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "machine/machine.h"
#include "validate/record.h"

namespace tandem::validate {

// Reason why a record, or one of its numbers, cannot be predicted.
struct Skipped {
  std::string reason;
  bool unstated = false;  // the record does not state what was run
};
Skipped skip_unstated(const std::string& what);

// Returns "dgx_a100" for "A100-80GB-SXM"; nullopt if no built-in machine has such a GPU.
std::optional<std::string> find_machine_family(std::string_view gpu);

// Returns the machine with its software profile for `software`, if it has one.
std::variant<machine::Machine, Skipped> build_machine(const SystemFacts& system,
                                                      const std::string& software = "");

}  // namespace tandem::validate
