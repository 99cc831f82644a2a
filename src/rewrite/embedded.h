// The shipped rules, and what is known of their proofs.
#pragma once

#include <span>

#include "base/embedded.h"

namespace tandem::rewrite {

// Every rules/*.rules, sorted by name: those written by hand.
std::span<const EmbeddedFile> embedded_rules();
// One file: rules/proofs.
std::span<const EmbeddedFile> embedded_proofs();
// What `tandem rules generate --prove` found: rules/generated/*.rules and rules/generated/proofs.
std::span<const EmbeddedFile> embedded_generated_rules();
std::span<const EmbeddedFile> embedded_generated_proofs();

}  // namespace tandem::rewrite
