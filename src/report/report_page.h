// Assembles the page of a plan: one HTML file that needs no network. It contains the hand-written
// files of page/ and the document of report_data.h, from which its scripts draw everything.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace tandem::report {

// Returns page.html with each {{name}} replaced: {{data}} by the document, others by the file of
// that name.
std::string report_page(const nlohmann::ordered_json& data);

// Returns JSON for a script element. Escapes '<', which could end the element or open another.
// Rounds numbers to six significant digits.
std::string script_json(const nlohmann::ordered_json& data);

}  // namespace tandem::report
