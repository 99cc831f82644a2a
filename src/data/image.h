// Images as they are in files, and as networks get them. libjpeg and libpng decode JPEG and PNG if
// the build has found them. Portable pixmaps are decoded here.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::data {

// Red, green and blue of every pixel, row by row.
struct RgbImage {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::vector<std::uint8_t> colors;
};

// Decodes an image of any kind that the bytes show. Throws UserError, which names `path`.
RgbImage decode(std::string_view bytes, const std::string& path);

// Each kind has its own source file.
RgbImage decode_jpeg(std::string_view bytes, const std::string& path);
RgbImage decode_png(std::string_view bytes, const std::string& path);
// Decodes P5 (gray) and P6 (colors), with one or two bytes per number.
RgbImage decode_portable(std::string_view bytes, const std::string& path);

// Returns an image of this size without colors. Throws UserError if it is too large.
RgbImage make_blank(std::int64_t height, std::int64_t width, const std::string& path);
[[noreturn]] void fail_to_decode(const std::string& path, const std::string& why);

// Returns the image as [channels, height, width]: scaled until it covers this size, and cropped to
// its middle. Each element is a weighted mean of the pixels around it. Weights fall linearly with
// distance, to zero at the next pixel, or at the next element if that is farther. With one channel,
// elements are the brightness.
std::vector<float> resize_and_crop(const RgbImage& image, std::int64_t channels,
                                   std::int64_t height, std::int64_t width);

// Normalizes colors from 0 to 255 by ImageNet's mean and standard deviation. With one channel, the
// result is from -1 to 1.
void normalize(std::span<float> elements, std::int64_t channels);

}  // namespace tandem::data
