// Emphasis on a terminal. Where output goes elsewhere, to a dumb terminal, to a host, or NO_COLOR
// is set, the text alone.
#pragma once

#include <string>

namespace tandem::cli {

// On standard output.
std::string strong(const std::string& text);
std::string faint(const std::string& text);
// On the error stream.
std::string alarming(const std::string& text);

}  // namespace tandem::cli
