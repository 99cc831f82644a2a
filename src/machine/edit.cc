#include "machine/edit.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

#include "base/error.h"
#include "base/text.h"
#include "machine/device_fields.h"
#include "machine/number.h"

namespace tandem::machine {

namespace {

constexpr std::array<std::string_view, 3> kBehindBandwidth = {"shared", "half", "by_device"};

[[noreturn]] void fail(const FieldValue& field, const std::string& message,
                       const std::string& hint) {
  throw UserError("machine", to_printable(field.path), message, hint);
}

std::string strip_comment(std::string_view text) {
  return std::string(text.substr(0, text.find('#')));
}

// Header of a section, to which the following lines belong: "device thing", "level node 4",
// "software eager".
struct SectionHeader {
  std::string_view kind, name;
};
std::optional<SectionHeader> parse_section_header(Words line) {
  const bool opens = (line.size() == 2 && (line[0] == "device" || line[0] == "software")) ||
                     (line.size() == 3 && line[0] == "level");
  return opens ? std::optional(SectionHeader{line[0], line[1]}) : std::nullopt;
}

struct Target {
  std::string kind;
  std::string name;  // empty for all
  std::vector<std::string> field;
};

// Parses the path. A name may contain dots, so the names that exist decide where it ends.
Target parse_path(const FieldValue& field, const std::vector<std::string>& lines) {
  const auto dot = field.path.find('.');
  Target out{.kind = field.path.substr(0, dot), .name = "", .field = {}};
  std::string_view rest = std::string_view(field.path).substr(dot + 1);
  std::vector<std::string> names;
  for (const auto& line : lines) {
    const auto section = parse_section_header(split_words(line));
    if (!section || section->kind != out.kind) continue;
    names.emplace_back(section->name);
    if (rest.starts_with(fmt::format("{}.", section->name))) out.name = section->name;
  }
  if (!out.name.empty()) {
    rest.remove_prefix(out.name.size() + 1);
  } else if (out.kind == "level") {
    const auto wanted = rest.substr(0, rest.rfind('.'));
    fail(field, fmt::format("the machine has no level '{}'", to_printable(wanted)),
         fmt::format("write level.NAME.FIELD, where NAME is {}", join(names, " or ")));
  }
  if (out.kind == "device" && names.size() == 1) out.name.clear();  // one device is all
  for (const auto word : split(rest, '.')) out.field.emplace_back(word);
  if (!is_name(rest) || out.field.empty() || out.field.size() > (out.field[0] == "peak" ? 2 : 1)) {
    fail(field, "is not a field of machine files",
         "write device.FIELD, device.peak.TYPE or level.NAME.FIELD, see "
         "docs/reference/machine-format.md");
  }
  return out;
}

// Inserts the space before the unit: "1.5TB/s" -> "1.5 TB/s". An exponent is no unit.
std::string insert_blank(std::string_view value) {
  for (std::size_t i = 1; i < value.size(); ++i) {
    const auto is_digit = [&](std::size_t at) {
      return at < value.size() && std::isdigit(static_cast<unsigned char>(value[at])) != 0;
    };
    const bool exponent = value[i] == 'e' && (is_digit(i + 1) || is_digit(i + 2));
    if (!is_digit(i - 1) || std::isalpha(static_cast<unsigned char>(value[i])) == 0 || exponent) {
      continue;
    }
    return fmt::format("{} {}", value.substr(0, i), value.substr(i));
  }
  return std::string(value);
}

std::string make_field_line(const Target& target, Words old, const std::string& value) {
  auto out = fmt::format("  {} {}", join(target.field, " "), insert_blank(value));
  if (target.field[0] != "bandwidth") return out;
  for (const auto word : old) {
    if (std::ranges::find(kBehindBandwidth, word) != kBehindBandwidth.end()) {
      out += fmt::format(" {}", word);
    }
  }
  return out;
}

// Returns whether a line sets `field`, by its current name or an older one.
bool begins_with(Words line, const std::vector<std::string>& field) {
  return line.size() >= field.size() &&
         std::equal(field.begin(), field.end(), line.begin(), [](const auto& a, const auto& b) {
           return get_current_field_name(a) == get_current_field_name(b);
         });
}

// Returns whether a line of a software profile overrides the target.
bool overrides_target(Words line, const Target& target) {
  if (target.kind == "device") return target.name.empty() && begins_with(line, target.field);
  return line.size() > 2 && line[0] == "level" && line[1] == target.name &&
         begins_with(line.subspan(2), target.field);
}

// Returns the lines with the field replaced in the target's sections and removed from software
// profiles. The target must have a section.
std::vector<std::string> replace_field(const std::vector<std::string>& lines, const Target& target,
                                       const std::string& value) {
  std::vector<std::string> out;
  bool inside = false;
  bool written = false;
  bool in_software = false;
  const auto leave = [&] {
    if (inside && !written) out.push_back(make_field_line(target, {}, value));
    inside = written = false;
  };
  for (const auto& line : lines) {
    const auto all = split_words(line);
    if (const auto section = parse_section_header(all)) {
      leave();
      in_software = section->kind == "software";
      inside =
          section->kind == target.kind && (target.name.empty() || section->name == target.name);
      if (inside && target.kind == "level" && target.field[0] == "count") {
        out.push_back(fmt::format("level {} {}", section->name, value));
        written = true;
        continue;
      }
    } else if (inside && begins_with(all, target.field)) {
      out.push_back(written ? "" : make_field_line(target, all, value));
      written = true;
      continue;
    }
    out.push_back(in_software && overrides_target(all, target) ? "" : line);
  }
  leave();
  return out;
}

}  // namespace

bool is_field_path(std::string_view key) {
  return key.starts_with("device.") || key.starts_with("level.");
}

std::string with_field(std::string_view text, const FieldValue& field) {
  if (field.value.find_first_of("\n#") != std::string::npos) {
    fail(field, fmt::format("cannot be '{}'", to_printable(field.value)),
         "the value must fit on one line");
  }
  std::vector<std::string> lines;
  while (!text.empty()) {
    const auto end = text.find('\n');
    lines.push_back(strip_comment(text.substr(0, end)));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return join(replace_field(lines, parse_path(field, lines), field.value), "\n") + "\n";
}

}  // namespace tandem::machine
