// 64-bit hashing that is stable across runs and machines, for caches, identities and RNG seeds.
#pragma once

#include <cstdint>
#include <string_view>

namespace tandem {

using Hash = std::uint64_t;

// A bijective mixer (splitmix64's finalizer): every input bit reaches every output bit.
constexpr Hash mix(Hash x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31U);
}

// Combines two hashes. hash_combine(hash_combine(s, a), b) depends on the order of a and b.
constexpr Hash hash_combine(Hash seed, Hash value) { return mix(seed ^ mix(value)); }

constexpr Hash hash_text(std::string_view text) {
  Hash h = 0xcbf29ce484222325ULL;  // FNV-1a
  for (char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return mix(h);
}

}  // namespace tandem
