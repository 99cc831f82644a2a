// Writes the HTML page that shows a plan (report/report_page.h).
#pragma once

#include <optional>

#include "cli/command.h"

namespace tandem::cli {

// Writes the page of the plan that a search found to `path`. `setup` is what was searched. Throws
// UserError if the file cannot be written.
void write_report(const std::string& path, const Setup& setup, const search::Result& result);

}  // namespace tandem::cli
