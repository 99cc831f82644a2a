// The built-in machine files.
#pragma once

#include <span>

#include "base/embedded.h"

namespace tandem::machine {

// Returns every machines/*.machine file, sorted by name.
std::span<const EmbeddedFile> embedded_machines();

}  // namespace tandem::machine
