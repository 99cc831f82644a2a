// Networks that join the units of one level, other than one full-duplex switch.
//
// Units and the switches between them are points, joined by links. A collective is a pattern of
// sends within every group of units at the same time. Each send takes the routes with the fewest
// links and divides its bytes among routes of equal length. The collective's time depends only on
// the `load`: what the fullest link carries, relative to what a unit sends in the pattern and to
// the level's bandwidth. On a switch the load is 1, so time = bytes / (bandwidth / load).
//
//   An all-to-all of n units on a ring: each sends 1/(n-1) to every other, on average n/4 links
//   away (n even). 2 n directed links share that evenly, so the load is n^2 / (8 (n-1)).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/units.h"

namespace tandem::machine {

// Sends of each unit of a group; the parts sum to 1.
enum class Pattern : std::uint8_t {
  kRing,      // half to the next unit and half to the previous one: rings in both directions
  kChain,     // all to the next unit, except the last: broadcasts, pipelines, single sends
  kAllToAll,  // equal parts to all others
  kFromRoot,  // equal parts from the first unit to all others
};

struct PatternCost {
  double load = 1;  // load of the fullest link
  Seconds latency;  // latency of one step for the last receiver
};

// Units 0 ... n-1 divided into groups that communicate at the same time. A group is in the order of
// the ring or chain. Members of a group share the mixed-radix digits (outermost first) that are not
// in `mask`: make_unit_groups({2, 3}, 0b01) = {{0, 3}, {1, 4}, {2, 5}}.
using UnitGroups = std::vector<std::vector<std::int32_t>>;
UnitGroups make_unit_groups(std::span<const std::int64_t> digits, std::uint32_t mask);

class Network {
 public:
  // A link between two points; points are units first, then switches.
  struct Link {
    std::int32_t a = 0, b = 0;
    double capacity = 1;  // fraction of the level's bandwidth, in each direction
    Seconds latency;
    bool half_duplex = false;  // whether both directions share the capacity
  };
  using Route = std::vector<std::int32_t>;  // points from one unit to another

  virtual ~Network() = default;
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  // Returns the cost of the pattern if all groups of `mask` (as in make_unit_groups) run it
  // together.
  [[nodiscard]] PatternCost compute_cost(Pattern pattern, std::span<const std::int64_t> digits,
                                         std::uint32_t mask) const;
  [[nodiscard]] virtual PatternCost compute_cost(Pattern pattern,
                                                 const UnitGroups& groups) const = 0;

  // Returns the network of these units and the links between them. Returns null if they are not
  // connected without other units or if routes are given.
  [[nodiscard]] virtual std::shared_ptr<const Network> make_subnetwork(
      std::span<const std::int32_t> units) const {
    (void)units;
    return nullptr;
  }

  // Returns whether all units are equivalent, so that only the size of a group matters.
  [[nodiscard]] virtual bool is_symmetric() const { return false; }
  // Returns a hash of every number.
  [[nodiscard]] virtual Hash hash() const = 0;

 protected:
  Network() = default;

 private:
  mutable std::mutex mutex_;
  mutable std::map<std::pair<Pattern, std::uint32_t>, PatternCost> known_;
};

// Largest number of units for topologies other than switches.
inline constexpr std::int64_t kMaxJoined = 1024;

// Returns a fat tree: leaf switches of `leaf` units each under one core. The uplink of a leaf has
// bandwidth leaf / oversubscription. `latency` is that of a send within a leaf; a send through the
// core takes twice as long.
std::shared_ptr<const Network> make_fat_tree(std::int64_t units, std::int64_t leaf,
                                             double oversubscription, Seconds latency,
                                             bool half_duplex);

// Returns a torus of these extents; a ring has one extent. Units are numbered with the last extent
// fastest. All links are equal and join neighbours.
std::shared_ptr<const Network> make_torus(std::span<const std::int64_t> extents, Seconds latency,
                                          bool half_duplex);

// Returns a network of arbitrary links. A route applies from its first to its last point; other
// pairs take the paths with the fewest links. Every unit must be reachable (see unreached()), and
// every step of a route must be a link. If `packed`, ring traffic is shared by rings over different
// links (packed_rings.h).
std::shared_ptr<const Network> make_linked_network(std::int64_t units, std::int64_t switches,
                                                   std::vector<Network::Link> links,
                                                   const std::vector<Network::Route>& routes,
                                                   bool packed = false);

// Returns a unit that is not reachable from unit 0, or nullopt.
std::optional<std::int64_t> find_unreached_unit(std::int64_t units, std::int64_t switches,
                                                std::span<const Network::Link> links);

}  // namespace tandem::machine
