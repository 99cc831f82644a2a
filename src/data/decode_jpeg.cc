// JPEG, by libjpeg. It is C, and tells of errors by a jump: nothing that has a destructor may be
// made in between.
#include "data/picture.h"

#ifdef TANDEM_HAS_JPEG

#include <jpeglib.h>
// After jpeglib.h, which leaves it what it needs.
#include <jerror.h>

#include <array>
#include <csetjmp>
#include <cstdio>

namespace tandem::data {

namespace {

struct JpegErrors {
  jpeg_error_mgr callbacks;  // the first: libjpeg knows the address of this one
  std::jmp_buf to_caller;
  std::array<char, JMSG_LENGTH_MAX> message;
};

[[noreturn]] void end_decoding(j_common_ptr state) {
  auto* errors = reinterpret_cast<JpegErrors*>(state->err);
  errors->callbacks.format_message(state, errors->message.data());
  std::longjmp(errors->to_caller, 1);
}

// What libjpeg warns of and fills with gray, or noise, is an error here: data that are cut off, or
// are none. Bytes too many between two parts change nothing.
void judge_warning(j_common_ptr state, int level) {
  const bool harmless = state->err->msg_code == JWRN_EXTRANEOUS_DATA ||
                        state->err->msg_code == JWRN_ADOBE_XFORM ||
                        state->err->msg_code == JWRN_JFIF_MAJOR;
  if (level < 0 && !harmless) end_decoding(state);
}

// In inks rather than colors, as Adobe has it: 255 is no ink.
void to_colors(const std::uint8_t* inks, std::uint8_t* colors, std::int64_t width, bool inverted) {
  for (std::int64_t x = 0; x < width; ++x, inks += 4, colors += 3) {
    const auto light = [&](int i) { return inverted ? inks[i] : 255 - inks[i]; };
    for (int c = 0; c < 3; ++c) {
      colors[c] = static_cast<std::uint8_t>((light(c) * light(3) + 127) / 255);
    }
  }
}

// Its two parts end where libjpeg jumps to; memory is taken in between.
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

  // False where it failed: then `why` says so.
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

  // `row` is of four numbers a pixel.
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

  [[nodiscard]] std::string why() const { return errors_.message.data(); }

 private:
  std::string_view bytes_;
  jpeg_decompress_struct state_{};
  JpegErrors errors_{};
};

}  // namespace

Picture decode_jpeg(std::string_view bytes, const std::string& path) {
  JpegReader reader(bytes);
  if (!reader.read_header()) fail_to_decode(path, reader.why());
  auto out = blank(reader.height(), reader.width(), path);
  out.colors.resize(static_cast<std::size_t>(3 * out.height * out.width));
  std::vector<std::uint8_t> row(static_cast<std::size_t>(4 * out.width));
  if (!reader.read_pixels(out.colors.data(), row.data())) fail_to_decode(path, reader.why());
  return out;
}

}  // namespace tandem::data

#else

#include "base/error.h"

namespace tandem::data {

Picture decode_jpeg(std::string_view /*bytes*/, const std::string& path) {
  throw UserError("data", path, "is a JPEG, and this program was built without libjpeg",
                  "install libjpeg-dev and build again");
}

}  // namespace tandem::data

#endif
