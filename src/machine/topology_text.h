// The lines of a level that say how its units are joined: `topology`, `link`, `route`.
// docs/machine-format.md describes them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "machine/machine.h"
#include "machine/number.h"

namespace tandem::machine {

class TopologyText {
 public:
  static bool is_keyword(std::string_view word);

  // "torus 4x4"; "switch" where nothing else is said.
  [[nodiscard]] const std::string& text() const { return text_; }

  void read(const Place& place, std::string_view keyword, Words rest);

  // Once the level's count, bandwidth and latency are known: sets its network. Throws UserError
  // where they do not fit together.
  void join(const Place& level_place, Level& level) const;

 private:
  enum class Kind { kSwitch, kFatTree, kRing, kTorus, kLinks };
  struct Link {
    Place place;
    std::string text;
    std::string a, b;
    std::optional<double> bandwidth, latency;
    bool half_duplex;
  };
  struct Route {
    Place place;
    std::string text;
    std::vector<std::string> points;
  };
  class Points;  // units by number, switches by name

  void read_topology(const Place& place, Words rest);
  void read_link(const Place& place, Words rest);
  void read_route(const Place& place, Words rest);
  [[nodiscard]] std::shared_ptr<const Network> join_links(const Place& level_place,
                                                          const Level& level) const;

  Place place_;  // of `topology`; line 0 where there is none
  Kind kind_ = Kind::kSwitch;
  std::string text_ = "switch";
  std::int64_t leaf_ = 0;
  double oversubscription_ = 1;
  std::vector<std::int64_t> extents_;
  bool packed_ = false;  // of links
  std::vector<Link> links_;
  std::vector<Route> routes_;
};

}  // namespace tandem::machine
