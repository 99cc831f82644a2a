#include "base/check.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace tandem {

namespace {

std::atomic<bool> failed_checks_throw = false;

}  // namespace

FailedChecksThrow::FailedChecksThrow() { failed_checks_throw = true; }

FailedChecksThrow::~FailedChecksThrow() { failed_checks_throw = false; }

void check_failed(const char* expression, const char* file, int line, const std::string& values) {
  const auto what = fmt::format("tandem: internal error: CHECK({}) failed at {}:{}: {}", expression,
                                file, line, values);
  if (failed_checks_throw) throw CheckFailed(what);
  std::fprintf(stderr, "%s\n", what.c_str());
  std::abort();
}

}  // namespace tandem
