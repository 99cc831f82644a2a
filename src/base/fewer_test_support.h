// Divisor of the number of cases in large tests. Sanitizers make everything five to ten times
// slower, so under them such a test runs only a part of its cases.
#pragma once

namespace tandem {

#ifdef TANDEM_SANITIZE
constexpr unsigned kFewer = 7;  // odd: keeps cases of every second seed
#else
constexpr unsigned kFewer = 1;
#endif

}  // namespace tandem
