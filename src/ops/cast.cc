// Conversion of a tensor to another element type.
#include "ops/attributes.h"
#include "ops/index_text.h"
#include "ops/registry.h"

namespace tandem::ops {

const OpSpec kCast = define_op<Cast>({
    .name = "cast",
    .doc = "out = x converted to the real type `to`",
    .index = "... -> ...",
    .kernel = "cast",
    .onnx = {"Cast"},
    .index_text = [](const Cast& a, std::span<const Shape>) -> std::string {
      if (is_integer(a.to)) {
        reject(fmt::format("to is {}, but must be a real type", name(a.to)),
               "only inputs and constants produce indices");
      }
      return "... -> ...";
    },
    .meaning = [](const auto&, std::span<const Shape>) { return term::input(0); },
    .dtype = [](const Cast& a) { return a.to; },
});

}  // namespace tandem::ops
