// Tests use the machine files that are shipped, not profiles of this computer (machine/machine.h),
// whether ctest or a person runs a test program. A plan that is faster than its lower bound fails a
// test (search/bounds.h).
#include <cstdlib>

namespace {

[[maybe_unused]] const int kWithoutCache = setenv("TANDEM_NO_CACHE", "1", 1);
[[maybe_unused]] const int kChecksBounds = setenv("TANDEM_CHECK_BOUNDS", "1", 1);

}  // namespace
