// Contents of tensors that a model keeps in files beside its own.
#pragma once

#include <string>

#include "import/records.h"

namespace tandem::import {

// Throws UserError where the file is not in `folder`, cannot be read or is too short.
Contents read_external(const Tensor& tensor, const std::string& folder);

}  // namespace tandem::import
