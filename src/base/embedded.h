// Files of this repository that the build copies into the program (cmake/embed_files.cmake), so
// that the executable needs no data directory.
#pragma once

#include <string_view>

namespace tandem {

// An embedded file. `name` is the file's stem, "summit" for machines/summit.machine.
struct EmbeddedFile {
  std::string_view name, text;
};

}  // namespace tandem
