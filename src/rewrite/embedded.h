// Text of the shipped rules and of their proofs, compiled into the program.
#pragma once

#include <span>

#include "base/embedded.h"

namespace tandem::rewrite {

// Returns the handwritten rules: every rules/*.rules, sorted by name.
std::span<const EmbeddedFile> embedded_rules();
// Returns one file: rules/proofs.
std::span<const EmbeddedFile> embedded_proofs();
// Return the results of `tandem rules generate --prove`: rules/generated/*.rules and
// rules/generated/proofs.
std::span<const EmbeddedFile> embedded_generated_rules();
std::span<const EmbeddedFile> embedded_generated_proofs();

}  // namespace tandem::rewrite
