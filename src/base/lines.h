// Reading of text line by line.
#pragma once

#include <algorithm>
#include <string_view>

namespace tandem {

// Removes the first line from `text` and returns it without its line end.
inline std::string_view take_line(std::string_view& text) {
  const auto end = std::min(text.find('\n'), text.size());
  const auto line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

}  // namespace tandem
