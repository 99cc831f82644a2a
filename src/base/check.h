// CHECK: for bugs in this program, never for errors of the user. It is always on. It prints the
// expression and the given values, then aborts; in a program that embeds the planner it throws
// instead. Errors that a user can make throw UserError (base/error.h).
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>

namespace tandem {

struct CheckFailed : std::logic_error {
  using std::logic_error::logic_error;
};

// While an object exists, a failed CHECK throws CheckFailed. At most one object may exist at a
// time.
class FailedChecksThrow {
 public:
  FailedChecksThrow();
  ~FailedChecksThrow();
  FailedChecksThrow(const FailedChecksThrow&) = delete;
  FailedChecksThrow& operator=(const FailedChecksThrow&) = delete;
};

[[noreturn]] void check_failed(const char* expression, const char* file, int line,
                               const std::string& values);

// Returns the values as text for CHECK: describe(a, b) = "a b".
template <class... Ts>
std::string describe(const Ts&... values) {
  std::string out;
  ((out += fmt::format("{} ", values)), ...);
  return out;
}

}  // namespace tandem

#define CHECK(condition, ...) \
  ((condition)                \
       ? static_cast<void>(0) \
       : ::tandem::check_failed(#condition, __FILE__, __LINE__, ::tandem::describe(__VA_ARGS__)))
