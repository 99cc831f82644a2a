#include "runtime/chunk_path.h"

#include <algorithm>
#include <cstring>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace tandem::runtime {

namespace {

// One chunk in kPeriod goes through the caches and one goes through memory, whichever is faster, to
// measure both. The period is prime, so the measured chunks pass through all slots one after
// another.
constexpr std::int64_t kPeriod = 61;
constexpr std::int64_t kByMemory = 30;
// Smaller chunks cost mostly synchronization.
constexpr std::int64_t kSmallest = 32 << 10;

#ifdef __SSE2__
// Copies past the caches. Aligned cache lines are written whole, one at a time.
void copy_past_caches(char* to, const char* from, std::size_t bytes) {
  constexpr std::size_t kLine = 64;
  const auto odd = (kLine - reinterpret_cast<std::uintptr_t>(to) % kLine) % kLine;
  const auto head = std::min(odd, bytes);
  std::memcpy(to, from, head);
  auto at = head;
  for (; at + kLine <= bytes; at += kLine) {
    for (std::size_t part = 0; part < kLine; part += sizeof(__m128i)) {
      const auto* in = reinterpret_cast<const __m128i*>(from + at + part);
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + at + part), _mm_loadu_si128(in));
    }
  }
  std::memcpy(to + at, from + at, bytes - at);
}
#endif

// Averages a new measurement into `cost`, so the newest counts most. It counts at most twice the
// old cost, because another program may have had the core meanwhile.
void update_cost(double& cost, double seconds_a_byte) {
  constexpr double kBelievable = 2;
  cost = cost == 0 ? seconds_a_byte : (cost + std::min(seconds_a_byte, kBelievable * cost)) / 2;
}

}  // namespace

void copy(Path path, void* to, const void* from, std::size_t bytes) {
#ifdef __SSE2__
  if (path == Path::kMemory) {
    return copy_past_caches(static_cast<char*>(to), static_cast<const char*>(from), bytes);
  }
#endif
  std::memcpy(to, from, bytes);
}

void finish_writing(Path path) {
#ifdef __SSE2__
  if (path == Path::kMemory) _mm_sfence();
#endif
}

bool ChunkPath::is_measured(std::int64_t chunk, std::int64_t bytes) {
  return bytes >= kSmallest && (chunk % kPeriod == 0 || chunk % kPeriod == kByMemory);
}

Path ChunkPath::get_measured_path(std::int64_t chunk) {
  return chunk % kPeriod == 0 ? Path::kCaches : Path::kMemory;
}

Path ChunkPath::choose_path(std::int64_t chunk, std::int64_t bytes) const {
  if (bytes < kSmallest) return Path::kCaches;
  if (is_measured(chunk, bytes)) return get_measured_path(chunk);
  return cost_.memory > 0 && cost_.memory < cost_.caches ? Path::kMemory : Path::kCaches;
}

void ChunkPath::record_time(std::int64_t chunk, std::int64_t bytes, double seconds) {
  auto& cost = get_measured_path(chunk) == Path::kCaches ? cost_.caches : cost_.memory;
  update_cost(cost, seconds / static_cast<double>(bytes));
}

}  // namespace tandem::runtime
