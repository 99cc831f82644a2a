// Chooses the digits that a small plan retains.
#include <algorithm>
#include <set>

#include "check/shrink.h"

namespace tandem::check {

namespace {

using machine::Digits;

std::int64_t find_least_divisor(std::int64_t n) {
  std::int64_t d = 2;
  while (n % d != 0) ++d;
  return d;
}

// Returns the smallest prime size that still contains every place in use: usually 2 or 3.
std::int64_t find_small_size(const plan::MappedGraph& mapped, std::size_t digit,
                             std::int64_t size) {
  if (size <= 3) return size;
  std::int64_t least = 2;
  for (const auto& layout : mapped.layouts) {
    if (layout[digit].is_idle()) least = std::max(least, layout[digit].place() + 1);
  }
  while (find_least_divisor(least) != least) ++least;
  return least;
}

std::int64_t choose_micro_batches(const plan::Schedule& schedule, std::int64_t ranks) {
  const auto n = schedule.micro_batches;
  if (n <= 3) return n;
  // Interleaved micro-batches come in groups of `ranks`. Delayed updates need as many.
  if (schedule.order == plan::Order::kInterleaved && ranks > 1) return ranks;
  auto small = std::max(schedule.is_delayed() ? ranks : 1, find_least_divisor(n));
  while (n % small != 0) ++small;
  return small;
}

std::int64_t count_devices(const std::vector<RetainedDigits::RetainedDigit>& digits) {
  std::int64_t out = 1;
  for (const auto& d : digits) out *= d.size;
  return out;
}

// Returns the digit's role for every tensor.
std::vector<machine::DigitRole> list_roles(const plan::MappedGraph& mapped, std::size_t digit) {
  std::vector<machine::DigitRole> out;
  for (const auto& layout : mapped.layouts) out.push_back(layout[digit]);
  return out;
}

// Splits `digits` into groups of at most `most` devices each. A larger digit is a group of its own.
std::vector<std::vector<RetainedDigits::RetainedDigit>> split_into_groups(
    const std::vector<RetainedDigits::RetainedDigit>& digits, std::int64_t most) {
  std::vector<std::vector<RetainedDigits::RetainedDigit>> out;
  for (const auto& digit : digits) {
    if (out.empty() || count_devices(out.back()) * digit.size > most) out.emplace_back();
    out.back().push_back(digit);
  }
  return out;
}

}  // namespace

std::vector<RetainedDigits> choose_digits(const plan::MappedGraph& mapped, const Digits& digits,
                                          std::int64_t most_devices) {
  const auto pipeline = mapped.schedule.digits;
  std::vector<RetainedDigits::RetainedDigit> ranks;
  std::vector<RetainedDigits::RetainedDigit> all;
  std::vector<RetainedDigits::RetainedDigit> different;
  std::set<std::pair<std::int64_t, std::vector<machine::DigitRole>>> known;
  for (std::size_t i = 0; i < digits.count(); ++i) {
    if (digits[i].level == machine::kTimeLevel) continue;
    if ((pipeline >> i & 1U) != 0) {
      ranks.push_back({i, digits[i].size});
      continue;
    }
    all.push_back({i, digits[i].size});
    const auto size = find_small_size(mapped, i, digits[i].size);
    if (known.emplace(size, list_roles(mapped, i)).second) different.push_back({i, size});
  }
  const auto micro_batches = choose_micro_batches(mapped.schedule, digits.group_size(pipeline));
  const auto choice = [&](std::vector<RetainedDigits::RetainedDigit> retained) {
    retained.insert(retained.end(), ranks.begin(), ranks.end());
    std::ranges::sort(retained, {}, &RetainedDigits::RetainedDigit::digit);
    return RetainedDigits{std::move(retained), micro_batches};
  };
  const auto most = std::max(most_devices / count_devices(ranks), kFewestDevices);
  if (count_devices(all) <= most) return {choice(all)};
  if (count_devices(different) <= most) return {choice(different)};
  std::int64_t half = 2;
  while ((half + 1) * (half + 1) <= most) ++half;
  const auto groups = split_into_groups(different, half);
  if (groups.size() == 1) return {choice(groups[0])};
  std::vector<RetainedDigits> out;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    for (std::size_t j = i + 1; j < groups.size(); ++j) {
      auto retained = groups[i];
      retained.insert(retained.end(), groups[j].begin(), groups[j].end());
      out.push_back(choice(std::move(retained)));
    }
  }
  return out;
}

}  // namespace tandem::check
