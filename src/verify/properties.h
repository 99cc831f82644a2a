// The properties that Z3's proofs rest on: rules/properties/*.rules.
#pragma once

#include <span>
#include <vector>

#include "base/embedded.h"
#include "rewrite/rule.h"

namespace tandem::verify {

std::span<const EmbeddedFile> embedded_properties();

// Returns all properties; a `<=>` gives one each way. Parsed once.
const std::vector<rewrite::Rule>& all_properties();

}  // namespace tandem::verify
