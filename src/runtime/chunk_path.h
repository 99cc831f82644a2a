// How chunks pass from process to process: through the caches, which is fastest where cores share
// one, or past them through memory. Between cores without a common cache, lines that another core
// has just written come three times slower than from memory; and which cores a process of a virtual
// machine has may change at any moment. So it is measured, on a few chunks either way.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tandem::runtime {

enum class Path : std::uint8_t { kCaches, kMemory };

// Does not wait until others see what went past the caches: `finish_writing` does.
void copy(Path path, void* to, const void* from, std::size_t bytes);
void finish_writing(Path path);

class ChunkPath {
 public:
  // The path on which this process writes a chunk. One that is measured all of them write alike.
  [[nodiscard]] Path of(std::int64_t chunk, std::int64_t bytes) const;

  // Chunks to be measured: what this process does for one, its waiting aside.
  static bool is_measured(std::int64_t chunk, std::int64_t bytes);
  void spent(std::int64_t chunk, std::int64_t bytes, double seconds);

 private:
  static Path measured_path(std::int64_t chunk);
  struct Cost {
    double caches = 0;  // seconds a byte; 0: not known
    double memory = 0;
  } cost_;
};

}  // namespace tandem::runtime
