// The properties that proofs rest on: rules/properties/*.rules, copied into the program when it is
// built (cmake/embed_files.cmake).
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "rewrite/rule.h"

namespace tandem::verify {

struct EmbeddedFile {
  std::string_view name, text;
};
std::span<const EmbeddedFile> embedded_properties();

// All of them; of `<=>` each way is one. Parsed once.
const std::vector<rewrite::Rule>& all_properties();

}  // namespace tandem::verify
