// A model by its name, or from a file that describes one.
#include <filesystem>

#include "base/error.h"
#include "cli/command.h"
#ifdef TANDEM_HAVE_IMPORT
#include "import/config.h"
#endif

namespace tandem::cli {

namespace {

// "dir/config.json:layers=4": the file, and what follows it.
struct FileModel {
  std::string path;
  std::string overrides;
};

std::optional<FileModel> file_in(const std::string& text) {
  if (std::filesystem::is_regular_file(text)) return FileModel{text, ""};
  const auto colon = text.rfind(':');
  if (colon == std::string::npos) return std::nullopt;
  const auto path = text.substr(0, colon);
  if (!std::filesystem::is_regular_file(path)) return std::nullopt;
  return FileModel{path, text.substr(colon + 1)};
}

}  // namespace

models::Model load_model(const std::string& text) {
  const auto file = file_in(text);
  if (!file) return models::parse_model(text);
  const auto content = read_file(file->path);
#ifdef TANDEM_HAVE_IMPORT
  if (import::is_config(content)) {
    return models::make_model(import::read_config(content, file->path), text, file->overrides);
  }
#endif
  throw UserError("model", file->path, "is not a file that describes a model",
                  "a network's config.json, or the name of a built-in network");
}

}  // namespace tandem::cli
