#include "report/report_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/check.h"
#include "report/embedded.h"

namespace tandem::report {

namespace {

using Json = nlohmann::ordered_json;

std::string_view find_page_file(std::string_view name) {
  const auto files = embedded_page();
  const auto at = std::ranges::find(files, name, &EmbeddedFile::name);
  CHECK(at != files.end(), name);
  return at->text;
}

// Rounds all numbers, because no one sees more digits. The page of a large plan gets a third
// smaller.
void round_numbers(Json& json) {
  if (json.is_number_float()) {
    const auto value = json.get<double>();
    if (std::isfinite(value)) json = std::strtod(fmt::format("{:.6g}", value).c_str(), nullptr);
    return;
  }
  if (!json.is_structured()) return;
  for (auto& part : json) round_numbers(part);
}

}  // namespace

std::string script_json(const Json& data) {
  auto rounded = data;
  round_numbers(rounded);
  const auto text = rounded.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string out;
  out.reserve(text.size());
  // In JSON, '<' occurs only inside of strings.
  for (const char c : text) {
    if (c == '<') {
      out += "\\u003c";
    } else {
      out += c;
    }
  }
  return out;
}

std::string report_page(const Json& data) {
  const auto page = find_page_file("page");
  std::string out;
  std::size_t at = 0;
  while (true) {
    const auto open = page.find("{{", at);
    if (open == std::string_view::npos) break;
    const auto close = page.find("}}", open);
    CHECK(close != std::string_view::npos, open);
    out += page.substr(at, open - at);
    const auto name = page.substr(open + 2, close - open - 2);
    if (name == "data") {
      out += script_json(data);
    } else {
      out += find_page_file(name);
    }
    at = close + 2;
  }
  out += page.substr(at);
  return out;
}

}  // namespace tandem::report
