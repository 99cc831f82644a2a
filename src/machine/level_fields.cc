#include "machine/level_fields.h"

#include <fmt/format.h>

#include <algorithm>

#include "machine/device_text.h"

namespace tandem::machine {

namespace {

const NumberField<Level> kLevelNumbers[] = {
    {"bandwidth", kRate, true, false, [](Level& l) -> double& { return l.bandwidth.value; }},
    {"latency", kTime, true, true, [](Level& l) -> double& { return l.latency.value; }},
};

// Takes the trailing keywords off a bandwidth: "25 GB/s shared half by_device" -> "25 GB/s".
void take_bandwidth_keywords(Level& level, Words& rest) {
  const auto take = [&rest](std::string_view word) {
    const bool there = !rest.empty() && rest.back() == word;
    if (there) rest = rest.first(rest.size() - 1);
    return there;
  };
  level.by_device = take("by_device");
  level.half_duplex = take("half");
  level.shared = take("shared");
}

}  // namespace

void LevelFields::read(const Place& place, const std::string& owner, std::string_view name,
                       Words rest, Level& level) {
  const auto field = std::ranges::find(kLevelNumbers, name, &NumberField<Level>::name);
  const bool is_word = name == "trees";
  if (field == std::end(kLevelNumbers) && !is_word) {
    std::vector<std::string> known;
    for (const auto& f : kLevelNumbers) known.emplace_back(f.name);
    for (const auto* other : {"trees", "utilization", "topology", "group"}) {
      known.emplace_back(other);
    }
    place.fail(fmt::format("{}: unknown field '{}'", owner, to_printable(name)),
               make_suggestion(name, known));
  }
  if (!seen_.emplace(name).second) place.fail(fmt::format("{}: '{}' is given twice", owner, name));
  if (is_word) {
    level.trees = read_word(place, name, rest, kNoYes) == 1;
    return;
  }
  if (name == "bandwidth") take_bandwidth_keywords(level, rest);
  field->at(level) = read_number(place, name, rest, field->kind, field->may_be_zero);
}

void LevelFields::check(const Place& place, const std::string& owner) const {
  for (const auto& field : kLevelNumbers) {
    if (seen_.contains(field.name)) continue;
    place.fail(fmt::format("{}: field '{}' is missing", owner, field.name),
               fmt::format("expected {}", field.kind.form));
  }
}

}  // namespace tandem::machine
