// Gives access to the embedded files of the page that shows a plan (page/).
#pragma once

#include <span>

#include "base/embedded.h"

namespace tandem::report {

// Returns the files src/report/page/*, sorted by name.
std::span<const EmbeddedFile> embedded_page();

}  // namespace tandem::report
