// The lines of a level that hold one number or word; machine/utilization_text.h and
// machine/topology_text.h read the others.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "machine/machine.h"
#include "machine/number.h"

namespace tandem::machine {

class LevelFields {
 public:
  // Throws UserError. `owner` is how messages call the level.
  void read(const Place& place, const std::string& owner, std::string_view name, Words rest,
            Level& level);
  // Once the level ends: fails at `place` where a field is missing.
  void check(const Place& place, const std::string& owner) const;

 private:
  std::set<std::string, std::less<>> seen_;
};

}  // namespace tandem::machine
