// A plan as one page that needs no network: the files of page/, which are written by hand, with the
// document of report_data.h in it. All that is shown is made from that document by the page itself.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace tandem::report {

// page.html with every {{name}} replaced: {{data}} by the document, others by the file of that
// name.
std::string report_page(const nlohmann::ordered_json& data);

// JSON that may stand in a script element: what could end the element or open another is escaped.
// Numbers have six significant digits.
std::string script_json(const nlohmann::ordered_json& data);

}  // namespace tandem::report
