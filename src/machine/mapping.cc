#include "machine/mapping.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "base/error.h"
#include "base/text.h"

namespace tandem::machine {

namespace {

using Grid = std::span<const std::int64_t>;
using Dims = std::array<int, Digits::kMax>;

constexpr std::size_t kMostDims = 8;

std::string format_grid(Grid grid) { return fmt::format("{}", fmt::join(grid, "x")); }

bool are_equivalent(const Machine& machine, const Digit& a, const Digit& b) {
  const auto& network = machine.levels[a.level].network;
  return a.level == b.level && a.size == b.size && (network == nullptr || network->is_symmetric());
}

// Enumerates mappings: walks the digits from the outermost and gives each to a dimension that still
// needs it. Equivalent digits go to dimensions in ascending order, idle digits last.
class Enumeration {
 public:
  Enumeration(const Machine& machine, Grid grid)
      : machine_(machine), digits_(machine), left_(grid.begin(), grid.end()) {}

  std::vector<Mapping> run() {
    dims_.fill(Mapping::kIdle);
    assign_digit(0);
    return std::move(out_);
  }

 private:
  void assign_digit(std::size_t digit) {
    if (digit == digits_.count()) {
      if (std::ranges::all_of(left_, [](auto rest) { return rest == 1; })) {
        out_.push_back({"", dims_});
      }
      return;
    }
    std::size_t first = 0;
    bool idle_only = false;
    if (digit > 0 && are_equivalent(machine_, digits_[digit - 1], digits_[digit])) {
      idle_only = dims_[digit - 1] == Mapping::kIdle;
      if (!idle_only) first = static_cast<std::size_t>(dims_[digit - 1]);
    }
    const auto size = digits_[digit].size;
    for (auto dim = first; dim < left_.size() && !idle_only; ++dim) {
      if (left_[dim] % size != 0) continue;
      left_[dim] /= size;
      dims_[digit] = static_cast<int>(dim);
      assign_digit(digit + 1);
      left_[dim] *= size;
    }
    dims_[digit] = Mapping::kIdle;
    assign_digit(digit + 1);
  }

  const Machine& machine_;
  Digits digits_;
  std::vector<std::int64_t> left_;  // remaining factor of every degree
  Dims dims_;
  std::vector<Mapping> out_;
};

// Returns the mapping that the parts describe.
Mapping to_mapping(const NamedMapping& named, const Digits& digits) {
  Mapping out{named.name, {}};
  out.dims.fill(Mapping::kIdle);
  DigitMask taken = 0;
  for (const auto& part : named.parts) {
    auto left = part.size;
    for (std::size_t i = 0; i < digits.count(); ++i) {
      if (digits[i].level != part.level || (taken >> i & 1U) != 0) continue;
      if (part.size != 0 && left % digits[i].size != 0) continue;
      taken |= DigitMask{1} << i;
      if (part.dim) out.dims[i] = static_cast<int>(*part.dim);
      if (part.size != 0) left /= digits[i].size;
    }
  }
  return out;
}

std::vector<std::int64_t> compute_grid(const Mapping& mapping, const Digits& digits) {
  std::vector<std::int64_t> grid;
  for (std::size_t i = 0; i < digits.count(); ++i) {
    if (mapping.dims[i] == Mapping::kIdle) continue;
    const auto dim = static_cast<std::size_t>(mapping.dims[i]);
    if (grid.size() <= dim) grid.resize(dim + 1, 1);
    grid[dim] *= digits[i].size;
  }
  return grid;
}

bool makes_grid(const Mapping& mapping, const Digits& digits, Grid grid) {
  auto own = compute_grid(mapping, digits);
  if (own.size() > grid.size()) return false;
  own.resize(grid.size(), 1);
  return std::ranges::equal(own, grid);
}

// Returns the mapping with equivalent digits in the order that Enumeration lists.
Dims sort_equivalent_digits(const Machine& machine, const Digits& digits, Dims dims) {
  for (std::size_t i = 0; i < digits.count();) {
    auto end = i + 1;
    while (end < digits.count() && are_equivalent(machine, digits[i], digits[end])) ++end;
    const auto key = [](int dim) { return static_cast<unsigned>(dim); };  // idle last
    std::sort(dims.begin() + static_cast<std::ptrdiff_t>(i),
              dims.begin() + static_cast<std::ptrdiff_t>(end),
              [&](auto a, auto b) { return key(a) < key(b); });
    i = end;
  }
  return dims;
}

}  // namespace

std::vector<Mapping> list_mappings(const Machine& machine, Grid grid) {
  auto out = Enumeration(machine, grid).run();
  const Digits digits(machine);
  for (const auto& named : machine.mappings) {
    const auto mapping = to_mapping(named, digits);
    if (!makes_grid(mapping, digits, grid)) continue;
    // The equivalent mapping in the list is replaced, to keep the digits that the file chose.
    const auto listed = std::ranges::find(
        out, sort_equivalent_digits(machine, digits, mapping.dims), &Mapping::dims);
    if (listed != out.end()) {
      *listed = mapping;
    } else {
      out.push_back(mapping);  // the equivalent mapping already has a name
    }
  }
  return out;
}

Mapping find_mapping(const Machine& machine, Grid grid, const std::string& name) {
  const auto named = std::ranges::find(machine.mappings, name, &NamedMapping::name);
  const bool is_text = name.find(':') != std::string::npos;
  const Place place{"mapping " + to_printable(name)};
  if (named == machine.mappings.end() && !is_text) {
    std::vector<std::string> names;
    for (const auto& m : machine.mappings) names.push_back(m.name);
    place.fail(fmt::format("{} has no mapping of this name", machine.name),
               names.empty() ? "write the mapping out, like 'node:dim0, gpu:dim1'"
                             : make_suggestion(name, names));
  }
  const Digits digits(machine);
  auto mapping =
      to_mapping(is_text ? parse_mapping(place, "", name, machine.levels, true) : *named, digits);
  if (!makes_grid(mapping, digits, grid)) {
    place.fail(fmt::format("makes a grid of {} on {}, not {}",
                           format_grid(compute_grid(mapping, digits)), machine.name,
                           format_grid(grid)));
  }
  return mapping;
}

std::string to_text(const Mapping& mapping, const Machine& machine) {
  const Digits digits(machine);
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < digits.count();) {
    // A run of digits of one level with the same dimension is one part.
    std::int64_t size = 1;
    auto end = i;
    for (; end < digits.count() && digits[end].level == digits[i].level &&
           mapping.dims[end] == mapping.dims[i];
         ++end) {
      size *= digits[end].size;
    }
    const auto& level = machine.levels[digits[i].level];
    const auto units = size == level.count ? level.name : fmt::format("{}/{}", level.name, size);
    const auto dim = mapping.dims[i];
    parts.push_back(dim == Mapping::kIdle ? units + ":idle" : fmt::format("{}:dim{}", units, dim));
    i = end;
  }
  return join(parts, ", ");
}

NodeLayout to_node_layout(const Mapping& mapping, std::span<const DigitUse> uses) {
  NodeLayout out;
  for (std::size_t i = 0; i < Digits::kMax; ++i) {
    const auto dim = mapping.dims[i];
    out.uses[i] = dim == Mapping::kIdle ? DigitUse::kIdle : uses[static_cast<std::size_t>(dim)];
  }
  return out;
}

std::int64_t find_device(const Mapping& mapping, const Digits& digits,
                         std::span<const std::int64_t> task) {
  std::vector<std::int64_t> rest(task.begin(), task.end());
  std::int64_t device = 0;
  std::int64_t stride = 1;
  for (std::size_t i = digits.count(); i-- > 0; stride *= digits[i].size) {
    if (mapping.dims[i] == Mapping::kIdle) continue;
    auto& index = rest[static_cast<std::size_t>(mapping.dims[i])];
    device += index % digits[i].size * stride;
    index /= digits[i].size;
  }
  return device;
}

NamedMapping parse_mapping(const Place& place, std::string_view name, std::string_view text,
                           const std::vector<Level>& levels, bool is_sized) {
  NamedMapping out{std::string(name), {}};
  std::vector<std::int64_t> left;
  left.reserve(levels.size());
  for (const auto& level : levels) left.push_back(level.count);
  for (const auto piece : split(text, ',')) {
    const auto malformed = [&] {
      place.fail(fmt::format("'{}': expected a level and a dimension", to_printable(piece)),
                 "write it like 'node:dim0, gpu/2:dim1, gpu:idle'");
    };
    const auto ends = split(piece, ':');
    if (ends.size() != 2) malformed();
    const auto units = split(ends[0], '/');
    if (units.empty() || units.size() > 2) malformed();
    const auto level = std::ranges::find(levels, units[0], &Level::name);
    if (level == levels.end()) {
      std::vector<std::string> names;
      names.reserve(levels.size());
      for (const auto& l : levels) names.push_back(l.name);
      place.fail(
          fmt::format("'{}': unknown level '{}'", to_printable(piece), to_printable(units[0])),
          make_suggestion(units[0], names));
    }
    NamedMapping::LevelAssignment part{static_cast<std::size_t>(level - levels.begin()), 0, {}};
    auto& rest = left[part.level];
    if (units.size() == 2) {
      const auto size = parse_int(units[1]);
      if (!size || *size < 1) malformed();
      part.size = *size;
      if (is_sized && rest % part.size != 0) {
        place.fail(fmt::format("'{}': cannot take {} of the {} {}s that are left",
                               to_printable(piece), part.size, rest, level->name),
                   fmt::format("{} has the count {}; the taken units must divide it", level->name,
                               level->count));
      }
    }
    rest = part.size == 0 ? 1 : rest / part.size;
    if (ends[1] != "idle") {
      const auto dim = ends[1].starts_with("dim") ? parse_int(ends[1].substr(3)) : std::nullopt;
      if (!dim || *dim < 0 || *dim >= static_cast<std::int64_t>(kMostDims)) malformed();
      part.dim = static_cast<std::size_t>(*dim);
    }
    out.parts.push_back(part);
  }
  if (out.parts.empty()) {
    place.fail(fmt::format("mapping '{}' has no parts", name),
               "write it like 'node:dim0, socket:dim1, gpu:dim1'");
  }
  return out;
}

}  // namespace tandem::machine
