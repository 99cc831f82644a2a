// Machines: equal devices in nested levels, joined by links. Read from a text file
// (machines/*.machine) in which every number carries its unit and its source; built-in machines are
// such files, embedded.
//
// Levels stand outermost first: node, socket, gpu on Summit. A level's link joins its units; a
// `shared` link is one per unit, used by all devices inside it together, else each device has its
// own.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/units.h"
#include "tensor/dtype.h"

namespace tandem::machine {

struct Device {
  std::string name;
  std::map<DType, FlopsPerSecond> peak;
  double compute_utilization = 1;  // of peak, for a large matrix product
  Bytes memory;
  Bytes reserve;  // kept for the system and libraries
  BytesPerSecond bandwidth;
  double memory_utilization = 1;  // of bandwidth, for a long stream
  Seconds launch;                 // per kernel
};

struct Level {
  std::string name;
  std::int64_t count = 1;    // units of this level in one unit of the level above
  BytesPerSecond bandwidth;  // one direction
  Seconds latency;
  bool shared = false;
  double utilization = 1;  // of bandwidth, for a long message
};

struct Machine {
  std::string name;  // "summit:8"
  Device device;
  std::vector<Level> levels;

  [[nodiscard]] std::int64_t devices() const;
  // Devices inside one unit of level `l`.
  [[nodiscard]] std::int64_t devices_below(std::size_t l) const;
  // What one device can send across level `l` when all devices do.
  [[nodiscard]] BytesPerSecond bandwidth_per_device(std::size_t l) const;
};

inline constexpr std::int64_t kMaxDevices = std::int64_t{1} << 20;

// `source` is how messages call the text: "machines/summit.machine". `size` replaces the count that
// the text leaves open as `?`; 0 where none was given, an error if the text leaves one open.
Machine parse_machine(std::string_view text, const std::string& source, std::int64_t size = 0);

// "summit:8", "local:2", or the path of a machine file, which may also take a size: "my.machine:4".
Machine load_machine(const std::string& name);

// Of every number, so that a plan can tell for which machine it was made.
Hash hash_of(const Machine& machine);

struct BuiltinMachine {
  std::string name;   // "summit"
  std::string usage;  // "summit:NODES"
  std::string doc;
};
std::vector<BuiltinMachine> builtin_machines();

}  // namespace tandem::machine
