// The shipped rules: rules/*.rules and rules/proofs, copied into the program when it is built
// (cmake/embed_files.cmake).
#pragma once

#include <span>
#include <string_view>

namespace tandem::rewrite {

// One embedded file; `name` is the file's stem, "algebra" for rules/algebra.rules.
struct EmbeddedFile {
  std::string_view name, text;
};

// All rules, sorted by the files' names; not the properties of operators.
std::span<const EmbeddedFile> embedded_rules();
// One file: rules/proofs.
std::span<const EmbeddedFile> embedded_proofs();

}  // namespace tandem::rewrite
