// Support for tests that need a GPU.
#pragma once

#include <optional>
#include <string>

#include "base/error.h"
#include "runtime/device.h"

namespace tandem::runtime {

// Returns nullopt if there is a GPU.
inline std::optional<std::string> why_no_gpu() {
  try {
    count_visible_devices("cuda");
    return std::nullopt;
  } catch (const UserError& e) {
    return e.message;
  }
}

}  // namespace tandem::runtime
