#include "machine/number.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace tandem::machine {

namespace {

constexpr Unit kByteUnits[] = {{"B", 1},           {"KB", 1e3},          {"MB", 1e6},
                               {"GB", 1e9},        {"TB", 1e12},         {"KiB", 1024.0},
                               {"MiB", 1048576.0}, {"GiB", 1073741824.0}};
constexpr Unit kRateUnits[] = {
    {"MB/s", 1e6}, {"GB/s", 1e9}, {"TB/s", 1e12}, {"MiB/s", 1048576.0}, {"GiB/s", 1073741824.0}};
constexpr Unit kPeakUnits[] = {{"GFLOP/s", 1e9}, {"TFLOP/s", 1e12}, {"PFLOP/s", 1e15}};
constexpr Unit kTimeUnits[] = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}};

}  // namespace

constexpr NumberKind kAmount = {"an amount like '16 GB'", kByteUnits};
constexpr NumberKind kRate = {"a rate like '25 GB/s'", kRateUnits};
constexpr NumberKind kPeak = {"an element type and a rate like 'fp32 15.7 TFLOP/s'", kPeakUnits};
constexpr NumberKind kTime = {"a time like '5 us'", kTimeUnits};
constexpr NumberKind kFraction = {"a fraction like '0.8'", {}, true};
constexpr NumberKind kNumber = {"a number like '108'", {}};

void Place::fail(std::string message, std::string hint) const {
  throw UserError("machine", line == 0 ? source : fmt::format("{}:{}", source, line),
                  std::move(message), std::move(hint));
}

std::string to_printable(std::string_view text) {
  constexpr std::size_t kMost = 60;
  std::string out;
  for (const char c : text.substr(0, kMost)) out += c >= ' ' && c <= '~' ? c : '?';
  return text.size() > kMost ? out + "..." : out;
}

std::string format_words(Words line) {
  std::string out;
  for (const auto word : line) out += (out.empty() ? "" : " ") + std::string(word);
  return to_printable(out);
}

std::string format_field(std::string_view field, Words rest) {
  return rest.empty() ? std::string(field) : fmt::format("{} {}", field, format_words(rest));
}

std::string make_suggestion(std::string_view word, const std::vector<std::string>& candidates) {
  const auto near = find_nearest(word, candidates);
  if (!near.empty()) return fmt::format("did you mean '{}'?", near);
  return "expected one of: " + join(candidates, ", ");
}

bool is_name(std::string_view text) {
  constexpr std::string_view kAllowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.+";
  return !text.empty() && text.find_first_not_of(kAllowed) == std::string_view::npos;
}

std::string format_number(double value, const NumberKind& kind) {
  if (kind.units.data() == kTimeUnits) return format_seconds(value);
  if (kind.units.data() == kByteUnits) return format_bytes(value);
  return fmt::format("{:.3g}", value);
}

double read_number(const Place& place, std::string_view field, Words rest, const NumberKind& kind,
                   bool may_be_zero) {
  const bool bare = kind.units.empty();
  const auto value = parse_double(rest.empty() ? "" : rest[0]);
  const auto unit =
      rest.size() == 2 ? std::ranges::find(kind.units, rest[1], &Unit::name) : kind.units.end();
  if (!value || (bare ? rest.size() != 1 : unit == kind.units.end())) {
    std::vector<std::string_view> names;
    for (const auto& u : kind.units) names.push_back(u.name);
    place.fail(fmt::format("{}: expected {}", format_field(field, rest), kind.form),
               bare ? "expected a number without a unit"
                    : fmt::format("units: {}", fmt::join(names, ", ")));
  }
  const double scaled = value.value_or(0) * (bare ? 1 : unit->factor);
  if (scaled < 0 || (scaled == 0 && !may_be_zero)) {
    place.fail(fmt::format("{}: must be {}", format_field(field, rest),
                           may_be_zero ? "0 or more" : "greater than 0"));
  }
  if (kind.is_fraction && scaled > 1) {
    place.fail(fmt::format("{}: must not be greater than 1", format_field(field, rest)),
               "expected the fraction of the rated value that is reached in practice, like '0.8'");
  }
  // Squares of accepted numbers stay finite, so no later formula meets an infinity.
  if (scaled > 1e150 || (scaled != 0 && scaled < 1e-50)) {
    place.fail(fmt::format("{}: out of range", format_field(field, rest)));
  }
  return scaled;
}

}  // namespace tandem::machine
