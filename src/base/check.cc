#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace tandem {

void check_failed(const char* expression, const char* file, int line, const std::string& values) {
  std::fprintf(stderr, "tandem: internal error: CHECK(%s) failed at %s:%d: %s\n", expression, file,
               line, values.c_str());
  std::abort();
}

}  // namespace tandem
