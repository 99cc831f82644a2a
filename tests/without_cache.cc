// Tests are of the machine files that are shipped: what somebody profiled on this computer is left
// out (machine/machine.h), whether ctest runs a test program or a person does. A lower bound that
// something is faster than ends them (search/bounds.h).
#include <cstdlib>

namespace {

[[maybe_unused]] const int kWithoutCache = setenv("TANDEM_NO_CACHE", "1", 1);
[[maybe_unused]] const int kChecksBounds = setenv("TANDEM_CHECK_BOUNDS", "1", 1);

}  // namespace
