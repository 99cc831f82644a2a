// The result of a validation: for people, as JSON, and as tables of docs/validation.md.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "validate/validate.h"

namespace tandem::report {

nlohmann::ordered_json validation_json(const validate::Report& report);
// Groups in a table, memory, coverage; why records were skipped.
std::string validation_text(const validate::Report& report);
// The same as tables of a page, and what is farthest off.
std::string validation_markdown(const validate::Report& report);

}  // namespace tandem::report
