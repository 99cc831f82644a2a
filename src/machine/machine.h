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

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/units.h"
#include "machine/measured.h"
#include "machine/step.h"
#include "machine/topology.h"
#include "machine/utilization.h"
#include "tensor/dtype.h"

namespace tandem::machine {

// Which operators one kernel executes together.
enum class Fusion : std::uint8_t {
  kNone,
  kBias,         // a bias with the product it is added to
  kElementwise,  // also chains of elementwise operators
};
inline constexpr std::array<std::string_view, 3> kFusionNames = {"no", "bias", "yes"};

// The software that drives a device: what training needs beside the kernels' own time. The host
// runs ahead of the device, and a kernel starts no earlier than it is dispatched.
struct Software {
  Seconds dispatch;             // of the host, per kernel of the forward pass
  Seconds dispatch_backward;    // and of the backward pass
  Seconds dispatch_collective;  // and per collective
  Seconds dispatch_send;        // and per send or receive; 0: as per collective
  Seconds micro_batch;          // host and device wait for each other this long in each micro-batch
  Seconds step;                 // and in each optimizer step
  Fusion fusion = Fusion::kNone;
  bool joined_products = false;  // products of one tensor are one product (queries, keys, values)
  bool send_parts = false;       // of what several devices hold, each sends a part, gathered behind
  bool waits_for_sends =
      false;            // between stages: a device computes nothing while it sends or receives
  bool overlap = true;  // do collectives of gradients run beside the backward pass?
  bool joined_gradients = false;  // they are one collective, of all gradients
  double fragmentation = 0;       // of memory that comes and goes: how much more an allocator holds
  double interference = 0;        // how much longer compute takes while a collective runs beside it
  bool stores_zeros = false;      // of tokens that an expert does not get, too
  bool sums_rows = false;  // of tables' gradients: devices send each other the rows they read
  // Does plain SGD subtract a weight's gradient while it is multiplied, so that it is never there?
  bool updates_in_products = false;
  // Does it change the rows of a table that were looked up as it makes their gradients?
  bool updates_in_tables = false;
  bool narrow_exchange = false;  // are all-to-alls of fp32 sent in 16 bits?
  // Is what is gathered, or kept whole, there from its first use to its last, beside a device's own
  // shard? Else it has a place all through the step, of which the shard is a part.
  bool frees_at_last_use = false;
  // Does recomputation run all of a layer's forward pass again, as checkpoints of frameworks do:
  // its last product, too, which nothing reads? Else only what the backward pass reads.
  bool remakes_whole = false;
  Bytes update_bytes;  // read and written per parameter; 0: what the optimizer needs at least
  // Operators that several kernels execute, each of which reads and writes what the operator does.
  struct Kernels {
    double forward = 1;
    double backward = 1;
    // One kernel does it where the device's matrices are a multiple of so many; 0: nowhere.
    double unless = 0;
    bool operator==(const Kernels&) const = default;
  };
  std::map<std::string, Kernels, std::less<>> kernels = {};

  [[nodiscard]] Seconds send_dispatch() const {
    return dispatch_send > Seconds{} ? dispatch_send : dispatch_collective;
  }
};

struct Device {
  std::string name;
  double threads = 1;  // of the process that computes for it, on processors
  std::map<DType, FlopsPerSecond> peak;
  double compute_utilization = 1;             // of peak, for a large matrix product
  double attention_utilization = 0;           // of peak, in `attention`; 0: as other products
  double attention_backward_utilization = 0;  // in its backward pass; 0: as in the forward pass
  double units = 0;           // that compute tiles of a product each; 0: tiles do not matter
  double product_setup = 0;   // what a tile takes beside its depth, in elements of depth
  double wave_softening = 0;  // how far the units share the tiles of a last wave; 1: evenly
  double unaligned = 1;       // of their rate: products of matrices whose rows begin anywhere
  Bytes memory;
  Bytes reserve;  // kept for the system and libraries
  BytesPerSecond bandwidth;
  double memory_utilization = 1;  // of bandwidth, for a long stream
  double random_access = 1;       // of that, for rows anywhere in a table
  Seconds launch;                 // per kernel
  Seconds collective;             // to start a collective
  MeasuredTimes measured;
  Software software;
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
  bool trees = false;                                // all-reduces may go along trees
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
  std::string software;  // whose section of the file was read; empty for none

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
// `software` names a section of the text whose lines replace those of devices and levels.
Machine parse_machine(std::string_view text, const std::string& source, std::int64_t size = 0,
                      const std::string& software = "");

// "summit:8", "local:2", or the path of a machine file, which may also take a size: "my.machine:4".
// Each may end in ",software=NAME".
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
