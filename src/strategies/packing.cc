#include "strategies/packing.h"

#include <algorithm>
#include <numeric>

#include "machine/layout.h"

namespace tandem::strategies {

namespace {

using machine::Digits;

bool has_named_places(const Digits& digits, machine::DigitMask mask, std::int64_t rank) {
  for (std::size_t i = 0; i < digits.count(); ++i) {
    if ((mask >> i & 1U) != 0 &&
        digits.coordinate_of_rank(rank, mask, i) >= machine::DigitRole::kPlaces) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::vector<std::int64_t> pack(const std::vector<Load>& loads, const Digits& digits) {
  std::vector<std::size_t> order(loads.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater{}, [&](auto i) { return loads[i].bytes; });

  std::vector<std::int64_t> ranks(loads.size());
  std::vector<Bytes> held(static_cast<std::size_t>(digits.devices()));
  // Rank of each device among those that differ only in `whole`.
  std::vector<std::int64_t> rank_of(held.size());
  machine::DigitMask whole = 0;
  for (auto i : order) {
    const auto& load = loads[i];
    // Load of the fullest device at each rank.
    std::vector<Bytes> fullest(static_cast<std::size_t>(digits.group_size(load.whole)));
    if (i == order[0] || load.whole != whole) {
      whole = load.whole;
      for (std::size_t d = 0; d < rank_of.size(); ++d) {
        rank_of[d] = digits.rank_in_group(static_cast<std::int64_t>(d), whole);
      }
    }
    for (std::size_t d = 0; d < held.size(); ++d) {
      auto& most = fullest[static_cast<std::size_t>(rank_of[d])];
      most = std::max(most, held[d]);
    }
    std::int64_t best = 0;
    for (std::int64_t rank = 1; rank < std::ssize(fullest); ++rank) {
      const auto at = static_cast<std::size_t>(rank);
      if (fullest[at] < fullest[static_cast<std::size_t>(best)] &&
          has_named_places(digits, load.whole, rank)) {
        best = rank;
      }
    }
    ranks[i] = best;
    for (std::size_t d = 0; d < held.size(); ++d) {
      if (rank_of[d] == best) held[d] += load.bytes;
    }
  }
  return ranks;
}

}  // namespace tandem::strategies
