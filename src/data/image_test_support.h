// Writes image files byte by byte, without the libraries that read them.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace tandem::data {

using Bytes8 = std::vector<std::uint8_t>;

inline std::string portable(const std::string& header, const Bytes8& numbers) {
  return header + std::string(numbers.begin(), numbers.end());
}

inline std::string big_endian(std::uint32_t value, int bytes) {
  std::string out;
  for (int b = bytes; b-- > 0;) out += static_cast<char>(value >> (8 * b) & 0xffU);
  return out;
}

// --- PNG ----------------------------------------------------------------------------------------

inline std::uint32_t compute_crc(const std::string& bytes) {
  std::uint32_t crc = 0xffffffffU;
  for (const char c : bytes) {
    crc ^= static_cast<std::uint8_t>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1U ^ ((crc & 1U) != 0 ? 0xedb88320U : 0);
  }
  return ~crc;
}

inline std::string png_chunk(const std::string& kind, const std::string& data) {
  return big_endian(static_cast<std::uint32_t>(data.size()), 4) + kind + data +
         big_endian(compute_crc(kind + data), 4);
}

// Returns a PNG file. `rows` has each row's filter, followed by its bytes. `type` is 0 for gray, 2
// for colors, 3 for a palette, and 6 for colors with alpha.
inline std::string png(std::uint32_t width, std::uint32_t height, int type, int depth,
                       const std::string& rows, const std::string& palette = "") {
  std::uint32_t a = 1;
  std::uint32_t b = 0;
  for (const char c : rows) {
    a = (a + static_cast<std::uint8_t>(c)) % 65521;
    b = (b + a) % 65521;
  }
  const auto size = static_cast<std::uint32_t>(rows.size());
  std::string stored = "\x78\x01\x01";  // One block that is not compressed
  for (const auto n : {size, ~size}) {
    stored += static_cast<char>(n & 0xffU);
    stored += static_cast<char>(n >> 8U & 0xffU);
  }
  stored += rows + big_endian(b << 16U | a, 4);
  return std::string("\x89PNG\r\n\x1a\n", 8) +
         png_chunk("IHDR", big_endian(width, 4) + big_endian(height, 4) + static_cast<char>(depth) +
                               static_cast<char>(type) + std::string(3, '\0')) +
         (palette.empty() ? "" : png_chunk("PLTE", palette)) + png_chunk("IDAT", stored) +
         png_chunk("IEND", "");
}

// --- JPEG ---------------------------------------------------------------------------------------

// Writes a JPEG of 8 x 8 blocks. Each block has one shade (one component), or one brightness and
// two color differences (three components). `blocks` lists them block by block, component by
// component.
class JpegWriter {
 public:
  JpegWriter(std::uint32_t width, std::uint32_t height, int components, const Bytes8& blocks) {
    const auto marker = [](int kind, const std::string& data) {
      return std::string("\xff") + static_cast<char>(kind) +
             big_endian(static_cast<std::uint32_t>(data.size() + 2), 2) + data;
    };
    out_ = "\xff\xd8" + marker(0xdb, std::string(1, '\0') + std::string(64, '\x08'));
    std::string frame = "\x08" + big_endian(height, 2) + big_endian(width, 2);
    std::string scan(1, static_cast<char>(components));
    frame += static_cast<char>(components);
    for (int c = 1; c <= components; ++c) {
      frame += std::string{static_cast<char>(c), '\x11', '\0'};
      scan += std::string{static_cast<char>(c), '\0'};
    }
    out_ += marker(0xc0, frame);
    // The first table has nine lengths of differences, each with a code of four bits. The second
    // has one code, for a block whose other coefficients are 0.
    std::string lengths(16, '\0');
    lengths[3] = 9;
    out_ += marker(0xc4, std::string(1, '\0') + lengths + std::string("\0\1\2\3\4\5\6\7\x08", 9));
    lengths.assign(16, '\0');
    lengths[0] = 1;
    out_ += marker(0xc4, "\x10" + lengths + std::string(1, '\0'));
    out_ += marker(0xda, scan + std::string("\0\x3f\0", 3));
    std::array<int, 3> before{};
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const auto c = i % static_cast<std::size_t>(components);
      write_block(blocks[i] - 128 - before[c]);
      before[c] = blocks[i] - 128;
    }
    while (used_ != 0) write(1, 1);
    out_ += "\xff\xd9";
  }

  [[nodiscard]] const std::string& bytes() const { return out_; }

 private:
  void write_block(int difference) {
    int length = 0;
    while (difference >= (1 << length) || -difference >= (1 << length)) ++length;
    write(length, 4);
    write(difference < 0 ? difference + (1 << length) - 1 : difference, length);
    write(0, 1);
  }

  void write(int value, int bits) {
    while (bits-- > 0) {
      byte_ = byte_ << 1U | (static_cast<unsigned>(value) >> bits & 1U);
      if (++used_ < 8) continue;
      out_ += static_cast<char>(byte_);
      if (byte_ == 0xff) out_ += '\0';
      used_ = 0;
      byte_ = 0;
    }
  }

  std::string out_;
  unsigned byte_ = 0;
  int used_ = 0;
};

}  // namespace tandem::data
