// Of a strategy that does not fit: what of its settings to change so that it does.
#pragma once

#include <optional>
#include <string>

#include "cli/command.h"

namespace tandem::cli {

// `strategy`: as simulated, with all its settings. Nothing where none of them helps, where the
// network is not trained as it is, or where steps cannot be estimated.
std::optional<search::Point> fitting_strategy(const Job& job, const std::string& strategy);

// A line below a headline; empty for nothing.
std::string fitting_line(const std::optional<search::Point>& fitting);
Json fitting_json(const std::optional<search::Point>& fitting);

}  // namespace tandem::cli
