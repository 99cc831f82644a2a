// Contents of the files in templates/.
#pragma once

#include <span>

#include "base/embedded.h"

namespace tandem::frameworks {

// Returns every file of src/frameworks/templates, sorted by name.
std::span<const EmbeddedFile> embedded_templates();

}  // namespace tandem::frameworks
