// Fuzzing of the parser of a machine file, and of the cost of collectives on the machine that it
// describes.
#include <cmath>
#include <cstdlib>

#include "machine/machine.h"
#include "target.h"

namespace tandem {
namespace {

// Checks one all-to-all of all units of every level.
void check_all_to_all(const machine::Machine& machine) {
  for (const auto& level : machine.levels) {
    // Larger levels only take longer.
    if (level.network == nullptr || level.count > 64) continue;
    const std::int64_t digits[] = {level.count};
    const auto [load, latency] =
        level.network->compute_cost(machine::Pattern::kAllToAll, digits, 1);
    if (!std::isfinite(load) || !std::isfinite(latency.value)) std::abort();
  }
}

}  // namespace
}  // namespace tandem

void tandem::fuzz::parse(std::string_view input) {
  for (std::int64_t size : {0, 2}) {
    try {
      const auto machine = machine::parse_machine(input, "fuzz", size);
      machine::hash_machine(machine);
      check_all_to_all(machine);
    } catch (const UserError&) {
      // An open count needs a size; a machine without one accepts no size.
    }
  }
}
