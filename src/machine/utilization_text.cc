#include "machine/utilization_text.h"

#include <fmt/format.h>

#include "base/text.h"

namespace tandem::machine {

namespace {

// Removes and returns the collective that the line begins with; returns nullopt if there is none.
std::optional<Step> take_collective(const Place& place, Words& rest) {
  if (rest.size() < 2 || parse_double(rest[0])) return std::nullopt;
  const auto step = parse_collective(rest[0]);
  if (!step) {
    place.fail(fmt::format("{}: unknown collective '{}'", format_field("utilization", rest),
                           to_printable(rest[0])),
               "expected all_reduce, all_gather, reduce_scatter, all_to_all, send, ...");
  }
  rest = rest.subspan(1);
  return step;
}

}  // namespace

Utilization UtilizationText::Lines::make_utilization() const {
  return constant ? Utilization(*constant) : Utilization(points);
}

void UtilizationText::read(const Place& place, const std::string& owner, Words rest) {
  const auto whole = format_field("utilization", rest);
  auto& lines = lines_[take_collective(place, rest)];
  const bool sized = rest.size() > 1 && rest[1] == "at";
  const auto part =
      read_number(place, "utilization", sized ? rest.first(1) : rest, kFraction, false);
  if (lines.constant || (!sized && !lines.points.empty())) {
    place.fail(fmt::format("{}: {}: 'utilization' is given twice", owner, whole),
               "write one line for all sizes, or lines that all end like 'at 64 KiB'");
  }
  if (!sized) {
    lines.constant = part;
    return;
  }
  const Utilization::Point next{
      Bytes{read_number(place, "utilization at", rest.subspan(2), kAmount, false)}, part};
  if (!lines.points.empty()) {
    const auto& last = lines.points.back();
    if (next.size <= last.size) {
      place.fail(fmt::format("{}: sizes must increase from line to line", whole));
    }
    if (!Utilization::may_follow(last, next)) {
      place.fail(fmt::format("{}: {} would take less time than {}", whole,
                             format_bytes(next.size.value), format_bytes(last.size.value)),
                 fmt::format("the smaller size reaches {:.3g}", last.part));
    }
  }
  lines.points.push_back(next);
}

void UtilizationText::store(Level& level) const {
  for (const auto& [step, lines] : lines_) {
    (step ? level.utilization_of_step[*step] : level.utilization) = lines.make_utilization();
  }
}

}  // namespace tandem::machine
