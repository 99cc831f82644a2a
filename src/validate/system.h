// The machine that a record was measured on: a built-in machine with its GPU, of as many nodes, its
// links as fast as the record says.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "machine/machine.h"
#include "validate/record.h"

namespace tandem::validate {

// Why a record, or one of its numbers, cannot be predicted.
struct Skipped {
  std::string reason;
  bool unstated = false;  // the record does not say what was run
};
Skipped not_stated(const std::string& what);

// "dgx_a100" for "A100-80GB-SXM"; nothing where no built-in machine has such a GPU.
std::optional<std::string> machine_family(std::string_view gpu);

// With the section of its file for `software`, where it has one.
std::variant<machine::Machine, Skipped> machine_of(const SystemFacts& system,
                                                   const std::string& software = "");

}  // namespace tandem::validate
