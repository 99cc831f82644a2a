// Fuzzing of the parser of an ONNX file: whatever the bytes are, it returns or throws a UserError.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "import/onnx.h"

namespace {

void parse(std::string_view input) {
  tandem::import::OnnxOptions options;
  options.append_loss = !input.empty() && (input.back() & 1) != 0;
  options.batch = options.append_loss ? 2 : 0;
  tandem::import::import_onnx(input, "fuzz", options);
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
