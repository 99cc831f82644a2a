// The files of templates/.
#pragma once

#include <span>

#include "base/embedded.h"

namespace tandem::frameworks {

// Every src/frameworks/templates/*, sorted by name.
std::span<const EmbeddedFile> embedded_templates();

}  // namespace tandem::frameworks
