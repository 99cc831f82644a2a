#include "machine/topology_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "base/text.h"

namespace tandem::machine {

namespace {

constexpr std::string_view kKinds =
    "switch, 'fat_tree 16 2:1' (16 units per leaf, uplinks with half of the bandwidth), ring, "
    "'torus 4x4', links, 'links packed'";

std::optional<std::int64_t> parse_positive(std::string_view text) {
  const auto value = parse_int(text);
  return value && *value >= 1 && *value <= kMaxDevices ? value : std::nullopt;
}

// Parses an oversubscription ratio: "2:1" -> 2.
std::optional<double> parse_ratio(std::string_view text) {
  if (!text.ends_with(":1")) return std::nullopt;
  const auto value = parse_double(text.substr(0, text.size() - 2));
  return value && *value >= 1 && *value <= 1e6 ? value : std::nullopt;
}

// Parses extents: "4x4x2" -> {4, 4, 2}.
std::vector<std::int64_t> parse_extents(std::string_view text) {
  std::vector<std::int64_t> out;
  for (const auto piece : split(text, 'x')) {
    const auto extent = parse_positive(piece);
    if (!extent) return {};
    out.push_back(*extent);
  }
  return out;
}

bool is_time_unit(std::string_view word) {
  return std::ranges::find(kTime.units, word, &Unit::name) != kTime.units.end();
}

}  // namespace

// Numbers of a network's points. A unit is its number; every other word is a switch, numbered after
// the units.
class TopologyText::Points {
 public:
  explicit Points(const Level& level) : level_(level) {}

  std::int32_t assign_number(const Place& place, const std::string& text, const std::string& word) {
    if (const auto unit = parse_int(word)) {
      if (*unit < 0 || *unit >= level_.count) {
        place.fail(fmt::format("{}: there is no unit {}", text, *unit),
                   fmt::format("level '{}' has units 0 to {}", level_.name, level_.count - 1));
      }
      return static_cast<std::int32_t>(*unit);
    }
    const auto [at, is_new] = switches_.try_emplace(word, level_.count + switches());
    if (is_new && switches() > kMaxJoined) {
      place.fail(fmt::format("{}: more than {} switches", text, kMaxJoined));
    }
    return static_cast<std::int32_t>(at->second);
  }
  [[nodiscard]] std::int64_t switches() const {
    return static_cast<std::int64_t>(switches_.size());
  }

 private:
  const Level& level_;
  std::map<std::string, std::int64_t> switches_;
};

bool TopologyText::is_keyword(std::string_view word) {
  return word == "topology" || word == "link" || word == "route";
}

void TopologyText::read(const Place& place, std::string_view keyword, Words rest) {
  if (keyword == "topology") read_topology(place, rest);
  if (keyword == "link") read_link(place, rest);
  if (keyword == "route") read_route(place, rest);
}

void TopologyText::read_topology(const Place& place, Words rest) {
  if (place_.line != 0) place.fail("'topology' is given twice");
  place_ = place;
  text_ = format_words(rest);
  const auto kind = rest.empty() ? "" : rest[0];
  const auto is = [&](std::string_view name, std::size_t words) {
    return kind == name && rest.size() == words;
  };
  if (is("switch", 1)) return;
  if (is("fat_tree", 3) && parse_positive(rest[1]) && parse_ratio(rest[2])) {
    kind_ = TopologyKind::kFatTree;
    leaf_ = *parse_positive(rest[1]);
    oversubscription_ = *parse_ratio(rest[2]);
  } else if (is("ring", 1)) {
    kind_ = TopologyKind::kRing;
  } else if (is("torus", 2) && !parse_extents(rest[1]).empty()) {
    kind_ = TopologyKind::kTorus;
    extents_ = parse_extents(rest[1]);
  } else if (is("links", 1) || (is("links", 2) && rest[1] == "packed")) {
    kind_ = TopologyKind::kLinks;
    packed_ = rest.size() == 2;
  } else {
    place.fail(fmt::format("{}: unknown topology", format_field("topology", rest)),
               fmt::format("expected one of: {}", kKinds));
  }
}

void TopologyText::read_link(const Place& place, Words rest) {
  const auto text = format_field("link", rest);
  LinkText link{place, text, "", "", {}, {}, false};
  if (!rest.empty() && rest.back() == "half") {
    link.half_duplex = true;
    rest = rest.first(rest.size() - 1);
  }
  const bool well_formed = rest.size() >= 2 && rest.size() % 2 == 0 && is_name(rest[0]) &&
                           is_name(rest[1]) && rest.size() <= 6;
  if (!well_formed) {
    place.fail(fmt::format("{}: expected two units or switches", text),
               "write it like 'link 0 1', 'link 0 leaf' or 'link 0 1 50 GB/s 2 us half'");
  }
  link.a = rest[0];
  link.b = rest[1];
  if (link.a == link.b) place.fail(fmt::format("{}: connects {} with itself", text, link.a));
  for (rest = rest.subspan(2); !rest.empty(); rest = rest.subspan(2)) {
    const bool time = is_time_unit(rest[1]);
    auto& number = time ? link.latency : link.bandwidth;
    if (number) place.fail(fmt::format("{}: has two {}", text, time ? "latencies" : "bandwidths"));
    const auto field = fmt::format("link {} {}", link.a, link.b);
    number = read_number(place, field, rest.first(2), time ? kTime : kRate, time);
  }
  links_.push_back(std::move(link));
}

void TopologyText::read_route(const Place& place, Words rest) {
  const auto text = format_field("route", rest);
  if (rest.size() < 4 || rest[2] != "via" || !std::ranges::all_of(rest, is_name) ||
      !parse_int(rest[0]) || !parse_int(rest[1]) || parse_int(rest[0]) == parse_int(rest[1])) {
    place.fail(fmt::format("{}: expected two units and the points between them", text),
               "write it like 'route 0 3 via 1 2'");
  }
  Route route{place, text, {std::string(rest[0])}};
  for (const auto point : rest.subspan(3)) route.points.emplace_back(point);
  route.points.emplace_back(rest[1]);
  routes_.push_back(std::move(route));
}

void TopologyText::build_network(const Place& level_place, Level& level) const {
  if (kind_ != TopologyKind::kLinks && !(links_.empty() && routes_.empty())) {
    const auto& place = links_.empty() ? routes_.front().place : links_.front().place;
    place.fail(fmt::format("level '{}': its topology is {}, not links", level.name, text_),
               "links and routes require a line 'topology links' in the level");
  }
  const auto joined = [&] {
    if (level.count > kMaxJoined) {
      place_.fail(fmt::format("level '{}': {} units, more than {} for this topology", level.name,
                              level.count, kMaxJoined),
                  "switch and fat_tree allow any number of units");
    }
  };
  switch (kind_) {
    case TopologyKind::kSwitch:
      // A full-duplex switch needs no network: every unit sends and receives at full speed.
      if (level.half_duplex) {
        level.network = make_fat_tree(level.count, level.count, 1, level.latency, true);
      }
      return;
    case TopologyKind::kFatTree:
      level.network =
          make_fat_tree(level.count, leaf_, oversubscription_, level.latency, level.half_duplex);
      return;
    case TopologyKind::kRing:
      joined();
      level.network = make_torus(std::array{level.count}, level.latency, level.half_duplex);
      return;
    case TopologyKind::kTorus: {
      joined();
      double units = 1;  // a product of integers might overflow
      for (const auto extent : extents_) units *= static_cast<double>(extent);
      if (units != static_cast<double>(level.count)) {
        place_.fail(fmt::format("topology {}: has {:.15g} units, but level '{}' has {}", text_,
                                units, level.name, level.count),
                    "the product of the extents must be the count of the level");
      }
      level.network = make_torus(extents_, level.latency, level.half_duplex);
      return;
    }
    case TopologyKind::kLinks:
      joined();
      level.network = build_linked_network(level_place, level);
      return;
  }
}

std::shared_ptr<const Network> TopologyText::build_linked_network(const Place& level_place,
                                                                  const Level& level) const {
  Points points(level);
  std::vector<Network::Link> links;
  std::set<std::pair<std::int32_t, std::int32_t>> joined;
  for (const auto& link : links_) {
    const auto a = points.assign_number(link.place, link.text, link.a);
    const auto b = points.assign_number(link.place, link.text, link.b);
    if (!joined.emplace(std::min(a, b), std::max(a, b)).second) {
      link.place.fail(fmt::format("{}: {} and {} are already connected", link.text, link.a, link.b),
                      "for a double link, write one link with twice the bandwidth");
    }
    links.push_back({a, b, link.bandwidth.value_or(level.bandwidth.value) / level.bandwidth.value,
                     Seconds{link.latency.value_or(level.latency.value)},
                     link.half_duplex || level.half_duplex});
  }
  if (const auto unit = find_unreached_unit(level.count, points.switches(), links)) {
    level_place.fail(
        fmt::format("level '{}': no links lead from unit 0 to unit {}", level.name, *unit),
        "add the missing link");
  }

  std::map<std::pair<std::int32_t, std::int32_t>, Network::Route> routes;
  for (const auto& route : routes_) {
    Network::Route path;
    for (const auto& point : route.points) {
      path.push_back(points.assign_number(route.place, route.text, point));
      if (path.size() == 1) continue;
      const auto from = path[path.size() - 2];
      if (!joined.contains(std::minmax(from, path.back()))) {
        route.place.fail(fmt::format("{}: there is no link between {} and {}", route.text,
                                     route.points[path.size() - 2], point));
      }
    }
    if (!routes.try_emplace({path.front(), path.back()}, path).second) {
      route.place.fail(fmt::format("{}: a second route from {} to {}", route.text,
                                   route.points.front(), route.points.back()));
    }
  }
  // If only one direction is given, the other direction takes the reversed route.
  std::vector<Network::Route> all;
  for (const auto& [ends, path] : routes) {
    all.push_back(path);
    if (!routes.contains({ends.second, ends.first})) all.emplace_back(path.rbegin(), path.rend());
  }
  return make_linked_network(level.count, points.switches(), std::move(links), all, packed_);
}

}  // namespace tandem::machine
