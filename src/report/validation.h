// Prints the result of a validation as text, as JSON, and as the tables of
// docs/reference/validation.md.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "validate/validate.h"

namespace tandem::report {

nlohmann::ordered_json validation_json(const validate::ValidationReport& report);
// Returns a table of the groups, then out-of-memory answers, coverage, and why records were
// skipped.
std::string validation_text(const validate::ValidationReport& report);
// Returns the same as Markdown tables, and the records with the largest errors.
std::string validation_markdown(const validate::ValidationReport& report);

}  // namespace tandem::report
