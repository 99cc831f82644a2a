#include "machine/parse.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <span>

#include "base/check.h"
#include "base/error.h"
#include "base/text.h"

namespace tandem::machine {

std::string printable(std::string_view text) {
  constexpr std::size_t kMost = 60;
  std::string out;
  for (const char c : text.substr(0, kMost)) out += c >= ' ' && c <= '~' ? c : '?';
  return text.size() > kMost ? out + "..." : out;
}

namespace {

using Words = std::span<const std::string_view>;

// What a number of one kind may look like.
struct Unit {
  std::string_view name;
  double factor;
};
struct NumberKind {
  std::string_view form;  // as messages describe it
  std::span<const Unit> units;
};

constexpr Unit kByteUnits[] = {{"B", 1},           {"KB", 1e3},          {"MB", 1e6},
                               {"GB", 1e9},        {"TB", 1e12},         {"KiB", 1024.0},
                               {"MiB", 1048576.0}, {"GiB", 1073741824.0}};
constexpr Unit kRateUnits[] = {
    {"MB/s", 1e6}, {"GB/s", 1e9}, {"TB/s", 1e12}, {"MiB/s", 1048576.0}, {"GiB/s", 1073741824.0}};
constexpr Unit kPeakUnits[] = {{"GFLOP/s", 1e9}, {"TFLOP/s", 1e12}, {"PFLOP/s", 1e15}};
constexpr Unit kTimeUnits[] = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}};

constexpr NumberKind kAmount = {"an amount like '16 GB'", kByteUnits};
constexpr NumberKind kRate = {"a rate like '25 GB/s'", kRateUnits};
constexpr NumberKind kPeak = {"an element type and a rate like 'fp32 15.7 TFLOP/s'", kPeakUnits};
constexpr NumberKind kTime = {"a time like '5 us'", kTimeUnits};
constexpr NumberKind kFraction = {"a fraction like '0.8'", {}};

std::string shown(std::string_view text) { return printable(text); }

std::string shown(Words line) {
  std::string out;
  for (const auto word : line) out += (out.empty() ? "" : " ") + std::string(word);
  return shown(out);
}

Bytes memory_of_this_computer() {
  return Bytes{static_cast<double>(sysconf(_SC_PHYS_PAGES)) *
               static_cast<double>(sysconf(_SC_PAGE_SIZE))};
}

bool is_name(std::string_view text) {
  constexpr std::string_view kAllowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.+";
  return !text.empty() && text.find_first_not_of(kAllowed) == std::string_view::npos;
}

// A field as it was written.
std::string shown(std::string_view field, Words rest) {
  return rest.empty() ? std::string(field) : fmt::format("{} {}", field, shown(rest));
}

// "did you mean 'x'?" where something is near, else the list.
std::string suggestion(std::string_view word, const std::vector<std::string>& candidates) {
  const auto near = nearest(word, candidates);
  if (!near.empty()) return fmt::format("did you mean '{}'?", near);
  return "expected one of: " + join(candidates, ", ");
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

constexpr NumberField<Device> kDeviceFields[] = {
    {"memory", kAmount, true, false, [](Device& d, double v) { d.memory = Bytes{v}; }},
    {"reserve", kAmount, false, true, [](Device& d, double v) { d.reserve = Bytes{v}; }},
    {"bandwidth", kRate, true, false, [](Device& d, double v) { d.bandwidth = BytesPerSecond{v}; }},
    {"memory_utilization", kFraction, false, false,
     [](Device& d, double v) { d.memory_utilization = v; }},
    {"compute_utilization", kFraction, false, false,
     [](Device& d, double v) { d.compute_utilization = v; }},
    {"launch", kTime, false, true, [](Device& d, double v) { d.launch = Seconds{v}; }},
};

constexpr NumberField<Level> kLevelFields[] = {
    {"bandwidth", kRate, true, false, [](Level& l, double v) { l.bandwidth = BytesPerSecond{v}; }},
    {"latency", kTime, true, true, [](Level& l, double v) { l.latency = Seconds{v}; }},
    {"utilization", kFraction, false, false, [](Level& l, double v) { l.utilization = v; }},
};

constexpr std::array<std::string_view, 5> kKeywords = {"machine", "usage", "doc", "device",
                                                       "level"};

class Parser {
 public:
  Parser(std::string_view text, const std::string& source, std::int64_t size)
      : text_(text), source_(source), size_(size) {}

  MachineFile run() {
    for (std::string_view rest = text_; !rest.empty();) {
      const auto end = rest.find('\n');
      ++line_;
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
      fail_at(0, fmt::format("machine '{}' takes no size and was given {}", machine_.name, size_),
              "a level with the count '?' would take it");
    }
    if (open_line_ != 0 && size_ == 0) {
      fail_at(open_line_, fmt::format("{} needs a size: {}", machine_.name, file_.usage),
              fmt::format("the count of level '{}' is '?'", open_level_));
    }
  }

 private:
  [[noreturn]] void fail_at(std::size_t line, std::string message, std::string hint = "") const {
    const auto where = line == 0 ? source_ : fmt::format("{}:{}", source_, line);
    throw UserError("machine", where, std::move(message), std::move(hint));
  }
  [[noreturn]] void fail(std::string message, std::string hint = "") const {
    fail_at(line_, std::move(message), std::move(hint));
  }

  void read_line(std::string_view text) {
    text = text.substr(0, text.find('#'));
    const auto all = words(text);
    if (all.empty()) return;
    const Words rest = Words(all).subspan(1);
    const auto keyword = all.front();
    if (std::ranges::find(kKeywords, keyword) == kKeywords.end()) {
      read_field(keyword, rest);
    } else if (keyword == "level") {
      open_level(rest);
    } else {
      if (!keywords_.emplace(keyword).second) fail(fmt::format("'{}' stands twice", keyword));
      if (keyword == "machine") machine_.name = name_in(keyword, rest);
      if (keyword == "usage") file_.usage = shown(rest);
      if (keyword == "doc") file_.doc = std::string(trim(trim(text).substr(keyword.size())));
      if (keyword == "device") open_device(rest);
    }
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
    machine_.device.name = name_in("device", rest);
    open("device " + machine_.device.name);
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
    open("level " + level.name);
  }

  std::int64_t open_count(const std::string& level) {
    if (open_line_ != 0) {
      fail(fmt::format("level '{}': a second count is '?'", level), "one size is given, not two");
    }
    open_line_ = line_;
    open_level_ = level;
    CHECK(size_ >= 0, size_);
    return check_count(level, size_ == 0 ? 1 : size_);
  }

  std::int64_t count_in(const std::string& level, std::string_view text) const {
    const auto count = parse_int(text);
    if (!count) {
      fail(fmt::format("level '{}': count '{}' is not a whole number", level, shown(text)),
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
    owner_line_ = line_;
    in_device_ = false;
    seen_.clear();
  }

  // Is everything there that the device or level needs?
  void close_section() {
    if (owner_.empty()) return;
    if (in_device_) {
      require<Device>(kDeviceFields);
      const auto& d = machine_.device;
      if (d.peak.empty()) missing("peak", kPeak);
      if (d.reserve >= d.memory) {
        fail_at(owner_line_, fmt::format("{}: reserve {} leaves nothing of memory {}", owner_,
                                         bytes_text(d.reserve.value), bytes_text(d.memory.value)));
      }
    } else {
      require<Level>(kLevelFields);
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
    fail_at(owner_line_, fmt::format("{}: field '{}' is missing", owner_, field),
            fmt::format("expected {}", kind.form));
  }

  void read_field(std::string_view name, Words rest) {
    if (owner_.empty()) {
      fail(fmt::format("'{}' stands outside of a device or level", shown(name)),
           suggestion(name, {kKeywords.begin(), kKeywords.end()}));
    }
    if (in_device_ && name == "peak") {
      read_peak(rest);
    } else if (in_device_) {
      read_number<Device>(kDeviceFields, machine_.device, name, rest);
    } else {
      auto& level = machine_.levels.back();
      if (name == "bandwidth" && !rest.empty() && rest.back() == "shared") {
        level.shared = true;
        rest = rest.first(rest.size() - 1);
      }
      read_number<Level>(kLevelFields, level, name, rest);
    }
  }

  template <class Owner>
  void read_number(std::span<const NumberField<Owner>> fields, Owner& owner, std::string_view name,
                   Words rest) {
    const auto field = std::ranges::find(fields, name, &NumberField<Owner>::name);
    if (field == fields.end()) {
      std::vector<std::string> known;
      for (const auto& f : fields) known.emplace_back(f.name);
      if (in_device_) known.emplace_back("peak");
      fail(fmt::format("{}: unknown field '{}'", owner_, shown(name)), suggestion(name, known));
    }
    once(name);
    if (in_device_ && name == "memory" && rest.size() == 1 && rest[0] == "computer") {
      shares_computer_ = true;
      machine_.device.memory = memory_of_this_computer();
      return;
    }
    field->set(owner, number(name, rest, field->kind, field->may_be_zero));
  }

  void read_peak(Words rest) {
    DType type{};
    if (rest.size() < 2 || !parse_attribute(rest[0], type)) {
      fail(fmt::format("{}: expected {}", shown("peak", rest), kPeak.form),
           fmt::format("element types: {}", fmt::join(kDTypeNames, ", ")));
    }
    const auto field = fmt::format("peak {}", rest[0]);
    once(field);
    machine_.device.peak[type] = FlopsPerSecond{number(field, rest.subspan(1), kPeak, false)};
  }

  void once(std::string_view field) {
    if (!seen_.emplace(field).second) fail(fmt::format("{}: '{}' stands twice", owner_, field));
  }

  double number(std::string_view field, Words rest, const NumberKind& kind,
                bool may_be_zero) const {
    const bool fraction = kind.units.empty();
    const auto value = parse_double(rest.empty() ? "" : rest[0]);
    const auto unit =
        rest.size() == 2 ? std::ranges::find(kind.units, rest[1], &Unit::name) : kind.units.end();
    if (!value || (fraction ? rest.size() != 1 : unit == kind.units.end())) {
      std::vector<std::string_view> names;
      for (const auto& u : kind.units) names.push_back(u.name);
      fail(fmt::format("{}: expected {}", shown(field, rest), kind.form),
           fraction ? "a number without a unit" : fmt::format("units: {}", fmt::join(names, ", ")));
    }
    const double scaled = value.value_or(0) * (fraction ? 1 : unit->factor);
    if (scaled < 0 || (scaled == 0 && !may_be_zero)) {
      fail(fmt::format("{}: must be {}", shown(field, rest),
                       may_be_zero ? "0 or more" : "greater than 0"));
    }
    if (fraction && scaled > 1) {
      fail(fmt::format("{}: must not be greater than 1", shown(field, rest)),
           "the part of the rated value that is reached in practice, like '0.8'");
    }
    // Squares of what is accepted stay finite, so no later formula meets an infinity.
    if (scaled > 1e150 || (scaled != 0 && scaled < 1e-50)) {
      fail(fmt::format("{}: out of range", shown(field, rest)));
    }
    return scaled;
  }

  void finish() {
    for (const std::string_view keyword : {"machine", "device"}) {
      if (!keywords_.contains(keyword)) {
        fail_at(0, fmt::format("'{}' is missing", keyword),
                fmt::format("a machine file has a line '{} NAME'", keyword));
      }
    }
    if (machine_.levels.empty()) {
      fail_at(0, fmt::format("machine '{}' has no level", machine_.name),
              "a machine file has at least one 'level NAME COUNT'");
    }
    double devices = 1;  // a product of integers might overflow
    for (const auto& level : machine_.levels) devices *= static_cast<double>(level.count);
    if (devices > static_cast<double>(kMaxDevices)) {
      fail_at(open_line_, fmt::format("machine '{}' has {:.15g} devices, more than {}",
                                      machine_.name, devices, kMaxDevices));
    }
    if (shares_computer_) share_computer(devices);
    if (file_.usage.empty()) {
      file_.usage = machine_.name;
      if (open_line_ != 0) file_.usage += ":SIZE";
    }
    if (open_line_ != 0 && size_ != 0) machine_.name += fmt::format(":{}", size_);
  }

  // `memory computer`: what this computer has, in equal parts.
  void share_computer(double devices) {
    auto& device = machine_.device;
    device.memory = device.memory / devices;
    if (device.reserve >= device.memory) {
      fail_at(0, fmt::format(
                     "{:.0f} processes have {} each, of which the reserve of {} leaves nothing",
                     devices, bytes_text(device.memory.value), bytes_text(device.reserve.value)));
    }
  }

  std::string_view text_;
  const std::string& source_;
  std::int64_t size_;

  MachineFile file_;
  Machine& machine_ = file_.machine;
  std::set<std::string, std::less<>> keywords_;  // seen so far
  std::size_t line_ = 0;
  std::size_t open_line_ = 0;  // where a count is '?'
  std::string open_level_;

  // The device or level that fields now belong to.
  std::string owner_;
  std::size_t owner_line_ = 0;
  bool in_device_ = false;
  bool shares_computer_ = false;
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
