// Reads the contents of tensors that a model stores in files next to its own (ONNX external data).
#pragma once

#include <string>

#include "import/records.h"

namespace tandem::import {

// Returns the contents of `tensor` from its file in `directory`. Throws UserError if the
// file is not in `directory`, cannot be read or is too short.
Contents read_external(const Tensor& tensor, const std::string& directory);

}  // namespace tandem::import
