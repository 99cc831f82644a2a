// Machines: devices in nested levels, joined by links. Read from a text file (machines/*.machine)
// in which every number carries its unit and its source; built-in machines are such files,
// embedded. docs/machine-format.md describes them.
//
// Levels stand outermost first: node, socket, gpu on Summit. A level's link joins its units; a
// `shared` link is one per unit, used by all devices inside it together, else each device has its
// own. The units are joined by one switch, or as `network` says; then each device inside a unit has
// such a network of its own, unless it is shared.
//
// Units of the outermost level may have different devices, in groups. What runs on several takes as
// long as on the slowest of them; `device` is as slow and small as any, in every respect.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/units.h"
#include "machine/step.h"
#include "machine/topology.h"
#include "machine/utilization.h"
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
  Utilization utilization = 1;                           // of bandwidth, by what a device has in it
  std::map<Step, Utilization> utilization_of_step = {};  // of those for which it is another
  // The devices themselves move what crosses it, and compute nothing meanwhile.
  bool by_device = false;
  bool half_duplex = false;                          // sending and receiving share the bandwidth
  std::string topology = "switch";                   // as the file says it: "torus 4x4"
  std::shared_ptr<const Network> network = nullptr;  // null: one full-duplex switch

  [[nodiscard]] const Utilization& utilization_in(Step step) const {
    const auto at = utilization_of_step.find(step);
    return at == utilization_of_step.end() ? utilization : at->second;
  }
};

// Units of the outermost level that have the same device.
struct DeviceGroup {
  std::string name;
  Device device;
  std::int64_t units = 1;
};

// A mapping that the machine file names: which dimension of a task grid runs along which level
// (machine/mapping.h).
struct NamedMapping {
  struct Part {
    std::size_t level = 0;
    std::int64_t size = 0;           // of the level; 0: all that is left of it
    std::optional<std::size_t> dim;  // none: idle
  };
  std::string name;
  std::vector<Part> parts;
};

struct Machine {
  std::string name;  // "summit:8"
  Device device;     // the weakest, where there are several
  std::vector<Level> levels;
  std::vector<DeviceGroup> groups;  // empty where all devices are equal
  std::vector<NamedMapping> mappings;

  [[nodiscard]] std::int64_t devices() const;
  // The number of the group that the device with this number is in; 0 where there are none.
  [[nodiscard]] std::size_t group_of(std::int64_t device) const;
  // What that device is.
  [[nodiscard]] const Device& device_of(std::int64_t device) const;
  // Devices inside one unit of level `l`.
  [[nodiscard]] std::int64_t devices_below(std::size_t l) const;
  // What one device can send across level `l` when all devices do.
  [[nodiscard]] BytesPerSecond bandwidth_per_device(std::size_t l) const;
};

// As slow and small as any of them in every respect, with the element types that all have.
Device weakest(const std::vector<DeviceGroup>& groups);

inline constexpr std::int64_t kMaxDevices = std::int64_t{1} << 20;

// `source` is how messages call the text: "machines/summit.machine". `size` replaces the count that
// the text leaves open as `?`; 0 where none was given, an error if the text leaves one open.
Machine parse_machine(std::string_view text, const std::string& source, std::int64_t size = 0);

// "summit:8", "local:2", or the path of a machine file, which may also take a size: "my.machine:4".
// `local` is the file measured_local_path() where there is one, else built in.
Machine load_machine(const std::string& name);

// Where the figures of `local` lie once they are measured on this computer (`tandem profile`):
// $XDG_CACHE_HOME/tandem/local.machine, by default in ~/.cache. Empty where there is no such folder
// or TANDEM_NO_CACHE is set.
std::string measured_local_path();

// Of every number, so that a plan can tell for which machine it was made.
Hash hash_of(const Machine& machine);

struct BuiltinMachine {
  std::string name;   // "summit"
  std::string usage;  // "summit:NODES"
  std::string doc;
};
std::vector<BuiltinMachine> builtin_machines();

}  // namespace tandem::machine
