// Machines: devices in nested levels, joined by links. A machine is read from a text file
// (machines/*.machine) in which every number carries its unit and its source. Built-in machines are
// such files, embedded in the binary. docs/reference/machine-format.md describes the format.
//
// Levels are listed outermost first: node, socket, gpu on Summit. A level's link joins its units. A
// `shared` link exists once per unit and serves all devices inside it; otherwise each device has
// its own link. One switch joins the units unless `network` says otherwise. Each device inside a
// unit then has a network of its own, unless the link is shared.
//
// Units of the outermost level may have different devices, in groups. A task on several devices
// takes as long as on the slowest of them. `device` is the weakest of them in every respect.
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

// Sets of operators that one kernel executes together.
enum class Fusion : std::uint8_t {
  kNone,
  kBias,         // a bias together with the matmul whose result it is added to
  kElementwise,  // also chains of elementwise operators
};
inline constexpr std::array<std::string_view, 3> kFusionNames = {"no", "bias", "yes"};

// The software that drives a device: the costs of training beyond the kernels' own time. The host
// runs ahead of the device, and a kernel starts only after its dispatch.
struct Software {
  Seconds dispatch;             // host time per kernel of the forward pass
  Seconds dispatch_backward;    // host time per kernel of the backward pass
  Seconds dispatch_collective;  // host time per collective
  Seconds dispatch_send;        // host time per send or receive; 0: dispatch_collective
  Seconds micro_batch;          // synchronization of host and device per micro-batch
  Seconds step;                 // synchronization of host and device per optimizer step
  Fusion fusion = Fusion::kNone;
  bool fused_qkv = false;         // matmuls of one tensor run as one (fused QKV)
  bool send_parts = false;        // each replica sends a part; the receivers gather them
  bool waits_for_sends = false;   // whether compute waits for what stages send and receive
  bool overlap = true;            // whether collectives of gradients overlap the backward pass
  bool joined_gradients = false;  // whether one collective reduces all gradients
  double fragmentation = 0;       // allocator overhead, as a fraction of transient memory
  double interference = 0;        // relative slowdown of compute while a collective runs
  bool stores_zeros = false;      // whether an expert's tensors have a row for every token
  bool sums_rows = false;  // whether devices send the rows they read of embedding tables' gradients
  // Whether plain SGD subtracts a weight's gradient during its matmul, so the gradient is never
  // stored.
  bool updates_in_matmuls = false;
  // Whether plain SGD updates the rows of an embedding table while it computes their gradients.
  bool updates_in_tables = false;
  bool narrow_exchange = false;  // whether all-to-alls of fp32 tensors are sent in bf16/fp16
  // Whether gathered or unsharded tensors exist only from first to last use, in addition to the
  // device's own shard. Otherwise they are allocated for the whole step and contain the shard.
  bool frees_at_last_use = false;
  // Whether recomputation runs a layer's whole forward pass, as activation checkpointing in
  // frameworks does, including its last matmul, whose result nothing reads. Otherwise only what the
  // backward pass reads is recomputed.
  bool recomputes_whole = false;
  Bytes update_bytes;  // bytes read and written per parameter; 0: the optimizer's minimum
  // Number of kernels that execute an operator; each reads and writes the operator's bytes.
  struct Kernels {
    double forward = 1;
    double backward = 1;
    // Multiple of matrices per device for which one kernel does it; 0: never.
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
  double threads = 1;  // processor threads of the process that computes for it
  std::map<DType, FlopsPerSecond> peak;
  double compute_utilization = 1;    // fraction of peak that a large matmul reaches
  double attention_utilization = 0;  // fraction of peak in `attention`; 0: as in other matmuls
  double attention_backward_utilization = 0;  // fraction in its backward pass; 0: the same
  double units = 0;           // number of units that compute one tile each; 0: ignore tiles
  double matmul_setup = 0;    // time per tile beyond its depth, in elements of depth
  double wave_softening = 0;  // how evenly the units share the tiles of a last wave; 1: evenly
  double unaligned = 1;       // fraction of the rate for matmuls whose rows are not aligned
  Bytes memory;
  Bytes reserve;  // memory reserved for the system and libraries
  BytesPerSecond bandwidth;
  double memory_utilization = 1;  // fraction of bandwidth that a long stream reaches
  double random_access = 1;       // fraction of that for rows at random places of a table
  Seconds launch;                 // device time per kernel
  Seconds collective;             // time to start a collective
  MeasuredTimes measured;
  Software software;
};

struct Level {
  std::string name;
  std::int64_t count = 1;    // units of this level in one unit of the level above
  BytesPerSecond bandwidth;  // in one direction
  Seconds latency;
  bool shared = false;
  Utilization utilization = 1;  // fraction of bandwidth, by buffer size per device
  std::map<Step, Utilization> utilization_of_step = {};  // exceptions for single collectives
  // Whether the devices themselves move the data across this level, and compute nothing meanwhile.
  bool by_device = false;
  bool trees = false;               // whether all-reduces may use trees
  bool half_duplex = false;         // whether sending and receiving share the bandwidth
  std::string topology = "switch";  // as written in the file: "torus 4x4"
  std::shared_ptr<const Network> network = nullptr;  // null: one full-duplex switch

  [[nodiscard]] const Utilization& get_utilization(Step step) const {
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

// A mapping named in the machine file: which dimension of a task grid runs along which level
// (machine/mapping.h).
struct NamedMapping {
  struct LevelAssignment {
    std::size_t level = 0;
    std::int64_t size = 0;           // number of the level's units; 0: all that are left
    std::optional<std::size_t> dim;  // dimension of the grid; nullopt: idle
  };
  std::string name;
  std::vector<LevelAssignment> parts;
};

struct Machine {
  std::string name;  // "summit:8"
  Device device;     // the weakest device, if there are several kinds
  std::vector<Level> levels;
  std::vector<DeviceGroup> groups;  // empty if all devices are equal
  std::vector<NamedMapping> mappings;
  std::string software;  // name of the applied software profile; empty for none

  [[nodiscard]] std::int64_t devices() const;
  // Returns the index of the group that contains the device with this number, or 0 if there are
  // none.
  [[nodiscard]] std::size_t find_group(std::int64_t device) const;
  // Returns the description of the device with this number.
  [[nodiscard]] const Device& get_device(std::int64_t device) const;
  // Returns the number of devices inside one unit of level `l`.
  [[nodiscard]] std::int64_t devices_below(std::size_t l) const;
  // Returns the bandwidth that one device gets across level `l` while all devices send.
  [[nodiscard]] BytesPerSecond bandwidth_per_device(std::size_t l) const;
};

// Returns a device that is as slow and small as any of the groups in every respect. It has only the
// element types that all groups have.
Device make_weakest_device(const std::vector<DeviceGroup>& groups);

inline constexpr std::int64_t kMaxDevices = std::int64_t{1} << 20;

// Parses a machine. `source` is the text's name in messages: "machines/summit.machine". `size`
// replaces the count that the text leaves open as `?`; 0 means no size, an error if a count is
// open. `software` names a software profile of the text whose lines replace those of devices and
// levels.
Machine parse_machine(std::string_view text, const std::string& source, std::int64_t size = 0,
                      const std::string& software = "");

// Loads a machine by name: "summit:8", "local:2", or the path of a machine file with an optional
// size: "my.machine:4". A name may end in ",software=NAME". `local` is the file
// measured_local_path() if it exists, otherwise the built-in one.
Machine load_machine(const std::string& name);

// Returns the path of the measured `local` machine that `tandem profile` writes:
// $XDG_CACHE_HOME/tandem/local.machine, by default in ~/.cache. Returns "" if there is no such
// directory or TANDEM_NO_CACHE is set.
std::string measured_local_path();

// Returns a hash of every number, so that a plan can identify its machine.
Hash hash_machine(const Machine& machine);

struct BuiltinMachine {
  std::string name;   // "summit"
  std::string usage;  // "summit:NODES"
  std::string doc;
};
std::vector<BuiltinMachine> list_builtin_machines();

}  // namespace tandem::machine
