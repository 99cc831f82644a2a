#include "import/external_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/text.h"

namespace tandem::import {

namespace {

// Returns whether `path` is in the directory of the model. The model names the file, so others must
// not be read.
bool is_inside(const std::filesystem::path& path) {
  return !path.empty() && path.is_relative() &&
         std::ranges::none_of(path, [](const auto& part) { return part == ".."; });
}

}  // namespace

Contents read_external(const Tensor& tensor, const std::string& directory) {
  const auto place = read_location(tensor);
  const auto fail = [&](std::string_view why) {
    throw UserError("onnx", "",
                    fmt::format("tensor '{}' is stored in the file '{}', which {}", tensor.name,
                                place.file, why));
  };
  const std::filesystem::path name(place.file);
  if (!is_utf8(place.file) || place.file.find('\0') != std::string_view::npos || !is_inside(name)) {
    fail("is not in the directory of the model");
  }
  const auto path = std::filesystem::path(directory) / name;
  const auto bytes = count_bytes(tensor);
  std::error_code problem;
  if (!std::filesystem::is_regular_file(path, problem)) fail("does not exist");
  const auto size = static_cast<std::int64_t>(std::filesystem::file_size(path, problem));
  if (problem) fail("cannot be read");
  if (place.offset > size || bytes > size - place.offset || place.length.value_or(bytes) != bytes) {
    fail("does not have the length that the tensor requires");
  }
  std::string raw(static_cast<std::size_t>(bytes), '\0');
  std::ifstream in(path, std::ios::binary);
  in.seekg(place.offset);
  in.read(raw.data(), bytes);
  if (in.gcount() != bytes) fail("cannot be read");
  return read_contents(tensor, raw);
}

}  // namespace tandem::import
