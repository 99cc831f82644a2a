#include "base/error.h"

#include <utility>

namespace tandem {

namespace {
std::string make_error_line(const std::string& where, const std::string& message,
                            const std::string& hint) {
  std::string out = where.empty() ? message : where + ": " + message;
  if (!hint.empty()) out += " (" + hint + ")";
  return out;
}
}  // namespace

UserError::UserError(std::string kind_in, std::string where_in, std::string message_in,
                     std::string hint_in)
    : std::runtime_error(make_error_line(where_in, message_in, hint_in)),
      kind(std::move(kind_in)),
      where(std::move(where_in)),
      message(std::move(message_in)),
      hint(std::move(hint_in)) {}

}  // namespace tandem
