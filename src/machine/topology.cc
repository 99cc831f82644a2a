#include "machine/topology.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <numeric>

#include "base/check.h"
#include "machine/packed_rings.h"

namespace tandem::machine {

namespace {

Hash hash_number(Hash seed, double value) { return hash_combine(seed, std::bit_cast<Hash>(value)); }

struct Send {
  std::int32_t from;
  double part;
};

// Returns the sends to the member at `rank` of a group.
std::vector<Send> list_sends_to(Pattern pattern, const std::vector<std::int32_t>& group,
                                std::size_t rank) {
  const auto n = group.size();
  const double part = 1.0 / static_cast<double>(n - 1);
  switch (pattern) {
    case Pattern::kRing:
      return {{group[(rank + n - 1) % n], 0.5}, {group[(rank + 1) % n], 0.5}};
    case Pattern::kChain:
      if (rank == 0) return {};
      return {{group[rank - 1], 1}};
    case Pattern::kFromRoot:
      if (rank == 0) return {};
      return {{group[0], part}};
    case Pattern::kAllToAll: {
      std::vector<Send> out;
      for (std::size_t i = 0; i < n; ++i) {
        if (i != rank) out.push_back({group[i], part});
      }
      return out;
    }
  }
  CHECK(false);
}

// Load of both directions of one link, or of a bundle that traffic fills evenly.
struct LinkLoad {
  double there = 0, back = 0;
  [[nodiscard]] double fullest(bool half_duplex) const {
    return half_duplex ? there + back : std::max(there, back);
  }
};

// A fat tree; it counts traffic per leaf, because a machine may have very many units on switches.
class FatTree : public Network {
 public:
  FatTree(std::int64_t units, std::int64_t leaf, double oversubscription, Seconds latency,
          bool half_duplex)
      : units_(units),
        leaf_(std::min(leaf, units)),
        uplink_(static_cast<double>(leaf_) / oversubscription),
        latency_(latency),
        half_duplex_(half_duplex) {}

  using Network::compute_cost;
  [[nodiscard]] PatternCost compute_cost(Pattern pattern, const UnitGroups& groups) const override {
    Tally tally{std::vector<LinkLoad>(static_cast<std::size_t>(units_)),
                std::vector<LinkLoad>(static_cast<std::size_t>((units_ + leaf_ - 1) / leaf_)),
                {}};
    for (const auto& group : groups) {
      if (group.size() == 1) continue;
      if (pattern == Pattern::kAllToAll) {
        add_all_to_all(group, tally);
      } else {
        add_sends(pattern, group, tally);
      }
    }
    double load = 0;
    for (const auto& l : tally.unit) load = std::max(load, l.fullest(half_duplex_));
    for (const auto& l : tally.leaf) load = std::max(load, l.fullest(half_duplex_) / uplink_);
    return {load, tally.latency};
  }

  [[nodiscard]] bool is_symmetric() const override { return leaf_ >= units_; }

  [[nodiscard]] Hash hash() const override {
    Hash h = 1;
    for (const double v : {static_cast<double>(leaf_), uplink_, latency_.value})
      h = hash_number(h, v);
    return hash_combine(h, half_duplex_ ? 1 : 0);
  }

 private:
  struct Tally {
    std::vector<LinkLoad> unit, leaf;
    Seconds latency;
  };

  [[nodiscard]] std::size_t get_leaf(std::int32_t unit) const {
    return static_cast<std::size_t>(unit / leaf_);
  }

  void add_sends(Pattern pattern, const std::vector<std::int32_t>& group, Tally& tally) const {
    for (std::size_t rank = 0; rank < group.size(); ++rank) {
      const auto to = group[rank];
      for (const auto& [from, part] : list_sends_to(pattern, group, rank)) {
        tally.unit[static_cast<std::size_t>(from)].there += part;
        tally.unit[static_cast<std::size_t>(to)].back += part;
        const bool crosses = get_leaf(from) != get_leaf(to);
        if (crosses) {
          tally.leaf[get_leaf(from)].there += part;
          tally.leaf[get_leaf(to)].back += part;
        }
        tally.latency = std::max(tally.latency, latency_ * (crosses ? 2 : 1));
      }
    }
  }

  // Adds an all-to-all. A group's members in one leaf are equivalent.
  void add_all_to_all(const std::vector<std::int32_t>& group, Tally& tally) const {
    const auto others = static_cast<double>(group.size() - 1);
    std::map<std::size_t, double> members;
    for (const auto unit : group) ++members[get_leaf(unit)];
    for (const auto unit : group) tally.unit[static_cast<std::size_t>(unit)] = {1, 1};
    for (const auto& [leaf, inside] : members) {
      const double outside = (others + 1 - inside) / others;  // fraction of a member's sends
      tally.leaf[leaf].there += inside * outside;
      tally.leaf[leaf].back += inside * outside;
      tally.latency = std::max(tally.latency, latency_ * (1 + outside));
    }
  }

  std::int64_t units_, leaf_;
  double uplink_;
  Seconds latency_;
  bool half_duplex_;
};

// One direction of a link, seen from the point it leaves.
struct Arc {
  std::int32_t to;
  std::uint32_t link;
  bool there;  // whether the direction is from a to b
};

class Linked : public Network {
 public:
  Linked(std::int64_t units, std::int64_t switches, std::vector<Link> links,
         const std::vector<Route>& routes, bool packed)
      : units_(units),
        packed_(packed),
        arcs_(static_cast<std::size_t>(units + switches)),
        links_(std::move(links)) {
    for (std::uint32_t i = 0; i < links_.size(); ++i) {
      const auto& link = links_[i];
      arcs_[static_cast<std::size_t>(link.a)].push_back({link.b, i, true});
      arcs_[static_cast<std::size_t>(link.b)].push_back({link.a, i, false});
    }
    for (const auto& route : routes) {
      auto& path = routes_[{route.front(), route.back()}];
      for (std::size_t i = 1; i < route.size(); ++i)
        path.push_back(find_arc(route[i - 1], route[i]));
    }
    for (std::int32_t unit = 0; unit < units; ++unit)
      shortest_paths_.push_back(find_shortest_paths(unit));
  }

  using Network::compute_cost;
  [[nodiscard]] PatternCost compute_cost(Pattern pattern, const UnitGroups& groups) const override {
    std::vector<LinkLoad> loads(links_.size());
    Seconds latency;
    for (const auto& group : groups) {
      if (group.size() == 1) continue;
      for (std::size_t rank = 0; rank < group.size(); ++rank) {
        const auto sends = list_sends_to(pattern, group, rank);
        if (sends.empty()) continue;
        const auto waited = add_traffic(group[rank], sends, loads);
        // In an all-to-all, a unit's sends follow each other; otherwise they are one step.
        const auto sum = std::accumulate(waited.begin(), waited.end(), Seconds{});
        latency = std::max(latency, pattern == Pattern::kAllToAll
                                        ? sum / static_cast<double>(sends.size())
                                        : std::ranges::max(waited));
      }
    }
    double load = 0;
    for (std::size_t i = 0; i < links_.size(); ++i) {
      load = std::max(load, loads[i].fullest(links_[i].half_duplex) / links_[i].capacity);
    }
    if (packed_ && pattern == Pattern::kRing)
      load = std::min(load, compute_packed_load(groups, load));
    return {load, latency};
  }

  [[nodiscard]] std::shared_ptr<const Network> make_subnetwork(
      std::span<const std::int32_t> units) const override {
    if (!routes_.empty() || static_cast<std::int64_t>(arcs_.size()) != units_) return nullptr;
    const auto number = [&](std::int32_t unit) {
      return static_cast<std::int32_t>(std::ranges::find(units, unit) - units.begin());
    };
    const auto count = static_cast<std::int64_t>(units.size());
    std::vector<Link> retained;
    for (auto link : links_) {
      link.a = number(link.a);
      link.b = number(link.b);
      if (link.a < count && link.b < count) retained.push_back(link);
    }
    if (find_unreached_unit(count, 0, retained)) return nullptr;
    return make_linked_network(count, 0, std::move(retained), {}, packed_);
  }

  [[nodiscard]] Hash hash() const override {
    Hash h = hash_combine(packed_ ? 3 : 2, arcs_.size());
    for (const auto& l : links_) {
      for (const double v : {static_cast<double>(l.a), static_cast<double>(l.b), l.capacity,
                             l.latency.value, l.half_duplex ? 1.0 : 0.0}) {
        h = hash_number(h, v);
      }
    }
    for (const auto& [ends, path] : routes_) {
      h = hash_combine(h, static_cast<Hash>(ends.first));
      for (const auto& step : path) h = hash_combine(h, static_cast<Hash>(step.to));
    }
    return h;
  }

 private:
  // Returns the load of packed rings, or `otherwise` if a group has none. Groups share no links.
  [[nodiscard]] double compute_packed_load(const UnitGroups& groups, double otherwise) const {
    double out = 0;
    for (const auto& group : groups) {
      if (group.size() == 1) continue;
      out = std::max(out, compute_packed_rings_load(group, links_).value_or(otherwise));
    }
    return out;
  }

  [[nodiscard]] Arc find_arc(std::int32_t from, std::int32_t to) const {
    for (const auto& a : arcs_[static_cast<std::size_t>(from)]) {
      if (a.to == to) return a;
    }
    CHECK(false, from, to);
  }

  static void add_load(std::vector<LinkLoad>& loads, const Arc& arc, double part) {
    (arc.there ? loads[arc.link].there : loads[arc.link].back) += part;
  }

  // The shortest paths to one unit, by number of links.
  struct ShortestPaths {
    std::vector<std::int32_t> distance;  // distance of every point, in links
    std::vector<std::int32_t> order;     // points in order of distance
    std::vector<Seconds> latency;        // latency of the slowest shortest path from every point
  };

  [[nodiscard]] ShortestPaths find_shortest_paths(std::int32_t unit) const {
    const auto n = arcs_.size();
    ShortestPaths out{std::vector<std::int32_t>(n, -1), {unit}, std::vector<Seconds>(n)};
    out.distance[static_cast<std::size_t>(unit)] = 0;
    for (std::size_t i = 0; i < out.order.size(); ++i) {
      const auto at = static_cast<std::size_t>(out.order[i]);
      for (const auto& a : arcs_[at]) {
        auto& distance = out.distance[static_cast<std::size_t>(a.to)];
        if (distance >= 0) continue;
        distance = out.distance[at] + 1;
        out.order.push_back(a.to);
      }
      visit_nearer(out, at, [&](const Arc& a) {
        out.latency[at] = std::max(
            out.latency[at], links_[a.link].latency + out.latency[static_cast<std::size_t>(a.to)]);
      });
    }
    return out;
  }

  template <class Visit>
  void visit_nearer(const ShortestPaths& ways, std::size_t at, Visit&& visit) const {
    for (const auto& a : arcs_[at]) {
      const auto distance = ways.distance[static_cast<std::size_t>(a.to)];
      if (distance >= 0 && distance == ways.distance[at] - 1) visit(a);
    }
  }

  // Adds the load of these sends to unit `to`. Returns the latency of each send.
  std::vector<Seconds> add_traffic(std::int32_t to, const std::vector<Send>& sends,
                                   std::vector<LinkLoad>& loads) const {
    const auto& ways = shortest_paths_[static_cast<std::size_t>(to)];
    std::vector<double> waiting(arcs_.size());  // traffic that each point must pass on
    std::vector<Seconds> out;
    for (const auto& send : sends) {
      const auto route = routes_.find({send.from, to});
      if (route == routes_.end()) {
        waiting[static_cast<std::size_t>(send.from)] += send.part;
        out.push_back(ways.latency[static_cast<std::size_t>(send.from)]);
        continue;
      }
      Seconds sum;
      for (const auto& step : route->second) {
        add_load(loads, step, send.part);
        sum += links_[step.link].latency;
      }
      out.push_back(sum);
    }
    // The farthest points come first, so that all traffic of a point has arrived before it passes
    // it on.
    for (auto i = ways.order.size(); i-- > 1;) {
      const auto at = static_cast<std::size_t>(ways.order[i]);
      if (waiting[at] == 0) continue;
      double capacity = 0;
      visit_nearer(ways, at, [&](const Arc& a) { capacity += links_[a.link].capacity; });
      visit_nearer(ways, at, [&](const Arc& a) {
        const double part = waiting[at] * (links_[a.link].capacity / capacity);
        add_load(loads, a, part);
        waiting[static_cast<std::size_t>(a.to)] += part;
      });
    }
    return out;
  }

  std::int64_t units_;
  bool packed_;
  std::vector<std::vector<Arc>> arcs_;  // by the point they leave
  std::vector<Link> links_;
  std::vector<ShortestPaths> shortest_paths_;  // by unit
  std::map<std::pair<std::int32_t, std::int32_t>, std::vector<Arc>> routes_;
};

}  // namespace

UnitGroups make_unit_groups(std::span<const std::int64_t> digits, std::uint32_t mask) {
  std::int64_t units = 1;
  std::int64_t size = 1;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    units *= digits[i];
    if ((mask >> i & 1U) != 0) size *= digits[i];
  }
  UnitGroups out(static_cast<std::size_t>(units / size));
  for (std::int64_t unit = 0; unit < units; ++unit) {
    std::int64_t group = 0;
    std::int64_t weight = 1;
    auto rest = unit;
    for (std::size_t i = digits.size(); i-- > 0; rest /= digits[i]) {
      if ((mask >> i & 1U) != 0) continue;
      group += rest % digits[i] * weight;
      weight *= digits[i];
    }
    // Units ascend, so each group is in the order of its own digits.
    out[static_cast<std::size_t>(group)].push_back(static_cast<std::int32_t>(unit));
  }
  return out;
}

PatternCost Network::compute_cost(Pattern pattern, std::span<const std::int64_t> digits,
                                  std::uint32_t mask) const {
  const std::scoped_lock lock(mutex_);
  const auto [at, is_new] = known_.try_emplace({pattern, mask});
  if (is_new) at->second = compute_cost(pattern, make_unit_groups(digits, mask));
  return at->second;
}

std::shared_ptr<const Network> make_fat_tree(std::int64_t units, std::int64_t leaf,
                                             double oversubscription, Seconds latency,
                                             bool half_duplex) {
  return std::make_shared<FatTree>(units, leaf, oversubscription, latency, half_duplex);
}

std::shared_ptr<const Network> make_torus(std::span<const std::int64_t> extents, Seconds latency,
                                          bool half_duplex) {
  const auto units =
      std::accumulate(extents.begin(), extents.end(), std::int64_t{1}, std::multiplies<>());
  std::vector<Network::Link> links;
  std::int64_t stride = units;
  for (const auto extent : extents) {
    stride /= extent;
    for (std::int64_t unit = 0; unit < units; ++unit) {
      const auto coordinate = unit / stride % extent;
      // Two neighbours have one link, not one for each way around.
      if (extent == 1 || (extent == 2 && coordinate == 1)) continue;
      const auto next = unit + ((coordinate + 1) % extent - coordinate) * stride;
      links.push_back({static_cast<std::int32_t>(unit), static_cast<std::int32_t>(next), 1, latency,
                       half_duplex});
    }
  }
  return make_linked_network(units, 0, std::move(links), {});
}

std::shared_ptr<const Network> make_linked_network(std::int64_t units, std::int64_t switches,
                                                   std::vector<Network::Link> links,
                                                   const std::vector<Network::Route>& routes,
                                                   bool packed) {
  return std::make_shared<Linked>(units, switches, std::move(links), routes, packed);
}

std::optional<std::int64_t> find_unreached_unit(std::int64_t units, std::int64_t switches,
                                                std::span<const Network::Link> links) {
  std::vector<std::vector<std::int32_t>> neighbours(static_cast<std::size_t>(units + switches));
  for (const auto& link : links) {
    neighbours[static_cast<std::size_t>(link.a)].push_back(link.b);
    neighbours[static_cast<std::size_t>(link.b)].push_back(link.a);
  }
  std::vector<bool> reached(neighbours.size());
  std::vector<std::size_t> left = {0};
  reached[0] = true;
  while (!left.empty()) {
    const auto at = left.back();
    left.pop_back();
    for (const auto next : neighbours[at]) {
      if (reached[static_cast<std::size_t>(next)]) continue;
      reached[static_cast<std::size_t>(next)] = true;
      left.push_back(static_cast<std::size_t>(next));
    }
  }
  for (std::int64_t unit = 0; unit < units; ++unit) {
    if (!reached[static_cast<std::size_t>(unit)]) return unit;
  }
  return std::nullopt;
}

}  // namespace tandem::machine
