#include "report/device_classes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace tandem::report {

// Matches the classes of the simulator.
machine::DigitMask find_class_digits(const lower::Program& program,
                                     const machine::Machine& machine) {
  return lower::find_class_digits(program) | find_group_digits(machine, program.digits);
}

std::vector<std::int64_t> list_class_devices(const lower::Program& program,
                                             const machine::Machine& machine) {
  return program.digits.group(0, find_class_digits(program, machine));
}

std::string class_text(const lower::Program& program, const machine::Machine& machine,
                       std::int64_t device) {
  const auto& digits = program.digits;
  const auto members = digits.group(device, digits.space() & ~find_class_digits(program, machine));
  constexpr std::size_t kListed = 4;
  std::string list;
  for (std::size_t i = 0; i < std::min(members.size(), kListed); ++i) {
    list += fmt::format("{}{}", i == 0 ? "" : ", ", members[i]);
  }
  if (members.size() == 1) return "device " + list;
  return fmt::format("devices {}{} ({} equivalent)", list, members.size() > kListed ? ", ..." : "",
                     members.size());
}

std::string stream_text(const machine::Machine& machine, std::uint32_t stream) {
  if (stream == 0) return "compute";
  const auto levels = static_cast<std::uint32_t>(machine.levels.size());
  constexpr std::array kWhat = {"collectives", "sends", "receives"};
  return fmt::format("{}: {}", machine.levels[(stream - 1) % levels].name,
                     kWhat[(stream - 1) / levels]);
}

std::vector<bool> choose_shown_classes(const predict::Simulation& simulation, std::size_t classes,
                                       std::size_t most_spans) {
  std::vector<std::size_t> spans(classes);
  for (const auto& span : simulation.timeline) ++spans[span.device_class];
  std::vector<bool> out(classes);
  out[simulation.busiest] = true;
  auto count = spans[simulation.busiest];
  for (std::size_t c = 0; c < classes; ++c) {
    if (out[c] || count + spans[c] > most_spans) continue;
    out[c] = true;
    count += spans[c];
  }
  return out;
}

}  // namespace tandem::report
