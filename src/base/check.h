// CHECK: for our own mistakes, never for the user's. Always on; prints the expression and the
// values given, then aborts; in a program that has the planner inside it throws. What a user can
// get wrong throws UserError (base/error.h) instead.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>

namespace tandem {

struct CheckFailed : std::logic_error {
  using std::logic_error::logic_error;
};

// While one exists, a CHECK that fails throws CheckFailed. At most one at a time.
class FailedChecksThrow {
 public:
  FailedChecksThrow();
  ~FailedChecksThrow();
  FailedChecksThrow(const FailedChecksThrow&) = delete;
  FailedChecksThrow& operator=(const FailedChecksThrow&) = delete;
};

[[noreturn]] void check_failed(const char* expression, const char* file, int line,
                               const std::string& values);

// describe(a, b) = "a b"; used by CHECK to print whatever was passed along.
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
