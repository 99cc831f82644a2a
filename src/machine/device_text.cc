#include "machine/device_text.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "ops/registry.h"

namespace tandem::machine {

namespace {

Bytes read_computer_memory() {
  return Bytes{static_cast<double>(sysconf(_SC_PHYS_PAGES)) *
               static_cast<double>(sysconf(_SC_PAGE_SIZE))};
}

std::vector<std::string> list_field_names() {
  std::vector<std::string> out;
  for (const auto& field : device_numbers()) out.emplace_back(field.name);
  for (const auto& field : device_words()) out.emplace_back(field.name);
  out.emplace_back("kernels");
  out.emplace_back("measured");
  out.emplace_back("peak");
  return out;
}

[[noreturn]] void fail_missing_field(const Place& place, const std::string& owner,
                                     std::string_view field, const NumberKind& kind) {
  place.fail(fmt::format("{}: field '{}' is missing", owner, field),
             fmt::format("expected {}", kind.form));
}

}  // namespace

std::size_t read_word(const Place& place, std::string_view field, Words rest,
                      std::span<const std::string_view> words) {
  const auto found = rest.size() == 1 ? std::ranges::find(words, rest[0]) : words.end();
  if (found == words.end()) {
    place.fail(
        fmt::format("{}: expected one of: {}", format_field(field, rest), fmt::join(words, ", ")));
  }
  return static_cast<std::size_t>(found - words.begin());
}

void check_reserve(const Place& place, const std::string& owner, const Device& device) {
  if (device.reserve < device.memory) return;
  place.fail(fmt::format("{}: reserve {} leaves nothing of the memory {}", owner,
                         format_bytes(device.reserve.value), format_bytes(device.memory.value)));
}

void DeviceText::read(const Place& place, std::string_view name, Words rest, Device& device) {
  name = get_current_field_name(name);
  if (name == "peak") return read_peak(place, rest, device);
  if (name == "kernels") return read_kernels(place, rest, device);
  if (name == "measured") return device.measured.add(parse_measured(place, rest));
  for (const auto& field : device_words()) {
    if (field.name != name) continue;
    check_once(place, name);
    return field.set(device, read_word(place, name, rest, field.words));
  }
  const auto numbers = device_numbers();
  const auto field = std::ranges::find(numbers, name, &NumberField<Device>::name);
  if (field == numbers.end()) {
    place.fail(fmt::format("{}: unknown field '{}'", owner_, to_printable(name)),
               make_suggestion(name, list_field_names()));
  }
  check_once(place, name);
  if (name == "memory" && rest.size() == 1 && rest[0] == "computer") {
    shares_computer_ = true;
    device.memory = read_computer_memory();
    return;
  }
  field->at(device) = read_number(place, name, rest, field->kind, field->may_be_zero);
}

void DeviceText::check(const Place& place, const Device& device) const {
  for (const auto& field : device_numbers()) {
    if (field.required && !seen_.contains(field.name)) {
      fail_missing_field(place, owner_, field.name, field.kind);
    }
  }
  if (device.peak.empty()) fail_missing_field(place, owner_, "peak", kPeak);
  check_reserve(place, owner_, device);
}

void DeviceText::check_once(const Place& place, std::string_view field) {
  if (!seen_.emplace(field).second) {
    place.fail(fmt::format("{}: '{}' is given twice", owner_, field));
  }
}

void DeviceText::read_peak(const Place& place, Words rest, Device& device) {
  DType type{};
  if (rest.size() < 2 || !parse_attribute(rest[0], type)) {
    place.fail(fmt::format("{}: expected {}", format_field("peak", rest), kPeak.form),
               fmt::format("element types: {}", fmt::join(kDTypeNames, ", ")));
  }
  const auto field = fmt::format("peak {}", rest[0]);
  check_once(place, field);
  device.peak[type] = FlopsPerSecond{read_number(place, field, rest.subspan(1), kPeak, false)};
}

// Reads the number of kernels of an operator. "kernels softmax 4 3 unless 8" means 4 in the forward
// pass and 3 in the backward pass (by default the same). It is one kernel if the number of matrices
// is a multiple of 8.
void DeviceText::read_kernels(const Place& place, Words rest, Device& device) {
  const auto& all = ops::all_ops();
  const auto known = [&](std::string_view name) {
    return std::ranges::any_of(all, [&](const auto* op) { return op->name == name; });
  };
  double unless = 0;
  if (rest.size() > 3 && rest[rest.size() - 2] == "unless") {
    unless = read_number(place, "unless", rest.last(1), kNumber, false);
    rest = rest.first(rest.size() - 2);
  }
  if (rest.size() < 2 || rest.size() > 3) {
    place.fail(
        fmt::format("{}: expected an operator and the number of kernels that execute it",
                    format_field("kernels", rest)),
        "write it like 'kernels softmax 4', or 'kernels softmax 4 3' to include the backward pass");
  }
  if (!known(rest[0])) {
    place.fail(fmt::format("{}: unknown operator '{}'", format_field("kernels", rest),
                           to_printable(rest[0])),
               "`tandem ops` lists the operators");
  }
  const auto field = fmt::format("kernels {}", rest[0]);
  check_once(place, field);
  Software::Kernels out{.unless = unless};
  out.forward = read_number(place, field, rest.subspan(1, 1), kNumber, true);
  out.backward =
      rest.size() == 3 ? read_number(place, field, rest.subspan(2), kNumber, true) : out.forward;
  device.software.kernels[std::string(rest[0])] = out;
}

}  // namespace tandem::machine
