// The built-in machine files: every machines/*.machine, copied into the program when it is built
// (cmake/embed_files.cmake), so that the executable needs no data directory.
#pragma once

#include <span>
#include <string_view>

namespace tandem::machine {

// One embedded file; `name` is the file's stem, "summit" for machines/summit.machine.
struct EmbeddedFile {
  std::string_view name, text;
};

// All of them, sorted by name.
std::span<const EmbeddedFile> embedded_machines();

}  // namespace tandem::machine
