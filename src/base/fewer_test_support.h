// Sanitizers make everything five to ten times slower: under them a test of many cases runs one in
// so many.
#pragma once

namespace tandem {

#ifdef TANDEM_SANITIZE
constexpr unsigned kFewer = 7;  // odd: what every second seed has is still met
#else
constexpr unsigned kFewer = 1;
#endif

}  // namespace tandem
