// PNG, by libpng: all pixel types. Transparency is ignored.
#include "data/image.h"

#ifdef TANDEM_HAS_PNG

#include <png.h>

namespace tandem::data {

namespace {

class PngReader {
 public:
  PngReader() { image_.version = PNG_IMAGE_VERSION; }
  ~PngReader() { png_image_free(&image_); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  // Returns false if it failed; `error_message` then returns the reason.
  bool read_header(std::string_view bytes) {
    if (png_image_begin_read_from_memory(&image_, bytes.data(), bytes.size()) == 0) return false;
    image_.format = PNG_FORMAT_RGBA;
    image_.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;
    return true;
  }

  [[nodiscard]] std::int64_t height() const { return image_.height; }
  [[nodiscard]] std::int64_t width() const { return image_.width; }

  // Writes four numbers per pixel.
  bool read_pixels(std::uint8_t* to) {
    return png_image_finish_read(&image_, nullptr, to, 0, nullptr) != 0;
  }

  [[nodiscard]] std::string error_message() const { return image_.message; }

 private:
  png_image image_{};
};

}  // namespace

RgbImage decode_png(std::string_view bytes, const std::string& path) {
  PngReader reader;
  if (!reader.read_header(bytes)) fail_to_decode(path, reader.error_message());
  auto out = make_blank(reader.height(), reader.width(), path);
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(4 * out.height * out.width));
  if (!reader.read_pixels(pixels.data())) fail_to_decode(path, reader.error_message());
  // libpng reads no further than it needs, so a truncated end must be detected here.
  constexpr std::string_view kEnd("IEND\xae\x42\x60\x82", 8);
  if (bytes.rfind(kEnd) == std::string_view::npos)
    fail_to_decode(path, "the end of the file is missing");
  out.colors.reserve(pixels.size() / 4 * 3);
  for (std::size_t i = 0; i < pixels.size(); i += 4) {
    out.colors.insert(out.colors.end(), &pixels[i], &pixels[i] + 3);
  }
  return out;
}

}  // namespace tandem::data

#else

#include "base/error.h"

namespace tandem::data {

RgbImage decode_png(std::string_view /*bytes*/, const std::string& path) {
  throw UserError("data", path, "is a PNG image, but this program was built without libpng",
                  "install libpng-dev and rebuild");
}

}  // namespace tandem::data

#endif
