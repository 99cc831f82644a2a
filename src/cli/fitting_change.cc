#include "cli/fitting_change.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "base/text.h"
#include "cli/interrupt.h"
#include "search/least_memory.h"

namespace tandem::cli {

namespace {

constexpr int kDoublings = 6;  // of the machine, and halvings of the batch, that are tried

bool can_fit(const Job& job) {
  try {
    auto setup = resolve(job);
    setup.options.until.first_fit = true;
    setup.options.algebra = search::Algebra::kNone;
    if (search::is_too_large(setup.graph, setup.machine, setup.options)) return false;
    return find_plan(setup).best.has_value();
  } catch (const UserError&) {  // a batch or a size that there cannot be
    return false;
  }
}

// The least n from 1 to `most` at which something fits, if it does at the most: what fits at some n
// fits at more.
template <class FitsAt>
std::optional<int> least_that_fits(int most, FitsAt&& fits_at) {
  if (most < 1 || !fits_at(most)) return std::nullopt;
  int low = 0;
  while (most - low > 1 && !Interrupt::requested()) {
    const int middle = (low + most) / 2;
    (fits_at(middle) ? most : low) = middle;
  }
  return most;
}

// The batch halved as few times as will do.
std::optional<std::int64_t> smaller_batch(const Job& job, std::int64_t batch) {
  const auto halved = [&](int times) { return batch >> times; };
  int most = 0;
  while (most < kDoublings && halved(most + 1) >= 1) ++most;
  const auto times = least_that_fits(most, [&](int n) {
    auto changed = job;
    changed.batch = halved(n);
    return can_fit(changed);
  });
  if (!times) return std::nullopt;
  return halved(*times);
}

// "summit:8,software=x" of 2^times the size.
std::optional<std::string> enlarged(const std::string& machine_text, int times) {
  const auto colon = machine_text.find(':');
  if (colon == std::string::npos) return std::nullopt;
  const auto begin = colon + 1;
  const auto end =
      std::min(machine_text.find_first_not_of("0123456789", begin), machine_text.size());
  const auto size = parse_int(machine_text.substr(begin, end - begin));
  if (!size || *size > 100'000) return std::nullopt;
  return fmt::format("{}{}{}", machine_text.substr(0, begin), *size << times,
                     machine_text.substr(end));
}

// The machine doubled as few times as will do, for the same batch.
std::optional<std::string> larger_machine(const Job& job, std::int64_t batch) {
  if (!enlarged(job.machine_text, 1)) return std::nullopt;
  const auto times = least_that_fits(kDoublings, [&](int n) {
    auto changed = job;
    changed.batch = batch;
    changed.machine_text = *enlarged(job.machine_text, n);
    return can_fit(changed);
  });
  if (!times) return std::nullopt;
  return enlarged(job.machine_text, *times);
}

bool fits_unrestricted(Job job) {
  if (job.dims.empty() && !job.no_pipeline) return false;
  job.dims.clear();
  job.no_pipeline = false;
  return can_fit(job);
}

// In three digits, which are to be enough.
std::string enough_text(Bytes bytes) {
  const double last = std::pow(10, std::floor(std::log10(std::max(bytes.value, 1.0))) - 2);
  return bytes_text(std::ceil(bytes.value / last - 1e-9) * last);
}

bool fits_in(Job job, Bytes memory) {
  job.memory = fmt::format("{:.0f}", std::ceil(memory.value));
  job.margin.reset();
  auto setup = resolve(job);
  setup.options.until.first_fit = true;
  return find_plan(setup).best.has_value();
}

// What the smallest plan needs beyond the limit. It may be estimated, and a little too low then:
// as much is asked for as lets a search find a plan.
Bytes enough_memory(const Job& job, const Setup& setup, const search::Result& result) {
  const auto tightest = search::tightest(result.smallest.simulation, result.limits);
  const auto over = tightest.needs.peak - tightest.limit;
  if (!setup.machine.groups.empty()) return over;  // --memory is for all alike
  for (const double times : {1.0, 1.01, 1.02, 1.05}) {
    const auto memory = times * tightest.needs.peak;
    if (Interrupt::requested() || fits_in(job, memory)) return memory - tightest.limit;
  }
  return over;
}

}  // namespace

bool ended_early(const Setup& setup, const search::Result& result) {
  const auto& why = result.stop_reason;
  return (why == "budget" || why == "candidates" || why == "interrupted") &&
         !search::is_too_large(setup.graph, setup.machine, setup.options);
}

FittingChange fitting_change(const Job& job, const Setup& setup, const search::Result& result) {
  if (ended_early(setup, result)) {
    const auto over = result.smallest.over;
    return {fmt::format("a longer search, or {} more a device", enough_text(over)), over};
  }
  const auto over = enough_memory(job, setup, result);
  if (fits_unrestricted(job)) {
    return {"to allow all dimensions: without --dims and --no-pipeline", over};
  }
  std::vector<std::string> changes;
  if (const auto batch = smaller_batch(job, setup.batch)) {
    changes.push_back(fmt::format("a batch of {} instead of {}", *batch, setup.batch));
  }
  if (const auto machine = larger_machine(job, setup.batch)) {
    changes.push_back(fmt::format("{} instead of {}", *machine, job.machine_text));
  }
  changes.push_back(fmt::format("{} more a device", enough_text(over)));
  if (search::is_too_large(setup.graph, setup.machine, setup.options)) {
    changes.back() += " (weights and optimizer state alone need more than it has)";
  }
  return {join(changes, ", or "), over};
}

}  // namespace tandem::cli
