// A directory with NAME.npy for every input, as numpy.save writes them. The first dimension counts
// samples.
#include <fmt/format.h>

#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/text.h"
#include "data/samples.h"

namespace tandem::data {

namespace {

template <class T>
double load_element(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return static_cast<double>(value);
}

struct NumpyType {
  std::int64_t bytes = 0;
  double (*read)(const char*) = nullptr;
};

const std::map<std::string_view, NumpyType>& element_types() {
  static const auto* const kAll = new std::map<std::string_view, NumpyType>{
      {"<f4", {4, load_element<float>}},        {"<f8", {8, load_element<double>}},
      {"|i1", {1, load_element<std::int8_t>}},  {"|u1", {1, load_element<std::uint8_t>}},
      {"<i2", {2, load_element<std::int16_t>}}, {"<u2", {2, load_element<std::uint16_t>}},
      {"<i4", {4, load_element<std::int32_t>}}, {"<u4", {4, load_element<std::uint32_t>}},
      {"<i8", {8, load_element<std::int64_t>}}, {"<u8", {8, load_element<std::uint64_t>}},
      {"|b1", {1, load_element<std::uint8_t>}},
  };
  return *kAll;
}

class Array {
 public:
  Array(const std::string& path, const graph::Node& input) : path_(path), file_(path) {
    read_header();
    inner_ = sample_shape(input).count();
    if (per_sample_ != inner_) {
      throw UserError("data", path,
                      fmt::format("has {} elements per sample, but input %{} takes {}", per_sample_,
                                  input.name, inner_));
    }
    const auto has = static_cast<std::int64_t>(file_.bytes().size() - begin_) / type_.bytes;
    if (count_ < 1 || has / count_ < inner_) {
      throw UserError("data", path,
                      count_ < 1
                          ? "has no samples"
                          : fmt::format("is truncated: it holds {} elements instead of {} x {}",
                                        has, count_, inner_));
    }
  }

  [[nodiscard]] std::int64_t count() const { return count_; }
  [[nodiscard]] const std::string& path() const { return path_; }

  void read(const graph::Node& input, std::int64_t sample, std::int64_t first,
            std::span<double> to) const {
    file_.check_not_truncated();
    const auto* at = file_.bytes().data() + begin_ + (sample * inner_ + first) * type_.bytes;
    for (auto& value : to) {
      value = type_.read(at);
      check_below(input, value, path_, sample);
      at += type_.bytes;
    }
  }

 private:
  [[noreturn]] void fail(const std::string& message) const {
    throw UserError("data", path_, message, "write a C-contiguous array with numpy.save");
  }

  // Parses the header of the file: "\x93NUMPY", two bytes of version, the length of a dictionary in
  // 2 or 4 bytes, and the dictionary. In Python it is {'descr': '<f4', 'fortran_order': False,
  // 'shape': (60, 3), }.
  void read_header() {
    constexpr std::string_view kMagic = "\x93NUMPY";
    const auto bytes = file_.bytes();
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
    if (bytes.size() < 12 || !bytes.starts_with(kMagic)) fail("is not a .npy file");
    std::size_t length = byte(8) | std::size_t{byte(9)} << 8U;
    begin_ = 10;
    if (byte(6) > 1) {
      length |= std::size_t{byte(10)} << 16U | std::size_t{byte(11)} << 24U;
      begin_ = 12;
    }
    if (length > bytes.size() - begin_) fail("has a truncated header");
    const auto header = bytes.substr(begin_, length);
    begin_ += length;
    const auto descr = find_between(header, "'descr':", ",");
    const auto type = descr.size() > 2 ? element_types().find(descr.substr(1, descr.size() - 2))
                                       : element_types().end();
    if (type == element_types().end())
      fail(fmt::format("has the unsupported element type {}", descr));
    type_ = type->second;
    if (find_between(header, "'fortran_order':", ",") != "False")
      fail("is stored in Fortran order, which is not supported");
    const auto shape = find_between(header, "'shape': (", ")");
    bool is_first = true;
    for (auto size : split(shape, ',')) {
      if (size.empty()) continue;
      const auto value = parse_int(size);
      const auto so_far = is_first ? std::int64_t{1} : per_sample_;
      if (!value || *value < 0 || (*value > 0 && so_far > kMost / *value)) {
        fail(fmt::format("has the invalid shape ({})", shape));
      }
      (is_first ? count_ : per_sample_) = so_far * *value;
      is_first = false;
    }
  }

  std::string_view find_between(std::string_view header, std::string_view begin,
                                std::string_view end) const {
    const auto at = header.find(begin);
    if (at == std::string_view::npos) fail(fmt::format("has no {} in its header", begin));
    const auto from = header.substr(at + begin.size());
    return trim(from.substr(0, from.find(end)));
  }

  static constexpr std::int64_t kMost = std::int64_t{1} << 48U;

  std::string path_;
  MappedFile file_;
  std::size_t begin_ = 0;  // Offset of the elements
  NumpyType type_;
  std::int64_t count_ = 0;
  std::int64_t per_sample_ = 1;
  std::int64_t inner_ = 1;
};

// Returns the files that the model needs: "image.npy, target.npy".
std::string list_needed_files(const graph::Graph& model) {
  std::vector<std::string> out;
  for (auto id : list_inputs(model)) out.push_back(model.node(id).name + ".npy");
  return join(out, ", ");
}

class Arrays : public Samples {
 public:
  Arrays(const std::string& directory, const graph::Graph& model) {
    std::optional<std::string> first;
    for (auto id : list_inputs(model)) {
      const auto& input = model.node(id);
      const auto path = fmt::format("{}/{}.npy", directory, input.name);
      std::error_code ignored;
      if (!std::filesystem::exists(path, ignored)) {
        throw UserError("data", directory, fmt::format("has no file {}.npy", input.name),
                        fmt::format("write one file per input with numpy.save: {}; or use a "
                                    "directory of images with one subdirectory per class",
                                    list_needed_files(model)));
      }
      const auto& array = arrays_.try_emplace(input.name, path, input).first->second;
      if (first && array.count() != count_) {
        throw UserError(
            "data", path,
            fmt::format("has {} samples, but {} has {}", array.count(), *first, count_));
      }
      if (!first) first = path;
      count_ = array.count();
    }
  }

  [[nodiscard]] std::string kind() const override { return "arrays"; }
  [[nodiscard]] std::int64_t count() const override { return count_; }

  void read(const graph::Node& input, std::int64_t sample, std::int64_t first,
            std::span<double> to) const override {
    arrays_.at(input.name).read(input, sample, first, to);
  }

 private:
  std::map<std::string, Array, std::less<>> arrays_;
  std::int64_t count_ = 0;
};

}  // namespace

std::unique_ptr<const Samples> open_arrays(const std::string& directory,
                                           const graph::Graph& model) {
  return std::make_unique<Arrays>(directory, model);
}

}  // namespace tandem::data
