#include "data/image.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/check.h"
#include "base/error.h"

namespace tandem::data {

namespace {

constexpr std::size_t kColors = 3;

// Weights of the pixels of a line that make up one element.
struct Weights {
  std::int64_t first = 0;
  std::vector<float> of;
};

// Returns the weights of `count` elements, which are `scale` pixels apart around the middle of
// `size` pixels.
std::vector<Weights> compute_weights(std::int64_t size, std::int64_t count, double scale) {
  std::vector<Weights> out(static_cast<std::size_t>(count));
  const double reach = std::max(scale, 1.0);
  const double begin = (static_cast<double>(size) - static_cast<double>(count) * scale) / 2;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const double center = begin + (static_cast<double>(i) + 0.5) * scale;
    const auto pixel = [&](double at) {
      return std::clamp<std::int64_t>(static_cast<std::int64_t>(std::floor(at)), 0, size - 1);
    };
    auto& weights = out[i];
    weights.first = pixel(center - reach);
    double sum = 0;
    for (auto p = weights.first; p <= pixel(center + reach); ++p) {
      const double away = std::abs(static_cast<double>(p) + 0.5 - center) / reach;
      weights.of.push_back(static_cast<float>(std::max(0.0, 1 - away)));
      sum += weights.of.back();
    }
    for (auto& w : weights.of) w = static_cast<float>(w / sum);
  }
  return out;
}

// Returns rows `first` to `last` of the image, scaled horizontally to one pixel per entry of
// `columns`.
std::vector<float> scale_horizontally(const RgbImage& image, const std::vector<Weights>& columns,
                                      std::int64_t first, std::int64_t last) {
  std::vector<float> out;
  out.reserve(static_cast<std::size_t>(last - first + 1) * columns.size() * kColors);
  for (auto y = first; y <= last; ++y) {
    const auto* row = image.colors.data() + y * image.width * std::int64_t{kColors};
    for (const auto& column : columns) {
      std::array<float, kColors> sum{};
      const auto* pixel = row + column.first * std::int64_t{kColors};
      for (const auto weight : column.of) {
        for (auto& s : sum) s += weight * static_cast<float>(*pixel++);
      }
      out.insert(out.end(), sum.begin(), sum.end());
    }
  }
  return out;
}

// Returns the perceived brightness of a color.
float compute_brightness(const std::array<float, kColors>& color) {
  return 0.299F * color[0] + 0.587F * color[1] + 0.114F * color[2];
}

}  // namespace

void fail_to_decode(const std::string& path, const std::string& why) {
  throw UserError("data", path, fmt::format("cannot be decoded: {}", why),
                  "the file may be truncated: copy it again, or remove it from the directory");
}

RgbImage make_blank(std::int64_t height, std::int64_t width, const std::string& path) {
  constexpr std::int64_t kMostPixels = std::int64_t{1} << 28U;
  if (height < 1 || width < 1 || height > kMostPixels / width) {
    fail_to_decode(path, fmt::format("the header gives {} x {} pixels", width, height));
  }
  return {height, width, {}};
}

RgbImage decode(std::string_view bytes, const std::string& path) {
  if (bytes.starts_with("\xff\xd8")) return decode_jpeg(bytes, path);
  if (bytes.starts_with("\x89PNG")) return decode_png(bytes, path);
  if (bytes.starts_with("P5") || bytes.starts_with("P6")) return decode_portable(bytes, path);
  if (bytes.empty()) fail_to_decode(path, "the file is empty");
  fail_to_decode(path, "the file is not a JPEG, PNG, P5 or P6 image");
}

std::vector<float> resize_and_crop(const RgbImage& image, std::int64_t channels,
                                   std::int64_t height, std::int64_t width) {
  CHECK(channels == 1 || channels == std::int64_t{kColors}, channels);
  const double scale = std::min(static_cast<double>(image.height) / static_cast<double>(height),
                                static_cast<double>(image.width) / static_cast<double>(width));
  const auto rows = compute_weights(image.height, height, scale);
  const auto first = rows.front().first;
  const auto last = rows.back().first + static_cast<std::int64_t>(rows.back().of.size()) - 1;
  const auto narrow =
      scale_horizontally(image, compute_weights(image.width, width, scale), first, last);
  const auto length = static_cast<std::size_t>(width) * kColors;
  const auto pixels = static_cast<std::size_t>(height * width);
  std::vector<float> out(static_cast<std::size_t>(channels) * pixels);
  std::size_t at = 0;
  for (const auto& row : rows) {
    const auto* above = narrow.data() + static_cast<std::size_t>(row.first - first) * length;
    for (std::size_t x = 0; x < length; x += kColors, ++at) {
      std::array<float, kColors> sum{};
      for (std::size_t y = 0; y < row.of.size(); ++y) {
        for (std::size_t c = 0; c < kColors; ++c) sum[c] += row.of[y] * above[y * length + x + c];
      }
      if (channels == 1) {
        out[at] = compute_brightness(sum);
        continue;
      }
      for (std::size_t c = 0; c < kColors; ++c) out[c * pixels + at] = sum[c];
    }
  }
  return out;
}

void normalize(std::span<float> elements, std::int64_t channels) {
  constexpr std::array<float, kColors> kMean = {0.485F, 0.456F, 0.406F};
  constexpr std::array<float, kColors> kDeviation = {0.229F, 0.224F, 0.225F};
  const auto of_channel = elements.size() / static_cast<std::size_t>(channels);
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const auto c = i / of_channel;
    const auto mean = channels == 1 ? 0.5F : kMean[c];
    const auto deviation = channels == 1 ? 0.5F : kDeviation[c];
    elements[i] = (elements[i] / 255 - mean) / deviation;
  }
}

}  // namespace tandem::data
