// The files of the page that shows a plan (page/).
#pragma once

#include <span>

#include "base/embedded.h"

namespace tandem::report {

// Every src/report/page/*, sorted by name.
std::span<const EmbeddedFile> embedded_page();

}  // namespace tandem::report
