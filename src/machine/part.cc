#include "machine/part.h"

namespace tandem::machine {

std::optional<Machine> make_part_without(const Machine& machine, const Digits& digits,
                                         DigitMask mask) {
  if (!machine.groups.empty()) return std::nullopt;
  Machine out = machine;
  out.mappings.clear();
  for (std::size_t l = 0; l < out.levels.size(); ++l) {
    const auto parts = digits.group_size(mask, l);
    if (parts > 1 && out.levels[l].network != nullptr) {
      if (parts != out.levels[l].count) return std::nullopt;
      out.levels[l].network = nullptr;  // one unit needs no network
    }
    out.levels[l].count /= parts;
  }
  for (std::size_t l = 0; l < out.levels.size(); ++l) {
    if (!out.levels[l].shared) continue;
    out.levels[l].bandwidth =
        out.levels[l].bandwidth *
        (static_cast<double>(out.devices_below(l)) / static_cast<double>(machine.devices_below(l)));
  }
  return out;
}

}  // namespace tandem::machine
