// The shipped rules, and what is known of their proofs.
#pragma once

#include <span>

#include "base/embedded.h"

namespace tandem::rewrite {

// Every rules/*.rules, sorted by name; not the properties of operators.
std::span<const EmbeddedFile> embedded_rules();
// One file: rules/proofs.
std::span<const EmbeddedFile> embedded_proofs();

}  // namespace tandem::rewrite
