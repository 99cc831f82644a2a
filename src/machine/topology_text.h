// Parser of the lines that join the units of a level: `topology`, `link`, `route`.
// docs/reference/machine-format.md describes them.
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

  // Returns the topology as written: "torus 4x4"; "switch" by default.
  [[nodiscard]] const std::string& text() const { return text_; }

  void read(const Place& place, std::string_view keyword, Words rest);

  // Sets the network of `level`, whose count, bandwidth and latency must be known. Throws UserError
  // if they do not fit together.
  void build_network(const Place& level_place, Level& level) const;

 private:
  enum class TopologyKind { kSwitch, kFatTree, kRing, kTorus, kLinks };
  struct LinkText {
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
  class Points;  // maps units to numbers and switches to names

  void read_topology(const Place& place, Words rest);
  void read_link(const Place& place, Words rest);
  void read_route(const Place& place, Words rest);
  [[nodiscard]] std::shared_ptr<const Network> build_linked_network(const Place& level_place,
                                                                    const Level& level) const;

  Place place_;  // place of `topology`; line 0 if there is none
  TopologyKind kind_ = TopologyKind::kSwitch;
  std::string text_ = "switch";
  std::int64_t leaf_ = 0;
  double oversubscription_ = 1;
  std::vector<std::int64_t> extents_;
  bool packed_ = false;  // whether the line is `links packed`
  std::vector<LinkText> links_;
  std::vector<Route> routes_;
};

}  // namespace tandem::machine
