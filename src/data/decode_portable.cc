// Portable pixmaps: "P6", then width, height and the largest number as text, and one space. The
// numbers of every pixel follow, the high byte first. In a P5 file a pixel is one number. Comments
// go from # to the end of a line.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "data/image.h"

namespace tandem::data {

namespace {

class PortableHeader {
 public:
  explicit PortableHeader(std::string_view bytes) : bytes_(bytes) {}

  // Returns the next number, or nullopt if there is none or it has more than six digits.
  std::optional<std::int64_t> read_number() {
    skip_spaces();
    std::int64_t out = 0;
    int digits = 0;
    for (; at_ < bytes_.size() && bytes_[at_] >= '0' && bytes_[at_] <= '9'; ++at_, ++digits) {
      out = 10 * out + (bytes_[at_] - '0');
      if (digits == 6) return std::nullopt;
    }
    return digits == 0 ? std::nullopt : std::optional(out);
  }

  // Returns what follows the one space after the header.
  [[nodiscard]] std::string_view rest() const {
    return at_ < bytes_.size() && is_space(bytes_[at_]) ? bytes_.substr(at_ + 1)
                                                        : std::string_view();
  }

 private:
  static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

  void skip_spaces() {
    for (; at_ < bytes_.size(); ++at_) {
      if (bytes_[at_] == '#') at_ = std::min(bytes_.find('\n', at_), bytes_.size() - 1);
      if (!is_space(bytes_[at_])) return;
    }
  }

  std::string_view bytes_;
  std::size_t at_ = 2;  // Behind "P6"
};

}  // namespace

RgbImage decode_portable(std::string_view bytes, const std::string& path) {
  PortableHeader header(bytes);
  const auto width = header.read_number();
  const auto height = header.read_number();
  const auto most = header.read_number();
  if (!width || !height || !most || *most < 1 || *most > 65535) {
    fail_to_decode(path, "the header does not hold a width, a height and a maximum value");
  }
  auto out = make_blank(*height, *width, path);
  const std::size_t colors = bytes[1] == '6' ? 3 : 1;
  const std::size_t size = *most > 255 ? 2 : 1;
  const auto count = static_cast<std::size_t>(*height * *width) * colors;
  const auto numbers = header.rest();
  if (numbers.size() / size < count) {
    fail_to_decode(path, fmt::format("the file holds {} bytes for {} x {} pixels", numbers.size(),
                                     *width, *height));
  }
  const auto byte = [&](std::size_t i) {
    return std::uint32_t{static_cast<std::uint8_t>(numbers[i])};
  };
  const auto largest = static_cast<std::uint32_t>(*most);
  for (std::size_t i = 0; i < count; ++i) {
    const auto value = size == 2 ? byte(2 * i) << 8U | byte(2 * i + 1) : byte(i);
    const auto shade = (std::min(value, largest) * 255 + largest / 2) / largest;
    out.colors.insert(out.colors.end(), 3 / colors, static_cast<std::uint8_t>(shade));
  }
  return out;
}

}  // namespace tandem::data
