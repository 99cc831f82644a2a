// Fuzzing of the parser of a machine file.
#include "machine/machine.h"
#include "target.h"

void tandem::fuzz::parse(std::string_view input) {
  for (std::int64_t size : {0, 2}) {
    try {
      machine::hash_of(machine::parse_machine(input, "fuzz", size));
    } catch (const UserError&) {
      // A count that is left open needs a size, one that is not refuses it.
    }
  }
}
