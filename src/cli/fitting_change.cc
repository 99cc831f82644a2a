#include "cli/fitting_change.h"

#include <fmt/format.h>

#include <algorithm>
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

}  // namespace

std::string fitting_change(const Job& job, const Setup& setup, const search::Result& result) {
  const auto tightest = search::tightest(result.smallest.simulation, result.limits);
  if (fits_unrestricted(job)) return "to allow all dimensions: without --dims and --no-pipeline";
  std::vector<std::string> changes;
  if (const auto batch = smaller_batch(job, setup.batch)) {
    changes.push_back(fmt::format("a batch of {} instead of {}", *batch, setup.batch));
  }
  if (const auto machine = larger_machine(job, setup.batch)) {
    changes.push_back(fmt::format("{} instead of {}", *machine, job.machine_text));
  }
  changes.push_back(fmt::format("{} more a device", bytes_text(result.smallest.over.value)));
  if (tightest.needs.persistent > tightest.limit) {
    changes.back() += " (weights and optimizer state alone need more than it has)";
  }
  return join(changes, ", or ");
}

}  // namespace tandem::cli
