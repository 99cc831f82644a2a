// A directory with one subdirectory of images per class, like torchvision's ImageFolder. Classes
// are numbered in order of their names. The images of a class are sorted by path, and include those
// in deeper subdirectories.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "data/image.h"
#include "data/read_ahead.h"
#include "data/samples.h"
#include "ops/sources.h"

namespace tandem::data {

namespace {

namespace fs = std::filesystem;

enum class FileKind : std::uint8_t { kImage, kUnsupportedImage, kNotImage };

// Returns the kind of a file by its extension. Other files, such as a list of names, may be among
// the images.
FileKind get_file_kind(const fs::path& path) {
  static const std::set<std::string, std::less<>> kRead = {".jpg", ".jpeg", ".png", ".ppm", ".pgm"};
  static const std::set<std::string, std::less<>> kOther = {".bmp",  ".gif",  ".tif",
                                                            ".tiff", ".webp", ".heic"};
  auto ending = path.extension().string();
  std::ranges::transform(ending, ending.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (kRead.contains(ending)) return FileKind::kImage;
  return kOther.contains(ending) ? FileKind::kUnsupportedImage : FileKind::kNotImage;
}

std::vector<std::string> list_class_names(const std::string& directory) {
  std::vector<std::string> out;
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (entry.is_directory()) out.push_back(entry.path().filename().string());
  }
  std::ranges::sort(out);
  return out;
}

std::vector<std::string> list_images(const std::string& directory) {
  std::vector<std::string> out;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    const auto kind = get_file_kind(entry.path());
    if (kind == FileKind::kUnsupportedImage) {
      throw UserError("data", entry.path().string(), "is an image in an unsupported format",
                      "supported formats: JPEG, PNG, PPM and PGM");
    }
    // A broken link becomes an error when it is read.
    const bool is_file = entry.is_regular_file() || !entry.exists();
    if (kind == FileKind::kImage && is_file) out.push_back(entry.path().string());
  }
  std::ranges::sort(out);
  return out;
}

std::string read_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string out{std::istreambuf_iterator<char>(in), {}};
  if (!in.is_open() || in.bad()) throw UserError("file", path, "cannot be read");
  return out;
}

// The inputs that such a directory can feed: pixels and the number of a class.
struct ImageInputs {
  std::string image;
  Shape shape;  // Channels, height and width of an image
  std::string target;
  std::int64_t classes = 0;
};

ImageInputs find_image_inputs(const std::string& directory, const graph::Graph& model) {
  ImageInputs out;
  for (auto id : list_inputs(model)) {
    const auto& input = model.node(id);
    const auto shape = sample_shape(input);
    const auto below = input.op.get<ops::Input>().below;
    const bool is_image = shape.rank() == 3 && (shape[0] == 1 || shape[0] == 3) && below == 0;
    const bool is_target = input.name == "target" && shape.rank() == 0 && below > 0;
    if ((is_image && !out.image.empty()) || (!is_image && !is_target)) {
      throw UserError(
          "data", directory,
          fmt::format("holds images in class directories, which do not fit input %{} of {}",
                      input.name, model.name()),
          "use a directory with one .npy file per input");
    }
    if (is_image) {
      out.image = input.name;
      out.shape = shape;
    } else {
      out.target = input.name;
      out.classes = below;
    }
  }
  return out;
}

class ImageDirectory : public Samples {
 public:
  ImageDirectory(const std::string& directory, const graph::Graph& model)
      : inputs_(find_image_inputs(directory, model)),
        decoded_([this](auto s) { return decode_sample(s); }) {
    const auto classes = list_class_names(directory);
    if (inputs_.classes > 0 && static_cast<std::int64_t>(classes.size()) > inputs_.classes) {
      throw UserError("data", directory,
                      fmt::format("has {} classes, but {} distinguishes only {}", classes.size(),
                                  model.name(), inputs_.classes),
                      "use a network with more classes");
    }
    for (const auto& name : classes) {
      const auto path = fmt::format("{}/{}", directory, name);
      auto own = list_images(path);
      if (own.empty()) {
        throw UserError("data", path, "has no images, but each subdirectory must be a class",
                        "add JPEG, PNG, PPM or PGM images, or remove the directory");
      }
      std::ranges::move(own, std::back_inserter(images_));
      ends_.push_back(count());
    }
  }

  [[nodiscard]] std::string kind() const override { return "pictures"; }
  [[nodiscard]] std::int64_t count() const override {
    return static_cast<std::int64_t>(images_.size());
  }

  void read(const graph::Node& input, std::int64_t sample, std::int64_t first,
            std::span<double> to) const override {
    if (input.name == inputs_.target) {
      to[0] = static_cast<double>(std::ranges::upper_bound(ends_, sample) - ends_.begin());
      return;
    }
    const auto elements = decoded_.get(sample);
    std::copy_n(elements->begin() + first, to.size(), to.begin());
  }

  [[nodiscard]] bool takes_long(const graph::Node& input) const override {
    return input.name == inputs_.image;
  }
  void prefetch(std::span<const std::int64_t> samples) const override {
    decoded_.prefetch(samples);
  }

 private:
  [[nodiscard]] std::vector<float> decode_sample(std::int64_t sample) const {
    const auto& path = images_[static_cast<std::size_t>(sample)];
    const auto& shape = inputs_.shape;
    auto out = resize_and_crop(decode(read_bytes(path), path), shape[0], shape[1], shape[2]);
    normalize(out, shape[0]);
    return out;
  }

  ImageInputs inputs_;
  std::vector<std::string> images_;  // Paths, class by class
  std::vector<std::int64_t> ends_;   // End of each class's images
  mutable ReadAhead decoded_;        // Last, because its thread reads the others
};

}  // namespace

bool has_subdirectories(const std::string& directory) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(directory, ignored)) {
    if (entry.is_directory(ignored)) return true;
  }
  return false;
}

std::unique_ptr<const Samples> open_images(const std::string& directory,
                                           const graph::Graph& model) {
  try {
    return std::make_unique<ImageDirectory>(directory, model);
  } catch (const fs::filesystem_error& e) {
    throw UserError("file", e.path1().string(),
                    fmt::format("cannot be read: {}", e.code().message()));
  }
}

}  // namespace tandem::data
