// Fuzzing of the parser of a machine file: whatever the bytes are, it returns or throws a
// UserError.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "machine/machine.h"

namespace {

void parse(std::string_view input) {
  for (std::int64_t size : {0, 2}) {
    try {
      tandem::machine::hash_of(tandem::machine::parse_machine(input, "fuzz", size));
    } catch (const tandem::UserError&) {
      // A count that is left open needs a size, one that is not refuses it.
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    parse(std::string_view(reinterpret_cast<const char*>(data), size));
  } catch (const tandem::UserError&) {
    // Said to the user.
  }
  return 0;
}
