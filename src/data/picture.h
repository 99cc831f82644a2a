// Pictures as their files have them, and as networks are given them. JPEG and PNG are decoded by
// libjpeg and libpng where the build has found these, portable pixmaps here.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::data {

// Red, green and blue of every pixel, row by row.
struct Picture {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::vector<std::uint8_t> colors;
};

// Whatever kind the bytes say they are. Throws UserError, which names `path`.
Picture decode(std::string_view bytes, const std::string& path);

// Each kind in its file.
Picture decode_jpeg(std::string_view bytes, const std::string& path);
Picture decode_png(std::string_view bytes, const std::string& path);
// P5 and P6, with one or two bytes a number: gray and colors.
Picture decode_portable(std::string_view bytes, const std::string& path);

// A picture of this size, without its colors yet; throws UserError where it is too large.
Picture blank(std::int64_t height, std::int64_t width, const std::string& path);
[[noreturn]] void fail_to_decode(const std::string& path, const std::string& why);

// As [channels, height, width]: scaled until it covers these, the middle of it cut out. Each
// element is a mean of the pixels around its place, which weigh less the farther away they are: up
// to the next pixel, or as far as the scale has them apart. Of one channel it is the brightness.
std::vector<float> fitted(const Picture& picture, std::int64_t channels, std::int64_t height,
                          std::int64_t width);

// Colors from 0 to 255, less the mean and by the deviation of ImageNet's; of one channel from -1 to
// 1.
void normalize(std::span<float> elements, std::int64_t channels);

}  // namespace tandem::data
