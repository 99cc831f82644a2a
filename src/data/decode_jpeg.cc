// JPEG, by libjpeg. It is a C library and reports errors by longjmp, so no object with a destructor
// may be created in between.
#include "data/image.h"

#ifdef TANDEM_HAS_JPEG

#include <jpeglib.h>
// jerror.h needs jpeglib.h first.
#include <jerror.h>

#include <array>
#include <csetjmp>
#include <cstdio>

namespace tandem::data {

namespace {

struct JpegErrors {
  jpeg_error_mgr callbacks;  // First member: libjpeg has a pointer to it
  std::jmp_buf to_caller;
  std::array<char, JMSG_LENGTH_MAX> message;
};

[[noreturn]] void end_decoding(j_common_ptr state) {
  auto* errors = reinterpret_cast<JpegErrors*>(state->err);
  errors->callbacks.format_message(state, errors->message.data());
  std::longjmp(errors->to_caller, 1);
}

// Turns warnings into errors if libjpeg has filled missing or damaged data with gray or noise.
// Extra bytes between two parts are harmless.
void judge_warning(j_common_ptr state, int level) {
  const bool harmless = state->err->msg_code == JWRN_EXTRANEOUS_DATA ||
                        state->err->msg_code == JWRN_ADOBE_XFORM ||
                        state->err->msg_code == JWRN_JFIF_MAJOR;
  if (level < 0 && !harmless) end_decoding(state);
}

// Converts inks to colors. Adobe inverts inks: 255 is no ink.
void to_colors(const std::uint8_t* inks, std::uint8_t* colors, std::int64_t width, bool inverted) {
  for (std::int64_t x = 0; x < width; ++x, inks += 4, colors += 3) {
    const auto light = [&](int i) { return inverted ? inks[i] : 255 - inks[i]; };
    for (int c = 0; c < 3; ++c) {
      colors[c] = static_cast<std::uint8_t>((light(c) * light(3) + 127) / 255);
    }
  }
}

// longjmp returns into read_header or read_pixels; memory is allocated between the two.
class JpegReader {
 public:
  explicit JpegReader(std::string_view bytes) : bytes_(bytes) {
    state_.err = jpeg_std_error(&errors_.callbacks);
    errors_.callbacks.error_exit = end_decoding;
    errors_.callbacks.emit_message = judge_warning;
  }
  ~JpegReader() { jpeg_destroy_decompress(&state_); }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  // Returns false if it failed; `error_message` then returns the reason.
  bool read_header() {
    if (setjmp(errors_.to_caller) != 0) return false;  // NOLINT: what libjpeg asks for
    jpeg_create_decompress(&state_);
    jpeg_mem_src(&state_, reinterpret_cast<const unsigned char*>(bytes_.data()), bytes_.size());
    jpeg_read_header(&state_, TRUE);
    const bool inks = state_.jpeg_color_space == JCS_CMYK || state_.jpeg_color_space == JCS_YCCK;
    state_.out_color_space = inks ? JCS_CMYK : JCS_RGB;
    return true;
  }

  [[nodiscard]] std::int64_t height() const { return state_.image_height; }
  [[nodiscard]] std::int64_t width() const { return state_.image_width; }

  // Decodes all rows to `to`. `row` has room for four numbers per pixel.
  bool read_pixels(std::uint8_t* to, std::uint8_t* row) {
    if (setjmp(errors_.to_caller) != 0) return false;  // NOLINT: what libjpeg asks for
    jpeg_start_decompress(&state_);
    const bool inks = state_.out_color_space == JCS_CMYK;
    while (state_.output_scanline < state_.output_height) {
      auto* place = inks ? row : to + 3 * width() * state_.output_scanline;
      auto* colors = to + 3 * width() * state_.output_scanline;
      jpeg_read_scanlines(&state_, &place, 1);
      if (inks) to_colors(row, colors, width(), state_.saw_Adobe_marker != 0);
    }
    jpeg_finish_decompress(&state_);
    return true;
  }

  [[nodiscard]] std::string error_message() const { return errors_.message.data(); }

 private:
  std::string_view bytes_;
  jpeg_decompress_struct state_{};
  JpegErrors errors_{};
};

}  // namespace

RgbImage decode_jpeg(std::string_view bytes, const std::string& path) {
  JpegReader reader(bytes);
  if (!reader.read_header()) fail_to_decode(path, reader.error_message());
  auto out = make_blank(reader.height(), reader.width(), path);
  out.colors.resize(static_cast<std::size_t>(3 * out.height * out.width));
  std::vector<std::uint8_t> row(static_cast<std::size_t>(4 * out.width));
  if (!reader.read_pixels(out.colors.data(), row.data()))
    fail_to_decode(path, reader.error_message());
  return out;
}

}  // namespace tandem::data

#else

#include "base/error.h"

namespace tandem::data {

RgbImage decode_jpeg(std::string_view /*bytes*/, const std::string& path) {
  throw UserError("data", path, "is a JPEG image, but this program was built without libjpeg",
                  "install libjpeg-dev and rebuild");
}

}  // namespace tandem::data

#endif
