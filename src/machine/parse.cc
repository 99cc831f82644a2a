#include "machine/parse.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "base/check.h"
#include "base/text.h"
#include "machine/device_text.h"
#include "machine/level_fields.h"
#include "machine/mapping.h"
#include "machine/number.h"
#include "machine/software_text.h"
#include "machine/topology_text.h"
#include "machine/utilization_text.h"

namespace tandem::machine {

namespace {

constexpr std::array<std::string_view, 7> kKeywords = {"machine", "usage",   "doc",     "device",
                                                       "level",   "mapping", "software"};

class Parser {
 public:
  Parser(std::string_view text, const std::string& source, std::int64_t size,
         const std::string& software)
      : text_(text), size_(size), wanted_(software), place_{source} {
    CHECK(size_ >= 0, size_);
    file_.source = source;
  }

  MachineFile run() {
    for (std::string_view rest = text_; !rest.empty();) {
      const auto end = rest.find('\n');
      ++place_.line;
      read_line(rest.substr(0, end));
      rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    }
    close_section();
    finish();
    return file_;
  }

  // Fails unless a size was given exactly if the text leaves a count open.
  void check_size() const {
    if (open_line_ == 0 && size_ != 0) {
      at(0).fail(fmt::format("machine '{}' takes no size, but was given {}", machine_.name, size_),
                 "only a machine with a level of count '?' takes a size");
    }
    if (open_line_ != 0 && size_ == 0) {
      at(open_line_)
          .fail(fmt::format("{} needs a size: {}", machine_.name, file_.usage),
                fmt::format("the count of level '{}' is '?'", file_.open_level));
    }
  }

 private:
  struct DeviceSection {
    Place place;
    DeviceText text;
    Device device;
  };
  struct LevelSection {
    Place place;
    LevelFields fields;
    TopologyText topology;
    UtilizationText utilization;
  };
  struct GroupText {
    Place place;
    std::string name, device;
    std::int64_t units;
  };
  struct MappingText {
    Place place;
    std::string name, text;
  };

  [[nodiscard]] Place at(std::size_t line) const { return {place_.source, line}; }
  [[noreturn]] void fail(std::string message, std::string hint = "") const {
    place_.fail(std::move(message), std::move(hint));
  }

  void read_line(std::string_view line) {
    const auto text = line.substr(0, line.find('#'));
    const auto all = split_words(text);
    if (all.empty()) return read_comment(line);
    const Words rest = Words(all).subspan(1);
    const auto keyword = all.front();
    if (std::ranges::find(kKeywords, keyword) == kKeywords.end()) {
      read_field(keyword, rest);
    } else if (keyword == "software") {
      open_software(rest);
    } else if (section_ == SectionKind::kSoftware && keyword == "level") {
      software_.back().read(place_, keyword, rest, machine_.levels);
    } else if (section_ == SectionKind::kSoftware && keyword == "doc") {
      software_.back().set_doc(place_, read_doc(text));
    } else if (keyword == "level") {
      open_level(rest);
    } else if (keyword == "device") {
      open_device(rest);
    } else if (keyword == "mapping") {
      read_mapping(trim(text).substr(keyword.size()));
    } else {
      if (!keywords_.emplace(keyword).second) fail(fmt::format("'{}' is given twice", keyword));
      if (keyword == "machine") machine_.name = read_name(keyword, rest);
      if (keyword == "usage") file_.usage = format_words(rest);
      if (keyword == "doc") file_.doc = read_doc(text);
    }
  }

  static std::string read_doc(std::string_view line) {
    return std::string(trim(trim(line).substr(std::string_view("doc").size())));
  }

  // Reads "# [KEY] title", the source of a number; comments of numbers name the key.
  void read_comment(std::string_view line) {
    const auto comment = trim(line.substr(std::min(line.find('#'), line.size())));
    const auto text = trim(comment.substr(std::min<std::size_t>(1, comment.size())));
    if (text.starts_with('[')) file_.sources.emplace_back(text);
  }

  std::string read_name(std::string_view keyword, Words rest) const {
    if (rest.size() != 1 || !is_name(rest[0])) {
      fail(fmt::format("{} '{}': expected a name", keyword, format_words(rest)),
           "a name is one word of letters, digits and _ - . +");
    }
    return std::string(rest[0]);
  }

  void open_device(Words rest) {
    close_section();
    const auto name = read_name("device", rest);
    for (const auto& other : devices_) {
      if (other.device.name == name) fail(fmt::format("device '{}' is given twice", name));
    }
    devices_.push_back({place_, DeviceText("device " + name), {}});
    devices_.back().device.name = name;
    section_ = SectionKind::kDevice;
  }

  void open_software(Words rest) {
    close_section();
    const auto name = read_name("software", rest);
    for (const auto& other : software_) {
      if (other.name() == name) fail(fmt::format("software profile '{}' is given twice", name));
    }
    software_.emplace_back(name);
    section_ = SectionKind::kSoftware;
  }

  void open_level(Words rest) {
    close_section();
    if (rest.size() != 2) {
      fail(fmt::format("level '{}': expected a name and a count", format_words(rest)),
           "write it like 'level gpu 4', or 'level node ?' if the size is given with the name");
    }
    Level level;
    level.name = read_name("level", rest.first(1));
    for (const auto& other : machine_.levels) {
      if (other.name == level.name) fail(fmt::format("level '{}' is given twice", level.name));
    }
    level.count = rest[1] == "?" ? read_open_count(level.name) : read_count(level.name, rest[1]);
    machine_.levels.push_back(level);
    levels_.push_back({place_, {}, {}, {}});
    section_ = SectionKind::kLevel;
  }

  std::int64_t read_open_count(const std::string& level) {
    if (open_line_ != 0) {
      fail(fmt::format("level '{}': a second count is '?'", level),
           "only one count can be given with the name");
    }
    open_line_ = place_.line;
    file_.open_level = level;
    return check_count(level, size_ == 0 ? 1 : size_);
  }

  std::int64_t read_count(const std::string& level, std::string_view text) const {
    const auto count = parse_int(text);
    if (!count) {
      fail(fmt::format("level '{}': count '{}' is not an integer", level, to_printable(text)),
           "use '?' if the size is given with the name");
    }
    return check_count(level, *count);
  }

  std::int64_t check_count(const std::string& level, std::int64_t count) const {
    if (count < 1) fail(fmt::format("level '{}': count {} is less than 1", level, count));
    if (count > kMaxDevices) {
      fail(fmt::format("level '{}': count {} is more than {}", level, count, kMaxDevices));
    }
    return count;
  }

  // Closes the section; fails if the device or level lacks a required field.
  void close_section() {
    if (section_ == SectionKind::kDevice) {
      const auto& [place, text, device] = devices_.back();
      text.check(place, device);
    } else if (section_ == SectionKind::kLevel) {
      auto& level = machine_.levels.back();
      levels_.back().fields.check(levels_.back().place, "level " + level.name);
      levels_.back().utilization.store(level);
    }
    section_ = SectionKind::kNone;
  }

  void read_field(std::string_view name, Words rest) {
    switch (section_) {
      case SectionKind::kNone:
        fail(fmt::format("'{}' is outside of a device or level", to_printable(name)),
             make_suggestion(name, {kKeywords.begin(), kKeywords.end()}));
      case SectionKind::kDevice:
        return devices_.back().text.read(place_, name, rest, devices_.back().device);
      case SectionKind::kSoftware:
        return software_.back().read(place_, name, rest, machine_.levels);
      case SectionKind::kLevel:
        return read_level_field(name, rest);
    }
  }

  void read_level_field(std::string_view name, Words rest) {
    auto& level = machine_.levels.back();
    auto& section = levels_.back();
    const auto owner = "level " + level.name;
    if (TopologyText::is_keyword(name)) return section.topology.read(place_, name, rest);
    if (name == "utilization") return section.utilization.read(place_, owner, rest);
    if (name == "group") return read_group(rest);
    section.fields.read(place_, owner, name, rest, level);
  }

  void read_group(Words rest) {
    const auto text = format_field("group", rest);
    const auto units = rest.size() == 3 ? parse_int(rest[2]) : std::nullopt;
    if (!units || *units < 1 || *units > kMaxDevices || !is_name(rest[0]) || !is_name(rest[1])) {
      fail(fmt::format("{}: expected a name, a device and a number of units", text),
           "write it like 'group old V100 4'");
    }
    if (machine_.levels.size() != 1) {
      fail(fmt::format("{}: not allowed in level '{}'", text, machine_.levels.back().name),
           "only units of the outermost level have groups");
    }
    for (const auto& other : groups_) {
      if (other.name == rest[0]) fail(fmt::format("group '{}' is given twice", rest[0]));
    }
    groups_.push_back({place_, std::string(rest[0]), std::string(rest[1]), *units});
  }

  void read_mapping(std::string_view text) {
    const auto equals = text.find('=');
    const auto name = trim(text.substr(0, equals));
    if (equals == std::string_view::npos || !is_name(name)) {
      fail(fmt::format("mapping {}: expected a name, '=' and parts", to_printable(trim(text))),
           "write it like 'mapping wide = node:dim0, gpu:dim1'");
    }
    for (const auto& other : mappings_) {
      if (other.name == name) fail(fmt::format("mapping '{}' is given twice", to_printable(name)));
    }
    mappings_.push_back({place_, std::string(name), std::string(text.substr(equals + 1))});
  }

  void finish() {
    if (!keywords_.contains("machine")) require_keyword("machine");
    if (devices_.empty()) require_keyword("device");
    if (machine_.levels.empty()) {
      at(0).fail(fmt::format("machine '{}' has no level", machine_.name),
                 "add at least one line 'level NAME COUNT'");
    }
    double devices = 1;  // a product of integers might overflow
    for (const auto& level : machine_.levels) devices *= static_cast<double>(level.count);
    if (devices > static_cast<double>(kMaxDevices)) {
      at(open_line_)
          .fail(fmt::format("machine '{}' has {:.15g} devices, more than {}", machine_.name,
                            devices, kMaxDevices));
    }
    for (auto& section : devices_) {
      if (section.text.shares_computer()) share_computer_memory(section.device, devices);
    }
    apply_software();
    const bool is_sized = open_line_ == 0 || size_ != 0;
    set_devices(is_sized);
    for (std::size_t l = 0; l < levels_.size(); ++l) {
      machine_.levels[l].topology = levels_[l].topology.text();
      if (is_sized) levels_[l].topology.build_network(levels_[l].place, machine_.levels[l]);
    }
    for (const auto& [place, name, text] : mappings_) {
      machine_.mappings.push_back(parse_mapping(place, name, text, machine_.levels, is_sized));
    }
    if (file_.usage.empty()) {
      file_.usage = machine_.name;
      if (open_line_ != 0) file_.usage += ":SIZE";
    }
    if (open_line_ != 0 && size_ != 0) {
      machine_.name += fmt::format(":{}", size_);
      file_.open_level.clear();
    }
    if (!wanted_.empty()) machine_.name += ",software=" + wanted_;
  }

  // Applies the requested software profile.
  void apply_software() {
    for (const auto& section : software_) file_.software.push_back({section.name(), section.doc()});
    if (wanted_.empty()) return;
    const auto section = std::ranges::find(software_, wanted_, &SoftwareText::name);
    if (section == software_.end()) {
      std::vector<std::string> names;
      for (const auto& s : software_) names.push_back(s.name());
      at(0).fail(fmt::format("unknown software profile '{}'", to_printable(wanted_)),
                 names.empty() ? "this machine has no section 'software NAME'"
                               : make_suggestion(wanted_, names));
    }
    for (auto& d : devices_) {
      section->apply(d.device);
      check_reserve(d.place, "device " + d.device.name, d.device);
    }
    section->apply(machine_.levels);
    machine_.software = wanted_;
  }

  void require_keyword(std::string_view keyword) const {
    at(0).fail(fmt::format("'{}' is missing", keyword),
               fmt::format("add a line '{} NAME'", keyword));
  }

  // Divides the computer's memory equally among the devices (`memory computer`).
  void share_computer_memory(Device& device, double devices) const {
    device.memory = device.memory / devices;
    if (device.reserve >= device.memory) {
      at(0).fail(fmt::format(
          "{:.0f} processes have {} each, and the reserve of {} leaves nothing of it", devices,
          format_bytes(device.memory.value), format_bytes(device.reserve.value)));
    }
  }

  void set_devices(bool is_sized) {
    machine_.device = devices_.front().device;
    const auto& outermost = machine_.levels.front();
    if (groups_.empty() && devices_.size() > 1) {
      levels_.front().place.fail(
          fmt::format(
              "level '{}': the file has {} devices, but no groups that assign them to units",
              outermost.name, devices_.size()),
          fmt::format("add a line like 'group first {} 2' for each device",
                      devices_.front().device.name));
    }
    if (groups_.empty()) return;
    std::set<std::string> used;
    std::int64_t units = 0;
    for (const auto& group : groups_) {
      const auto text = std::ranges::find(devices_, group.device,
                                          [](const DeviceSection& d) { return d.device.name; });
      if (text == devices_.end()) {
        std::vector<std::string> names;
        for (const auto& d : devices_) names.push_back(d.device.name);
        group.place.fail(fmt::format("group '{}': unknown device '{}'", group.name, group.device),
                         make_suggestion(group.device, names));
      }
      machine_.groups.push_back({group.name, text->device, group.units});
      used.insert(group.device);
      units += group.units;
    }
    for (const auto& d : devices_) {
      if (!used.contains(d.device.name)) {
        at(0).fail(fmt::format("device '{}' is in no group", d.device.name));
      }
    }
    if (is_sized && units != outermost.count) {
      levels_.front().place.fail(
          fmt::format("level '{}': its groups have {} units in total, not {}", outermost.name,
                      units, outermost.count),
          "put every unit into one group");
    }
    machine_.device = make_weakest_device(machine_.groups);
    if (machine_.device.peak.empty()) {
      at(0).fail(fmt::format("the devices {} have no element type in common", machine_.device.name),
                 "add a 'peak' of the same type to each device");
    }
  }

  std::string_view text_;
  std::int64_t size_;
  std::string wanted_;  // requested software profile
  Place place_;         // line being read

  MachineFile file_;
  Machine& machine_ = file_.machine;
  std::vector<DeviceSection> devices_;
  std::vector<LevelSection> levels_;  // parallel to machine_.levels
  std::vector<GroupText> groups_;
  std::vector<MappingText> mappings_;
  std::vector<SoftwareText> software_;
  std::set<std::string, std::less<>> keywords_;  // keywords seen so far
  std::size_t open_line_ = 0;                    // line where a count is '?'

  // Section that the next fields belong to: the last of its kind.
  enum class SectionKind : std::uint8_t { kNone, kDevice, kLevel, kSoftware };
  SectionKind section_ = SectionKind::kNone;
};

}  // namespace

MachineFile read_machine_file(std::string_view text, const std::string& source, std::int64_t size,
                              const std::string& software) {
  return Parser(text, source, size, software).run();
}

Machine parse_machine(std::string_view text, const std::string& source, std::int64_t size,
                      const std::string& software) {
  Parser parser(text, source, size, software);
  auto file = parser.run();
  parser.check_size();
  return file.machine;
}

}  // namespace tandem::machine
