// Fuzzing of the parser of an ONNX file.
#include "import/onnx.h"
#include "target.h"

void tandem::fuzz::parse(std::string_view input) {
  import::OnnxOptions options;
  options.append_loss = !input.empty() && (input.back() & 1) != 0;
  options.batch = options.append_loss ? 2 : 0;
  import::import_onnx(input, "fuzz", options);
}
