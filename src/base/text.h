// Small text functions shared by every parser and printer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

std::string_view trim(std::string_view text);

// split("a, b,c", ',') = {"a", "b", "c"}: pieces are trimmed, empty text has no pieces.
std::vector<std::string_view> split(std::string_view text, char separator);

// words("  a b ") = {"a", "b"}.
std::vector<std::string_view> words(std::string_view text);

std::string join(const std::vector<std::string>& parts, std::string_view separator);

// Whole text or nothing: "12" yes; "12x", "", "1e3" no.
std::optional<std::int64_t> parse_int(std::string_view text);
std::optional<double> parse_double(std::string_view text);

// The candidate nearest in spelling, for "did you mean"; empty when nothing is near.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

// Is it well-formed UTF-8?
bool is_utf8(std::string_view text);

// Three significant digits with an SI prefix: 1234567 -> "1.23M".
std::string si(double value);
// "1.23 ms", "45.6 us"; "12.3 GB" (decimal, as vendors count).
std::string seconds_text(double seconds);
std::string bytes_text(double bytes);
std::string flops_text(double flops);  // "2.15 GFLOP"
// "16GB", "1.5 GiB", "16e9": a positive amount, decimal or binary units.
std::optional<double> parse_bytes(std::string_view text);

}  // namespace tandem
