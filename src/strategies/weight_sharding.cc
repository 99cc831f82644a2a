#include "strategies/weight_sharding.h"

#include <bit>
#include <optional>

#include "strategies/spread.h"

namespace tandem::strategies {

machine::Layout shard_weight(machine::Layout layout, const Shape& sizes, machine::DigitMask over,
                             const machine::Digits& digits) {
  using machine::DigitMask;
  using machine::DigitRole;
  const auto replicas = layout.digits(DigitRole::kReplica) & over;
  std::optional<std::size_t> best;
  DigitMask most = 0;
  for (std::size_t d = 0; d < sizes.rank(); ++d) {
    const auto there = layout.digits(DigitRole::dim(d));
    // Only inside the digits that already split the dimension: others could not be gathered without
    // gathering those.
    const auto inside = replicas & ~(there == 0 ? 0 : 2 * std::bit_floor(there) - 1);
    const auto mask = find_dividing_digits(digits, inside, sizes[d] / digits.group_size(there));
    if (digits.group_size(mask) > digits.group_size(most)) {
      most = mask;
      best = d;
    }
  }
  for (std::size_t i = 0; i < digits.count(); ++i) {
    if (machine::has_digit(most, i)) layout.set(i, DigitRole::dim(*best));
  }
  return layout;
}

}  // namespace tandem::strategies
