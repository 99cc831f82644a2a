// Small text functions shared by every parser and printer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

std::string_view trim(std::string_view text);

// Splits text and trims the pieces: split("a, b,c", ',') = {"a", "b", "c"}. Empty text has no
// pieces.
std::vector<std::string_view> split(std::string_view text, char separator);

// Splits text at white space: words("  a b ") = {"a", "b"}.
std::vector<std::string_view> split_words(std::string_view text);

std::string join(const std::vector<std::string>& parts, std::string_view separator);

// Parse a number that must be the whole text: "12" is valid; "12x" and "" are not, nor is "1e3" as
// an integer.
std::optional<std::int64_t> parse_int(std::string_view text);
std::optional<double> parse_double(std::string_view text);

// Returns the candidate nearest in spelling, for "did you mean", or "" if none is near.
std::string find_nearest(std::string_view word, const std::vector<std::string>& candidates);

// Returns whether the text is well-formed UTF-8.
bool is_utf8(std::string_view text);

// Returns three significant digits with an SI prefix: 1234567 -> "1.23M".
std::string format_si(double value);
// Returns a number of parameters or tokens in the units of model names: 175e9 -> "175B".
std::string format_count(double count);
// Return "1.23 ms", "45.6 us"; "12.3 GB" (decimal, as vendors count).
std::string format_seconds(double seconds);
std::string format_bytes(double bytes);
std::string format_flops(double flops);  // "2.15 GFLOP"
// Parses a positive amount in decimal or binary units: "16GB", "1.5 GiB", "16e9".
std::optional<double> parse_bytes(std::string_view text);

}  // namespace tandem
