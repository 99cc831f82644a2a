// Conversion of a tensor to another element type.
#include "ops/attributes.h"
#include "ops/index_text.h"
#include "ops/registry.h"

namespace tandem::ops {

const OpSpec kCast = define_op<Cast>({
    .name = "cast",
    .doc = "out = x as real numbers of the type `to`",
    .index = "... -> ...",
    .kernel = "cast",
    .onnx = {"Cast"},
    .index_text = [](const Cast& a, std::span<const Shape>) -> std::string {
      if (is_integer(a.to)) {
        reject(fmt::format("to is {} and must be a real type", name(a.to)),
               "indices come from inputs and constants");
      }
      return "... -> ...";
    },
    .meaning = [](const auto&, std::span<const Shape>) { return term::input(0); },
    .dtype = [](const Cast& a) { return a.to; },
});

}  // namespace tandem::ops
