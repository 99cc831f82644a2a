#include "cli/emphasis.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

#include "cli/host.h"

namespace tandem::cli {

namespace {

bool shows_emphasis(int stream) {
  const auto* no_colour = std::getenv("NO_COLOR");
  const auto* terminal = std::getenv("TERM");
  const bool is_dumb = terminal == nullptr || std::string_view(terminal) == "dumb";
  const bool is_refused = no_colour != nullptr && *no_colour != '\0';
  return host() == nullptr && !is_refused && !is_dumb && isatty(stream) != 0;
}

std::string with_code(int stream, int code, const std::string& text) {
  return shows_emphasis(stream) ? fmt::format("\033[{}m{}\033[0m", code, text) : text;
}

}  // namespace

std::string make_bold(const std::string& text) { return with_code(STDOUT_FILENO, 1, text); }
std::string make_faint(const std::string& text) { return with_code(STDOUT_FILENO, 2, text); }
std::string make_red(const std::string& text) { return with_code(STDERR_FILENO, 31, text); }

}  // namespace tandem::cli
