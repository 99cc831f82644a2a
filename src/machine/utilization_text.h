// Parser of a level's `make_utilization` lines: one number or one per size, for all collectives or
// for one. docs/reference/machine-format.md describes them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "machine/machine.h"
#include "machine/number.h"

namespace tandem::machine {

class UtilizationText {
 public:
  // Reads one line. Messages call the level `owner`. Throws UserError.
  void read(const Place& place, const std::string& owner, Words rest);

  // Stores the utilizations in `level`. Call it at the end of the level.
  void store(Level& level) const;

 private:
  struct Lines {
    std::optional<double> constant;
    std::vector<Utilization::Point> points;  // empty if there is a constant

    [[nodiscard]] Utilization make_utilization() const;
  };

  std::map<std::optional<Step>, Lines> lines_;  // nullopt: collectives without lines of their own
};

}  // namespace tandem::machine
