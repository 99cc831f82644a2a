#include "base/random.h"

#include <array>

namespace tandem {

namespace {

using Counter = std::array<std::uint32_t, 4>;
using Key = std::array<std::uint32_t, 2>;

constexpr std::uint32_t low(std::uint64_t x) { return static_cast<std::uint32_t>(x); }
constexpr std::uint32_t high(std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32U); }

Counter philox(Counter c, Key key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * c[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57} * c[2];
    c = {high(b) ^ c[1] ^ key[0], low(b), high(a) ^ c[3] ^ key[1], low(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return c;
}

}  // namespace

double draw_uniform(std::uint64_t seed, std::uint64_t step, std::uint64_t origin,
                    std::uint64_t index) {
  // There are few origins and steps are below 2^32, so together they fill the counter's upper half.
  const Counter drawn =
      philox({low(index), high(index), low(origin), low(step)}, {low(seed), high(seed)});
  const auto bits = (std::uint64_t{drawn[1]} << 32U) | drawn[0];
  return static_cast<double>(bits >> 11U) * 0x1p-53;
}

}  // namespace tandem
