// The path of chunks between processes: through the caches, or past them through memory. Caches are
// faster if the cores share one. Without a common cache, reading lines that another core has just
// written takes three times as long as reading memory. The cores of a process in a virtual machine
// may change at any moment. Both paths are therefore measured all the time, on a few chunks each.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tandem::runtime {

enum class Path : std::uint8_t { kCaches, kMemory };

// Copies `bytes` bytes. After a copy past the caches, other processes may not see the data until
// `finish_writing` returns.
void copy(Path path, void* to, const void* from, std::size_t bytes);
void finish_writing(Path path);

class ChunkPath {
 public:
  // Returns the path by which this process writes chunk number `chunk` of `bytes` bytes. All
  // processes write a measured chunk by the same path.
  [[nodiscard]] Path choose_path(std::int64_t chunk, std::int64_t bytes) const;

  // Returns whether each process measures its own work on the chunk, without waiting times.
  static bool is_measured(std::int64_t chunk, std::int64_t bytes);
  // Records the seconds that this process has worked on the measured chunk.
  void record_time(std::int64_t chunk, std::int64_t bytes, double seconds);

 private:
  static Path get_measured_path(std::int64_t chunk);
  struct PathCost {
    double caches = 0;  // Seconds per byte; 0: not yet measured
    double memory = 0;
  } cost_;
};

}  // namespace tandem::runtime
