// The lines of a level that say what of its bandwidth is reached: `utilization`, of all collectives
// or of one, one number or one for each size. docs/machine-format.md describes them.
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
  // `owner` is how messages call the level. Throws UserError.
  void read(const Place& place, const std::string& owner, Words rest);

  // Once the level ends.
  void join(Level& level) const;

 private:
  struct Lines {
    std::optional<double> constant;
    std::vector<Utilization::Point> points;  // not with a constant

    [[nodiscard]] Utilization utilization() const;
  };

  std::map<std::optional<Step>, Lines> lines_;  // none: of all that have no lines of their own
};

}  // namespace tandem::machine
