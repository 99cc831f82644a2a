#include "machine/software_text.h"

#include <fmt/format.h>

#include <algorithm>

namespace tandem::machine {

namespace {

// A line that is parsed again when the profile is applied. The file's text outlives it.
struct ProfileLine {
  Place place;
  std::string owner;
  std::string_view name;
  std::vector<std::string_view> rest;
};

}  // namespace

void SoftwareText::set_doc(const Place& place, std::string doc) {
  if (!doc_.empty()) place.fail(fmt::format("{}: 'doc' is given twice", owner_));
  doc_ = std::move(doc);
}

void SoftwareText::read(const Place& place, std::string_view keyword, Words rest,
                        const std::vector<Level>& levels) {
  if (keyword == "level") return read_level(place, rest, levels);
  Device scratch;
  device_.read(place, keyword, rest, scratch);
  changes_.push_back(
      [line = ProfileLine{place, owner_, keyword, {rest.begin(), rest.end()}}](Device& d) {
        DeviceText(line.owner).read(line.place, line.name, line.rest, d);
      });
}

// Reads a line like "level gpu utilization 0.7".
void SoftwareText::read_level(const Place& place, Words rest, const std::vector<Level>& levels) {
  const auto whole = format_field("level", rest);
  if (rest.size() < 3) {
    place.fail(fmt::format("{}: {}: expected a level, a field and its value", owner_, whole),
               "write it like 'level gpu utilization 0.7'");
  }
  if (std::ranges::find(levels, rest[0], &Level::name) == levels.end()) {
    std::vector<std::string> names;
    names.reserve(levels.size());
    for (const auto& level : levels) names.push_back(level.name);
    place.fail(fmt::format("{}: {}: the machine has no such level above this line", owner_, whole),
               make_suggestion(rest[0], names));
  }
  auto& level = levels_[std::string(rest[0])];
  const auto owner = fmt::format("{}: level {}", owner_, rest[0]);
  if (rest[1] == "utilization") return level.utilization.read(place, owner, rest.subspan(2));
  Level scratch;
  level.fields.read(place, owner, rest[1], rest.subspan(2), scratch);
  const auto value = rest.subspan(2);
  level.changes.push_back(
      [line = ProfileLine{place, owner, rest[1], {value.begin(), value.end()}}](Level& l) {
        LevelFields().read(line.place, line.owner, line.name, line.rest, l);
      });
}

void SoftwareText::apply(Device& device) const {
  for (const auto& change : changes_) change(device);
}

void SoftwareText::apply(std::vector<Level>& levels) const {
  for (auto& level : levels) {
    const auto at = levels_.find(level.name);
    if (at == levels_.end()) continue;
    for (const auto& change : at->second.changes) change(level);
    at->second.utilization.store(level);
  }
}

}  // namespace tandem::machine
