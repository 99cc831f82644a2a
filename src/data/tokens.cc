// A text as little-endian tokens. Sample s is the tokens from s * length on; its targets are the
// same tokens shifted by one.
#include <fmt/format.h>

#include "base/error.h"
#include "base/mapped_file.h"
#include "data/samples.h"

namespace tandem::data {

namespace {

class Tokens : public Samples {
 public:
  Tokens(const std::string& path, int bytes, std::int64_t length)
      : path_(path), file_(path), bytes_(bytes), length_(length) {
    const auto size = static_cast<std::int64_t>(file_.bytes().size());
    if (size % bytes_ != 0) {
      throw UserError("data", path,
                      fmt::format("has {} bytes, which is not a multiple of {} bytes per token; "
                                  "the file may be truncated",
                                  size, bytes_));
    }
    count_ = (size / bytes_ - 1) / length_;
    if (count_ < 1) {
      throw UserError(
          "data", path,
          fmt::format("has {} tokens, but one sample needs {}", size / bytes_, length_ + 1));
    }
  }

  [[nodiscard]] std::string kind() const override { return "tokens"; }
  [[nodiscard]] std::int64_t count() const override { return count_; }

  void read(const graph::Node& input, std::int64_t sample, std::int64_t first,
            std::span<double> to) const override {
    file_.check_not_truncated();
    auto at = sample * length_ + first + (input.name == "target" ? 1 : 0);
    for (auto& token : to) {
      token = static_cast<double>(token_at(at++));
      check_below(input, token, path_, sample);
    }
  }

 private:
  [[nodiscard]] std::uint32_t token_at(std::int64_t place) const {
    std::uint32_t out = 0;
    for (int b = bytes_; b-- > 0;) {
      out = out << 8U |
            static_cast<unsigned char>(file_.bytes()[static_cast<std::size_t>(place * bytes_ + b)]);
    }
    return out;
  }

  std::string path_;
  MappedFile file_;
  std::int64_t bytes_;
  std::int64_t length_;
  std::int64_t count_ = 0;
};

}  // namespace

std::unique_ptr<const Samples> open_tokens(const std::string& path, int bytes,
                                           const graph::Graph& model) {
  std::int64_t length = 0;
  for (auto id : list_inputs(model)) {
    const auto& input = model.node(id);
    const auto shape = sample_shape(input);
    const bool is_known = input.name == "tokens" || input.name == "target";
    if (!is_known || shape.rank() != 1 || (length != 0 && shape[0] != length)) {
      throw UserError(
          "data", path,
          fmt::format("holds tokens, which do not fit input %{} of {}", input.name, model.name()),
          "use a directory with one .npy file per input");
    }
    length = shape[0];
  }
  return std::make_unique<Tokens>(path, bytes, length);
}

}  // namespace tandem::data
