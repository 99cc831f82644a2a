// How the units of one level are joined, where not all of them are on one full-duplex switch.
//
// Units and the switches between them are points, joined by links. A collective is a pattern of
// sends within every group of units at the same time; each send takes the routes with the fewest
// links, sharing its bytes among equals. What the collective's time needs of all this is how much
// the fullest link carries: the `load`, relative to what a unit sends in the pattern and to the
// level's bandwidth. On a switch it is 1, so time = bytes / (bandwidth / load).
//
//   an all-to-all of n units on a ring: each sends 1/(n-1) to every other, on average n/4 links
//   away (n even); 2 n directed links share that evenly, so the load is n^2 / (8 (n-1)).
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

// What each unit of a group sends, 1 in all.
enum class Pattern : std::uint8_t {
  kRing,      // half to the next in the group and half to the one before: rings in both directions
  kChain,     // everything to the next, the last one nothing: broadcasts, pipelines, single sends
  kAllToAll,  // equal parts to all others
  kFromRoot,  // the first sends equal parts to all others
};

struct Passage {
  double load = 1;  // of the fullest link
  Seconds latency;  // of a step: what the last receiver waits for
};

// Units 0 ... n-1 divided into groups that do the same at the same time, in the order of the ring
// or chain. Group members share the mixed-radix digits (outermost first) that are not in `mask`:
// unit_groups({2, 3}, 0b01) = {{0, 3}, {1, 4}, {2, 5}}.
using UnitGroups = std::vector<std::vector<std::int32_t>>;
UnitGroups unit_groups(std::span<const std::int64_t> digits, std::uint32_t mask);

class Network {
 public:
  // Points are units first, then switches.
  struct Link {
    std::int32_t a = 0, b = 0;
    double capacity = 1;  // of the level's bandwidth, in each direction
    Seconds latency;
    bool half_duplex = false;  // both directions share the capacity
  };
  using Route = std::vector<std::int32_t>;  // the points from one unit to another

  virtual ~Network() = default;
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  // What the pattern costs when the groups of `mask` (as in unit_groups) all make it.
  [[nodiscard]] Passage passage(Pattern pattern, std::span<const std::int64_t> digits,
                                std::uint32_t mask) const;
  [[nodiscard]] virtual Passage passage(Pattern pattern, const UnitGroups& groups) const = 0;

  // These units and the links between them; nothing where they are not joined without the others,
  // or where routes are given.
  [[nodiscard]] virtual std::shared_ptr<const Network> part(
      std::span<const std::int32_t> units) const {
    (void)units;
    return nullptr;
  }

  // Are all units alike, so that only the size of a group matters?
  [[nodiscard]] virtual bool is_symmetric() const { return false; }
  // Of every number.
  [[nodiscard]] virtual Hash hash() const = 0;

 protected:
  Network() = default;

 private:
  mutable std::mutex mutex_;
  mutable std::map<std::pair<Pattern, std::uint32_t>, Passage> known_;
};

// More units than this are joined by switches only.
inline constexpr std::int64_t kMaxJoined = 1024;

// Leaf switches of `leaf` units each under one core, which a leaf reaches with a link of
// leaf / oversubscription. `latency` is of a send within a leaf; one through the core takes two.
std::shared_ptr<const Network> fat_tree(std::int64_t units, std::int64_t leaf,
                                        double oversubscription, Seconds latency, bool half_duplex);

// A torus of these extents, units numbered with the last extent fastest; a ring has one. Links are
// between neighbours, all alike.
std::shared_ptr<const Network> torus(std::span<const std::int64_t> extents, Seconds latency,
                                     bool half_duplex);

// Any links. A route holds for its first and last point in that order; other pairs take the routes
// with the fewest links. Every unit must be reachable (unreached() says whether) and every step of
// a route a link. Packed: what goes round in a ring is shared by rings over different links
// (packed_rings.h).
std::shared_ptr<const Network> linked(std::int64_t units, std::int64_t switches,
                                      std::vector<Network::Link> links,
                                      const std::vector<Network::Route>& routes,
                                      bool packed = false);

// A unit that no link leads to from unit 0.
std::optional<std::int64_t> unreached(std::int64_t units, std::int64_t switches,
                                      std::span<const Network::Link> links);

}  // namespace tandem::machine
