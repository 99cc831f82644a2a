#include "cli/fitting_change.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>

#include "base/error.h"
#include "base/text.h"
#include "cli/interrupt.h"
#include "cli/vary.h"
#include "search/least_memory.h"

namespace tandem::cli {

namespace {

// Number of doublings of the machine, and of halvings of the batch or the sequence, that are tried.
constexpr int kDoublings = 6;

// Returns the memory that the smallest strategy of `job` needs beyond the limit; 0 if something
// fits. Does not search layouts of single operators: they save little more and take long to find.
Bytes compute_shortage(const Job& job) {
  constexpr Bytes kUnknown{std::numeric_limits<double>::infinity()};
  try {
    auto setup = resolve(job);
    setup.options.until.first_fit = true;
    setup.options.layouts = false;
    if (search::is_too_large(setup.graph, setup.machine, setup.options)) return kUnknown;
    const auto found = find_plan(setup);
    if (found.best) return {};
    return found.smallest.name.empty() ? kUnknown : found.smallest.over;
  } catch (const UserError&) {  // an impossible batch or size
    return kUnknown;
  }
}

bool can_fit(const Job& job) { return compute_shortage(job) <= Bytes{}; }

using FitsAt = std::function<bool(std::int64_t)>;

// Returns the least n in (low, high] at which something fits. Requires that something fits at
// `high`, and at every number above one at which something fits.
std::int64_t bisect(std::int64_t low, std::int64_t high, const FitsAt& fits_at) {
  while (high - low > 1 && !Interrupt::is_requested()) {
    const auto middle = low + (high - low) / 2;
    (fits_at(middle) ? high : low) = middle;
  }
  return high;
}

// Returns the largest n below `now` at which something fits; nullopt if there is none. Searches
// repeated halves of `now` first, then the quarters between two of them: 64 -> one of 56, 48, 40,
// 32, 28, ...
std::optional<std::int64_t> find_largest_below(std::int64_t now, const FitsAt& fits_at) {
  const auto halved = [&](std::int64_t times) { return now >> times; };
  std::int64_t most = 0;
  while (most < kDoublings && halved(most + 1) >= 1) ++most;
  if (most == 0 || !fits_at(halved(most))) return std::nullopt;
  const auto half = halved(bisect(0, most, [&](auto times) { return fits_at(halved(times)); }));
  for (const std::int64_t quarters : {7, 6, 5}) {
    const auto n = half * quarters / 4;
    if (half % 4 == 0 && n < now && !Interrupt::is_requested() && fits_at(n)) return n;
  }
  return half;
}

// A machine's text NAME:SIZE, split around its size.
struct SizedName {
  std::string before;
  std::int64_t size = 0;
  std::string behind;  // ",software=x"

  [[nodiscard]] std::string with_size(std::int64_t other) const {
    return fmt::format("{}{}{}", before, other, behind);
  }
};

// Returns nullopt if the text has no size.
std::optional<SizedName> parse_size(const std::string& machine_text) {
  const auto colon = machine_text.find(':');
  if (colon == std::string::npos) return std::nullopt;
  const auto begin = colon + 1;
  const auto end =
      std::min(machine_text.find_first_not_of("0123456789", begin), machine_text.size());
  const auto size = parse_int(machine_text.substr(begin, end - begin));
  if (!size || *size > 100'000) return std::nullopt;
  return SizedName{machine_text.substr(0, begin), *size, machine_text.substr(end)};
}

// Returns the amount rounded up to three digits, so that the printed amount suffices.
std::string format_bytes_rounded_up(Bytes bytes) {
  const double last = std::pow(10, std::floor(std::log10(std::max(bytes.value, 1.0))) - 2);
  return format_bytes(std::ceil(bytes.value / last - 1e-9) * last);
}

bool fits_in(Job job, Bytes memory) {
  job.memory = fmt::format("{:.0f}", std::ceil(memory.value));
  job.margin.reset();
  return can_fit(job);
}

// Returns the next number above `n` whose only prime factors are 2 and 3: 27, 32, 36, 48, 54, 64,
// ...
std::int64_t find_next_smooth(std::int64_t n) {
  for (;;) {
    auto rest = ++n;
    while (rest % 2 == 0) rest /= 2;
    while (rest % 3 == 0) rest /= 3;
    if (rest == 1) return n;
  }
}

// Finds the changes of one job.
class ChangeFinder {
 public:
  ChangeFinder(const Job& job, const Setup& setup, const search::Result& result)
      : job_(job), setup_(setup), result_(result) {
    // A default batch would change with the number of devices.
    job_.batch = setup.batch;
  }

  FittingChange run() {
    FittingChange out{.changes = {}, .note = {}, .more = find_enough_memory()};
    if (fits_unrestricted()) {
      out.changes = {{"all dimensions: remove --dims and --no-pipeline", 1}};
      return out;
    }
    const auto add = [&](const std::optional<Change>& change) {
      if (change) out.changes.push_back(*change);
    };
    add(suggest_smaller_margin(out.more));
    add(suggest_more_memory(out.more));
    add(suggest_larger_machine());
    add(suggest_smaller_batch());
    add(suggest_shorter_sequence());
    add(suggest_narrower_types());
    add(suggest_simpler_optimizer());
    std::ranges::stable_sort(out.changes, {}, &Change::factor);
    if (search::is_too_large(setup_.graph, setup_.machine, setup_.options)) {
      out.note =
          "weights and optimizer state exceed the memory of all devices, even fully sharded; "
          "a smaller batch or shorter sequences cannot help";
    }
    return out;
  }

 private:
  [[nodiscard]] bool fits_unrestricted() const {
    if (job_.dims.empty() && !job_.no_pipeline) return false;
    auto job = job_;
    job.dims.clear();
    job.no_pipeline = false;
    return can_fit(job);
  }

  // Returns the memory that the smallest plan needs beyond the limit. An estimate of it may be a
  // little too low, so amounts up to 5 % larger are tried until a search finds a plan.
  [[nodiscard]] Bytes find_enough_memory() const {
    const auto [group, needs, limit] = tightest();
    const auto over = needs.peak - limit;
    if (!setup_.machine.groups.empty()) return over;  // --memory applies to all groups
    for (const double times : {1.0, 1.01, 1.02, 1.05}) {
      const auto memory = times * needs.peak;
      if (Interrupt::is_requested() || fits_in(job_, memory)) return memory - limit;
    }
    return over;
  }

  [[nodiscard]] search::Tightest tightest() const {
    return search::find_tightest(result_.smallest.simulation, result_.limits);
  }

  [[nodiscard]] Change suggest_more_memory(Bytes more) const {
    return {format_bytes_rounded_up(more) + " more memory per device",
            (tightest().limit + more) / tightest().limit};
  }

  // Returns a smaller margin that frees `more` on each device; nullopt if no margin does.
  [[nodiscard]] std::optional<Change> suggest_smaller_margin(Bytes more) const {
    constexpr double kDigits = 1000;
    const auto& options = setup_.options;
    if (options.margin == 0 || !setup_.machine.groups.empty()) return std::nullopt;
    const auto whole = options.memory.value_or(setup_.machine.device.memory);
    const auto margin = std::floor(kDigits * (options.margin - more / whole)) / kDigits;
    if (margin < 0) return std::nullopt;
    return Change{fmt::format("--margin {} instead of {}", margin, options.margin),
                  suggest_more_memory(more).factor};
  }

  // Returns the next larger machine on which something fits. Tries a few sizes one by one, then
  // sizes that divide well, because whether something fits also depends on divisibility. Stops once
  // larger machines no longer reduce the shortage: activations may not divide further.
  std::optional<Change> suggest_larger_machine() const {
    constexpr std::int64_t kOneByOne = 4;
    constexpr int kInVain = 3;
    const auto name = parse_size(job_.machine_text);
    if (!name) return std::nullopt;
    const auto first = std::max(name->size + 1, compute_least_size(name->size));
    Bytes least{std::numeric_limits<double>::infinity()};
    int in_vain = 0;
    for (auto n = first; n <= first << kDoublings;) {
      if (Interrupt::is_requested()) return std::nullopt;
      auto job = job_;
      job.machine_text = name->with_size(n);
      const auto now = compute_shortage(job);
      if (now <= Bytes{}) {
        return Change{fmt::format("{} instead of {}", job.machine_text, job_.machine_text),
                      static_cast<double>(n) / static_cast<double>(name->size)};
      }
      const bool is_next = n < first + kOneByOne - 1;
      if (!is_next) in_vain = now < least ? 0 : in_vain + 1;
      if (in_vain == kInVain) return std::nullopt;
      least = std::min(least, now);
      n = is_next ? n + 1 : find_next_smooth(n);
    }
    return std::nullopt;
  }

  // Returns the least size of the machine whose memory holds weights and optimizer state once.
  [[nodiscard]] std::int64_t compute_least_size(std::int64_t size) const {
    const auto limit = std::ranges::max(result_.limits);
    const auto devices = static_cast<double>(setup_.machine.devices()) / static_cast<double>(size);
    const auto stored = compute_stored_bytes(setup_);
    const auto least = stored / (devices * limit);
    return static_cast<std::int64_t>(std::min(std::ceil(least), 1e6));
  }

  static Bytes compute_stored_bytes(const Setup& setup) {
    return search::compute_least_stored(setup.graph, setup.options.optimizer,
                                        setup.options.precision);
  }

  std::optional<Change> suggest_smaller_batch() const {
    const auto batch = find_largest_below(setup_.batch, [&](std::int64_t n) {
      auto job = job_;
      job.batch = n;
      return can_fit(job);
    });
    if (!batch) return std::nullopt;
    return Change{fmt::format("--batch {} instead of {}", *batch, setup_.batch),
                  static_cast<double>(setup_.batch) / static_cast<double>(*batch)};
  }

  std::optional<Change> suggest_shorter_sequence() const {
    if (!setup_.model.settings.has("seq")) return std::nullopt;
    const auto now = setup_.model.settings.size("seq");
    const auto seq = find_largest_below(now, [&](std::int64_t n) {
      Variant variant{.job = job_, .strategies = {}};
      vary(variant, "seq", std::to_string(n));
      return can_fit(variant.job);
    });
    if (!seq) return std::nullopt;
    return Change{fmt::format("sequence length {} instead of {}", *seq, now),
                  static_cast<double>(now) / static_cast<double>(*seq)};
  }

  // Returns the change to `job` if something fits then. Its factor is the ratio of stored bytes.
  [[nodiscard]] std::optional<Change> try_change(const Job& job, const std::string& text) const {
    if (Interrupt::is_requested() || !can_fit(job)) return std::nullopt;
    return Change{text,
                  std::max(compute_stored_bytes(setup_) / compute_stored_bytes(resolve(job)), 1.0)};
  }

  [[nodiscard]] std::optional<Change> suggest_narrower_types() const {
    auto job = job_;
    if (!is_half(setup_.dtype)) {
      job.dtype = "bf16";
      job.grad_dtype.clear();
      auto out = try_change(job, fmt::format("--dtype bf16 instead of {}", name(setup_.dtype)));
      if (out) out->factor = get_element_size(setup_.dtype) / get_element_size(DType::kBf16);
      return out;
    }
    if (setup_.options.precision.wide_gradients) {
      job.grad_dtype = name(setup_.dtype);
      if (auto out = try_change(job, "--grad-dtype " + job.grad_dtype)) return out;
    }
    job.master = "none";
    if (!setup_.options.precision.master) return std::nullopt;
    return try_change(job, "--master none");
  }

  [[nodiscard]] std::optional<Change> suggest_simpler_optimizer() const {
    const auto now = setup_.options.optimizer;
    const auto states = [&](plan::Optimizer optimizer) {
      return plan::count_states(optimizer, setup_.options.precision, setup_.dtype);
    };
    for (const auto simpler : {plan::Optimizer::kMomentum, plan::Optimizer::kSgd}) {
      if (states(simpler) >= states(now)) continue;
      auto job = job_;
      job.optimizer = name(simpler);
      const auto text = fmt::format("--optimizer {} instead of {}", name(simpler), name(now));
      if (auto out = try_change(job, text)) return out;
    }
    return std::nullopt;
  }

  Job job_;
  const Setup& setup_;
  const search::Result& result_;
};

}  // namespace

bool has_ended_early(const Setup& setup, const search::Result& result) {
  return search::is_early(result.stop_reason) &&
         !search::is_too_large(setup.graph, setup.machine, setup.options);
}

FittingChange find_fitting_change(const Job& job, const Setup& setup,
                                  const search::Result& result) {
  if (!has_ended_early(setup, result)) return ChangeFinder(job, setup, result).run();
  const auto over = result.smallest.over;
  return {.changes = {{"a longer search", 1},
                      {format_bytes_rounded_up(over) + " more memory per device", 1}},
          .note = {},
          .more = over};
}

}  // namespace tandem::cli
