// Criteo's click logs: one sample per line, with 40 fields separated by tabs. They are the label
// (clicked or not), 13 counts, and 26 hexadecimal categories. A field may be empty. Counts become
// log(1 + count), as in DLRM. A category is taken modulo the rows of its table.
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/text.h"
#include "data/samples.h"
#include "ops/sources.h"

namespace tandem::data {

namespace {

constexpr std::size_t kCounts = 13;
constexpr std::size_t kCategories = 26;
constexpr std::size_t kFields = 1 + kCounts + kCategories;
constexpr std::string_view kIndex = "index";

// First field of an input, and number of its fields; 0 if the logs have no such input.
struct CriteoFields {
  std::size_t first = 0;
  std::int64_t count = 0;
};
CriteoFields find_fields(const graph::Node& input) {
  if (input.name == "target") return {0, 1};
  if (input.name == "dense") return {1, kCounts};
  if (!input.name.starts_with(kIndex)) return {};
  const auto number = parse_int(std::string_view(input.name).substr(kIndex.size()));
  if (!number || *number < 0 || *number >= static_cast<std::int64_t>(kCategories)) return {};
  return {1 + kCounts + static_cast<std::size_t>(*number), 1};
}

class Criteo : public Samples {
 public:
  explicit Criteo(const std::string& path) : path_(path), file_(path) {
    const auto bytes = file_.bytes();
    for (std::size_t at = 0; at < bytes.size(); ++count_) {
      if (count_ % kStride == 0) begins_.push_back(at);
      at = std::min(bytes.find('\n', at), bytes.size() - 1) + 1;
    }
    if (count_ == 0) throw UserError("data", path, "has no lines");
  }

  [[nodiscard]] std::string kind() const override { return "click logs"; }
  [[nodiscard]] std::int64_t count() const override { return count_; }

  void read(const graph::Node& input, std::int64_t sample, std::int64_t first,
            std::span<double> to) const override {
    file_.check_not_truncated();
    const auto fields = split_fields(sample);
    auto field = find_fields(input).first + static_cast<std::size_t>(first);
    for (auto& value : to) value = parse_number(input, fields[field++], sample);
  }

 private:
  [[noreturn]] void fail(std::int64_t sample, const std::string& message) const {
    throw UserError(
        "data", fmt::format("{}:{}", path_, sample + 1), message,
        "expected a label 0 or 1, 13 integers and 26 hexadecimal numbers, separated by tabs");
  }

  [[nodiscard]] std::array<std::string_view, kFields> split_fields(std::int64_t sample) const {
    const auto bytes = file_.bytes();
    auto at = begins_[static_cast<std::size_t>(sample / kStride)];
    for (auto i = sample % kStride; i > 0; --i) at = bytes.find('\n', at) + 1;
    auto line = bytes.substr(at, bytes.find('\n', at) - at);
    if (line.ends_with('\r')) line.remove_suffix(1);
    std::array<std::string_view, kFields> out;
    for (std::size_t i = 0; i < kFields; ++i) {
      const auto end = line.find('\t');
      if ((end == std::string_view::npos) != (i + 1 == kFields)) {
        fail(sample, fmt::format("does not have {} tab-separated fields", kFields));
      }
      out[i] = line.substr(0, end);
      line.remove_prefix(std::min(line.size(), out[i].size() + 1));
    }
    return out;
  }

  [[nodiscard]] double parse_number(const graph::Node& input, std::string_view field,
                                    std::int64_t sample) const {
    const bool is_category = input.name.starts_with(kIndex);
    std::int64_t value = 0;
    const auto* const end = field.data() + field.size();
    const auto read = std::from_chars(field.data(), end, value, is_category ? 16 : 10);
    if (!field.empty() && (read.ec != std::errc() || read.ptr != end)) {
      fail(sample, fmt::format("'{}' is not a number", field));
    }
    if (input.name == "target") return static_cast<double>(value);
    if (!is_category) return std::log1p(static_cast<double>(std::max<std::int64_t>(value, 0)));
    const auto rows = static_cast<std::uint64_t>(input.op.get<ops::Input>().below);
    return static_cast<double>(rows == 0 ? value : static_cast<std::uint64_t>(value) % rows);
  }

  static constexpr std::int64_t kStride = 16;  // Every kStride-th line's offset is stored

  std::string path_;
  MappedFile file_;
  std::vector<std::size_t> begins_;
  std::int64_t count_ = 0;
};

}  // namespace

std::unique_ptr<const Samples> open_criteo(const std::string& path, const graph::Graph& model) {
  for (auto id : list_inputs(model)) {
    const auto& input = model.node(id);
    if (find_fields(input).count == sample_shape(input).count()) continue;
    throw UserError("data", path,
                    fmt::format("holds Criteo click logs (13 counts and 26 categories), which do "
                                "not fit input %{} of {} with {} elements per sample",
                                input.name, model.name(), sample_shape(input).count()),
                    "use a directory with one .npy file per input");
  }
  return std::make_unique<Criteo>(path);
}

}  // namespace tandem::data
