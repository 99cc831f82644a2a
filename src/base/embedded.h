// Files of this repository that are copied into the program when it is built
// (cmake/embed_files.cmake), so that the executable needs no data directory.
#pragma once

#include <string_view>

namespace tandem {

// `name` is the file's stem, "summit" for machines/summit.machine.
struct EmbeddedFile {
  std::string_view name, text;
};

}  // namespace tandem
