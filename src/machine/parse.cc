#include "machine/parse.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <set>

#include "base/check.h"
#include "base/text.h"
#include "machine/mapping.h"
#include "machine/number.h"
#include "machine/topology_text.h"
#include "machine/utilization_text.h"

namespace tandem::machine {

namespace {

Bytes memory_of_this_computer() {
  return Bytes{static_cast<double>(sysconf(_SC_PHYS_PAGES)) *
               static_cast<double>(sysconf(_SC_PAGE_SIZE))};
}

// A field that holds one number; `Owner` is Device or Level.
template <class Owner>
struct NumberField {
  std::string_view name;
  const NumberKind& kind;
  bool required;
  bool may_be_zero;
  void (*set)(Owner&, double);
};

const NumberField<Device> kDeviceFields[] = {
    {"memory", kAmount, true, false, [](Device& d, double v) { d.memory = Bytes{v}; }},
    {"reserve", kAmount, false, true, [](Device& d, double v) { d.reserve = Bytes{v}; }},
    {"bandwidth", kRate, true, false, [](Device& d, double v) { d.bandwidth = BytesPerSecond{v}; }},
    {"memory_utilization", kFraction, false, false,
     [](Device& d, double v) { d.memory_utilization = v; }},
    {"compute_utilization", kFraction, false, false,
     [](Device& d, double v) { d.compute_utilization = v; }},
    {"launch", kTime, false, true, [](Device& d, double v) { d.launch = Seconds{v}; }},
};

const NumberField<Level> kLevelFields[] = {
    {"bandwidth", kRate, true, false, [](Level& l, double v) { l.bandwidth = BytesPerSecond{v}; }},
    {"latency", kTime, true, true, [](Level& l, double v) { l.latency = Seconds{v}; }},
};

constexpr std::array<std::string_view, 6> kKeywords = {"machine", "usage", "doc",
                                                       "device",  "level", "mapping"};

class Parser {
 public:
  Parser(std::string_view text, const std::string& source, std::int64_t size)
      : text_(text), size_(size), place_{source} {
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

  // Was a size given where, and only where, the text leaves a count open?
  void check_size() const {
    if (open_line_ == 0 && size_ != 0) {
      at(0).fail(fmt::format("machine '{}' takes no size and was given {}", machine_.name, size_),
                 "a level with the count '?' would take it");
    }
    if (open_line_ != 0 && size_ == 0) {
      at(open_line_)
          .fail(fmt::format("{} needs a size: {}", machine_.name, file_.usage),
                fmt::format("the count of level '{}' is '?'", file_.open_level));
    }
  }

 private:
  struct DeviceText {
    Device device;
    bool shares_computer = false;
  };
  struct LevelText {
    Place place;
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
    const auto all = words(text);
    if (all.empty()) return read_comment(line);
    const Words rest = Words(all).subspan(1);
    const auto keyword = all.front();
    if (std::ranges::find(kKeywords, keyword) == kKeywords.end()) {
      read_field(keyword, rest);
    } else if (keyword == "level") {
      open_level(rest);
    } else if (keyword == "device") {
      open_device(rest);
    } else if (keyword == "mapping") {
      read_mapping(trim(text).substr(keyword.size()));
    } else {
      if (!keywords_.emplace(keyword).second) fail(fmt::format("'{}' stands twice", keyword));
      if (keyword == "machine") machine_.name = name_in(keyword, rest);
      if (keyword == "usage") file_.usage = shown(rest);
      if (keyword == "doc") file_.doc = std::string(trim(trim(text).substr(keyword.size())));
    }
  }

  // "# [KEY] title": the source of a number, which its own comment then names.
  void read_comment(std::string_view line) {
    const auto comment = trim(line.substr(std::min(line.find('#'), line.size())));
    const auto text = trim(comment.substr(std::min<std::size_t>(1, comment.size())));
    if (text.starts_with('[')) file_.sources.emplace_back(text);
  }

  std::string name_in(std::string_view keyword, Words rest) const {
    if (rest.size() != 1 || !is_name(rest[0])) {
      fail(fmt::format("{} '{}': expected a name", keyword, shown(rest)),
           "one word of letters, digits and _ - . +");
    }
    return std::string(rest[0]);
  }

  void open_device(Words rest) {
    close_section();
    const auto name = name_in("device", rest);
    for (const auto& other : devices_) {
      if (other.device.name == name) fail(fmt::format("device '{}' stands twice", name));
    }
    devices_.emplace_back().device.name = name;
    open("device " + name);
    in_device_ = true;
  }

  void open_level(Words rest) {
    close_section();
    if (rest.size() != 2) {
      fail(fmt::format("level '{}': expected a name and a count", shown(rest)),
           "write it like 'level gpu 4', or 'level node ?' for a size given with the name");
    }
    Level level;
    level.name = name_in("level", rest.first(1));
    for (const auto& other : machine_.levels) {
      if (other.name == level.name) fail(fmt::format("level '{}' stands twice", level.name));
    }
    level.count = rest[1] == "?" ? open_count(level.name) : count_in(level.name, rest[1]);
    machine_.levels.push_back(level);
    levels_.push_back({place_, {}, {}});
    open("level " + level.name);
  }

  std::int64_t open_count(const std::string& level) {
    if (open_line_ != 0) {
      fail(fmt::format("level '{}': a second count is '?'", level), "one size is given, not two");
    }
    open_line_ = place_.line;
    file_.open_level = level;
    return check_count(level, size_ == 0 ? 1 : size_);
  }

  std::int64_t count_in(const std::string& level, std::string_view text) const {
    const auto count = parse_int(text);
    if (!count) {
      fail(fmt::format("level '{}': count '{}' is not a whole number", level, printable(text)),
           "or '?' for a size given with the name");
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

  void open(std::string owner) {
    owner_ = std::move(owner);
    owner_line_ = place_.line;
    in_device_ = false;
    seen_.clear();
  }

  // Is everything there that the device or level needs?
  void close_section() {
    if (owner_.empty()) return;
    if (in_device_) {
      require<Device>(kDeviceFields);
      const auto& d = devices_.back().device;
      if (d.peak.empty()) missing("peak", kPeak);
      if (d.reserve >= d.memory) {
        at(owner_line_)
            .fail(fmt::format("{}: reserve {} leaves nothing of memory {}", owner_,
                              bytes_text(d.reserve.value), bytes_text(d.memory.value)));
      }
    } else {
      require<Level>(kLevelFields);
      levels_.back().utilization.join(machine_.levels.back());
    }
    owner_.clear();
  }

  template <class Owner>
  void require(std::span<const NumberField<Owner>> fields) const {
    for (const auto& field : fields) {
      if (field.required && !seen_.contains(field.name)) missing(field.name, field.kind);
    }
  }

  [[noreturn]] void missing(std::string_view field, const NumberKind& kind) const {
    at(owner_line_)
        .fail(fmt::format("{}: field '{}' is missing", owner_, field),
              fmt::format("expected {}", kind.form));
  }

  void read_field(std::string_view name, Words rest) {
    if (owner_.empty()) {
      fail(fmt::format("'{}' stands outside of a device or level", printable(name)),
           suggestion(name, {kKeywords.begin(), kKeywords.end()}));
    }
    if (in_device_ && name == "peak") return read_peak(rest);
    if (in_device_) {
      return read_number_field<Device>(kDeviceFields, devices_.back().device, name, rest);
    }
    if (TopologyText::is_keyword(name)) return levels_.back().topology.read(place_, name, rest);
    if (name == "utilization") return levels_.back().utilization.read(place_, owner_, rest);
    if (name == "group") return read_group(rest);
    auto& level = machine_.levels.back();
    if (name == "bandwidth") {
      const auto take = [&rest](std::string_view word) {
        const bool there = !rest.empty() && rest.back() == word;
        if (there) rest = rest.first(rest.size() - 1);
        return there;
      };
      level.by_device = take("by_device");
      level.half_duplex = take("half");
      level.shared = take("shared");
    }
    read_number_field<Level>(kLevelFields, level, name, rest);
  }

  template <class Owner>
  void read_number_field(std::span<const NumberField<Owner>> fields, Owner& owner,
                         std::string_view name, Words rest) {
    const auto field = std::ranges::find(fields, name, &NumberField<Owner>::name);
    if (field == fields.end()) {
      std::vector<std::string> known;
      for (const auto& f : fields) known.emplace_back(f.name);
      for (const auto* other : {"utilization", "topology", "group"}) {
        if (!in_device_) known.emplace_back(other);
      }
      if (in_device_) known.emplace_back("peak");
      fail(fmt::format("{}: unknown field '{}'", owner_, printable(name)), suggestion(name, known));
    }
    once(name);
    if (in_device_ && name == "memory" && rest.size() == 1 && rest[0] == "computer") {
      auto& text = devices_.back();
      text.shares_computer = true;
      text.device.memory = memory_of_this_computer();
      return;
    }
    field->set(owner, read_number(place_, name, rest, field->kind, field->may_be_zero));
  }

  void read_peak(Words rest) {
    DType type{};
    if (rest.size() < 2 || !parse_attribute(rest[0], type)) {
      fail(fmt::format("{}: expected {}", shown("peak", rest), kPeak.form),
           fmt::format("element types: {}", fmt::join(kDTypeNames, ", ")));
    }
    const auto field = fmt::format("peak {}", rest[0]);
    once(field);
    devices_.back().device.peak[type] =
        FlopsPerSecond{read_number(place_, field, rest.subspan(1), kPeak, false)};
  }

  void read_group(Words rest) {
    const auto text = shown("group", rest);
    const auto units = rest.size() == 3 ? parse_int(rest[2]) : std::nullopt;
    if (!units || *units < 1 || *units > kMaxDevices || !is_name(rest[0]) || !is_name(rest[1])) {
      fail(fmt::format("{}: expected a name, a device and how many units have it", text),
           "write it like 'group old V100 4'");
    }
    if (machine_.levels.size() != 1) {
      fail(fmt::format("{}: stands in level '{}'", text, machine_.levels.back().name),
           "groups are of units of the outermost level");
    }
    for (const auto& other : groups_) {
      if (other.name == rest[0]) fail(fmt::format("group '{}' stands twice", rest[0]));
    }
    groups_.push_back({place_, std::string(rest[0]), std::string(rest[1]), *units});
  }

  void read_mapping(std::string_view text) {
    const auto equals = text.find('=');
    const auto name = trim(text.substr(0, equals));
    if (equals == std::string_view::npos || !is_name(name)) {
      fail(fmt::format("mapping {}: expected a name, '=' and parts", printable(trim(text))),
           "write it like 'mapping wide = node:dim0, gpu:dim1'");
    }
    for (const auto& other : mappings_) {
      if (other.name == name) fail(fmt::format("mapping '{}' stands twice", printable(name)));
    }
    mappings_.push_back({place_, std::string(name), std::string(text.substr(equals + 1))});
  }

  void once(std::string_view field) {
    if (!seen_.emplace(field).second) fail(fmt::format("{}: '{}' stands twice", owner_, field));
  }

  void finish() {
    if (!keywords_.contains("machine")) require_keyword("machine");
    if (devices_.empty()) require_keyword("device");
    if (machine_.levels.empty()) {
      at(0).fail(fmt::format("machine '{}' has no level", machine_.name),
                 "a machine file has at least one 'level NAME COUNT'");
    }
    double devices = 1;  // a product of integers might overflow
    for (const auto& level : machine_.levels) devices *= static_cast<double>(level.count);
    if (devices > static_cast<double>(kMaxDevices)) {
      at(open_line_)
          .fail(fmt::format("machine '{}' has {:.15g} devices, more than {}", machine_.name,
                            devices, kMaxDevices));
    }
    for (auto& text : devices_) {
      if (text.shares_computer) share_computer(text.device, devices);
    }
    const bool is_sized = open_line_ == 0 || size_ != 0;
    set_devices(is_sized);
    for (std::size_t l = 0; l < levels_.size(); ++l) {
      machine_.levels[l].topology = levels_[l].topology.text();
      if (is_sized) levels_[l].topology.join(levels_[l].place, machine_.levels[l]);
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
  }

  void require_keyword(std::string_view keyword) const {
    at(0).fail(fmt::format("'{}' is missing", keyword),
               fmt::format("a machine file has a line '{} NAME'", keyword));
  }

  // `memory computer`: what this computer has, in equal parts.
  void share_computer(Device& device, double devices) const {
    device.memory = device.memory / devices;
    if (device.reserve >= device.memory) {
      at(0).fail(
          fmt::format("{:.0f} processes have {} each, of which the reserve of {} leaves nothing",
                      devices, bytes_text(device.memory.value), bytes_text(device.reserve.value)));
    }
  }

  void set_devices(bool is_sized) {
    machine_.device = devices_.front().device;
    const auto& outermost = machine_.levels.front();
    if (groups_.empty() && devices_.size() > 1) {
      levels_.front().place.fail(
          fmt::format("level '{}': {} devices and no group that says which units have them",
                      outermost.name, devices_.size()),
          fmt::format("a line like 'group first {} 2' for each", devices_.front().device.name));
    }
    if (groups_.empty()) return;
    std::set<std::string> used;
    std::int64_t units = 0;
    for (const auto& group : groups_) {
      const auto text = std::ranges::find(devices_, group.device,
                                          [](const DeviceText& d) { return d.device.name; });
      if (text == devices_.end()) {
        std::vector<std::string> names;
        for (const auto& d : devices_) names.push_back(d.device.name);
        group.place.fail(
            fmt::format("group '{}': there is no device '{}'", group.name, group.device),
            suggestion(group.device, names));
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
          fmt::format("level '{}': its groups have {} units together, not {}", outermost.name,
                      units, outermost.count),
          "every unit is in one group");
    }
    machine_.device = weakest(machine_.groups);
    if (machine_.device.peak.empty()) {
      at(0).fail(fmt::format("the devices {} have no element type in common", machine_.device.name),
                 "a 'peak' of the same type for each");
    }
  }

  std::string_view text_;
  std::int64_t size_;
  Place place_;  // of the line being read

  MachineFile file_;
  Machine& machine_ = file_.machine;
  std::vector<DeviceText> devices_;
  std::vector<LevelText> levels_;  // like machine_.levels
  std::vector<GroupText> groups_;
  std::vector<MappingText> mappings_;
  std::set<std::string, std::less<>> keywords_;  // seen so far
  std::size_t open_line_ = 0;                    // where a count is '?'

  // The device or level that fields now belong to.
  std::string owner_;
  std::size_t owner_line_ = 0;
  bool in_device_ = false;
  std::set<std::string, std::less<>> seen_;
};

}  // namespace

MachineFile read_machine_file(std::string_view text, const std::string& source, std::int64_t size) {
  return Parser(text, source, size).run();
}

Machine parse_machine(std::string_view text, const std::string& source, std::int64_t size) {
  Parser parser(text, source, size);
  auto file = parser.run();
  parser.check_size();
  return file.machine;
}

}  // namespace tandem::machine
