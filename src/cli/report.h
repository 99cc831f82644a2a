// The page that shows a plan (report/report_page.h).
#pragma once

#include <optional>

#include "cli/command.h"

namespace tandem::cli {

// Of the plan that a search found. Throws UserError where the file cannot be written.
void write_report(const std::string& path, const Setup& setup, const search::Result& result);

}  // namespace tandem::cli
