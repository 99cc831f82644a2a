#include "base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numeric>

namespace tandem {

std::string_view trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const auto first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  if (trim(text).empty()) return parts;
  while (true) {
    const auto at = text.find(separator);
    parts.push_back(trim(text.substr(0, at)));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

std::vector<std::string_view> split_words(std::string_view text) {
  std::vector<std::string_view> out;
  constexpr std::string_view kSpace = " \t\r\n";
  while (true) {
    const auto first = text.find_first_not_of(kSpace);
    if (first == std::string_view::npos) return out;
    text.remove_prefix(first);
    const auto length = std::min(text.find_first_of(kSpace), text.size());
    out.push_back(text.substr(0, length));
    text.remove_prefix(length);
  }
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  return fmt::format("{}", fmt::join(parts, separator));
}

namespace {
template <class T>
std::optional<T> parse_number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::size_t compute_edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t substitute = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({substitute, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

std::string format_with_prefix(double value, double base, std::string_view unit) {
  constexpr std::array<std::string_view, 6> kPrefix = {"", "k", "M", "G", "T", "P"};
  std::size_t step = 0;
  // 999.5 would print as 1e+03 with three digits, so move up just below the boundary.
  while (std::abs(value) >= base * 0.9995 && step + 1 < kPrefix.size()) {
    value /= base;
    ++step;
  }
  return fmt::format("{:.3g}{}{}{}", value, unit.empty() ? "" : " ", kPrefix[step], unit);
}
}  // namespace

std::optional<std::int64_t> parse_int(std::string_view text) {
  return parse_number<std::int64_t>(text);
}

std::optional<double> parse_double(std::string_view text) {
  const auto value = parse_number<double>(text);
  if (value && !std::isfinite(*value)) return std::nullopt;
  return value;
}

std::string find_nearest(std::string_view word, const std::vector<std::string>& candidates) {
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(2, word.size() / 3) + 1;
  for (const auto& candidate : candidates) {
    const auto distance = compute_edit_distance(word, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

bool is_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const std::size_t length = lead < 0x80   ? 1
                               : lead < 0xc2 ? 0
                               : lead < 0xe0 ? 2
                               : lead < 0xf0 ? 3
                               : lead < 0xf5 ? 4
                                             : 0;
    if (length == 0 || i + length > text.size()) return false;
    for (std::size_t k = 1; k < length; ++k) {
      if ((static_cast<unsigned char>(text[i + k]) & 0xc0U) != 0x80U) return false;
    }
    if (length > 2) {
      // The sequence is overlong, a surrogate, or above the largest code point.
      const auto second = static_cast<unsigned char>(text[i + 1]);
      if ((lead == 0xe0 && second < 0xa0) || (lead == 0xed && second >= 0xa0) ||
          (lead == 0xf0 && second < 0x90) || (lead == 0xf4 && second >= 0x90)) {
        return false;
      }
    }
    i += length;
  }
  return true;
}

std::string format_si(double value) { return format_with_prefix(value, 1000, ""); }

std::string format_count(double count) {
  auto out = format_si(count);
  if (out.ends_with('G')) out.back() = 'B';
  if (out.ends_with('k')) out.back() = 'K';
  return out;
}

std::string format_seconds(double seconds) {
  if (seconds == 0) return "0 s";
  if (seconds < 0.9995e-3) return fmt::format("{:.3g} us", seconds * 1e6);
  if (seconds < 0.9995) return fmt::format("{:.3g} ms", seconds * 1e3);
  return fmt::format("{:.3g} s", seconds);
}

std::string format_bytes(double bytes) { return format_with_prefix(bytes, 1000, "B"); }

std::string format_flops(double flops) { return format_with_prefix(flops, 1000, "FLOP"); }

std::optional<double> parse_bytes(std::string_view text) {
  struct ByteUnit {
    std::string_view name;
    double bytes;
  };
  constexpr std::array<ByteUnit, 9> kUnits = {{{"kiB", 0x1p10},
                                               {"MiB", 0x1p20},
                                               {"GiB", 0x1p30},
                                               {"TiB", 0x1p40},
                                               {"kB", 1e3},
                                               {"MB", 1e6},
                                               {"GB", 1e9},
                                               {"TB", 1e12},
                                               {"B", 1}}};
  text = trim(text);
  double scale = 1;
  for (const auto& unit : kUnits) {
    if (!text.ends_with(unit.name)) continue;
    text = trim(text.substr(0, text.size() - unit.name.size()));
    scale = unit.bytes;
    break;
  }
  const auto value = parse_double(text);
  if (!value || *value <= 0 || *value * scale > 1e18) return std::nullopt;
  return *value * scale;
}

}  // namespace tandem
