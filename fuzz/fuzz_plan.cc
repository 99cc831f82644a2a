// Fuzzing of the parser of a plan: whatever the bytes are, it returns or throws a UserError.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "plan/json.h"

namespace {

void parse(std::string_view input) {
  tandem::plan::to_json(tandem::plan::parse_plan(input, "fuzz"));
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
