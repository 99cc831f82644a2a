// Parser of a level's lines that hold one number or word. machine/utilization_text.h and
// machine/topology_text.h parse the others.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "machine/machine.h"
#include "machine/number.h"

namespace tandem::machine {

class LevelFields {
 public:
  // Reads one field into `level`. Messages call the level `owner`. Throws UserError.
  void read(const Place& place, const std::string& owner, std::string_view name, Words rest,
            Level& level);
  // Fails at `place` if a required field is missing. Call it at the end of the level.
  void check(const Place& place, const std::string& owner) const;

 private:
  std::set<std::string, std::less<>> seen_;
};

}  // namespace tandem::machine
