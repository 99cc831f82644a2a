// Shared by the fuzz targets. For any bytes, a parser must return or throw a UserError.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"

namespace tandem::fuzz {

// Defined by each target: parses `input`, and aborts if the result does not survive a round trip.
void parse(std::string_view input);

}  // namespace tandem::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    tandem::fuzz::parse(std::string_view(reinterpret_cast<const char*>(data), size));
  } catch (const tandem::UserError&) {
    // The target reported the error to the user.
  }
  return 0;
}
