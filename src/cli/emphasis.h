// Emphasis on a terminal. The functions return the text unchanged if the output is not a terminal,
// goes to a dumb terminal or a host, or if NO_COLOR is set.
#pragma once

#include <string>

namespace tandem::cli {

// Return `text` with emphasis for standard output.
std::string make_bold(const std::string& text);
std::string make_faint(const std::string& text);
// Returns `text` with emphasis for stderr.
std::string make_red(const std::string& text);

}  // namespace tandem::cli
