#include "validate/fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/parallel.h"
#include "validate/least_squares.h"

namespace tandem::validate {

namespace {

using machine::Machine;

// A record to fit to.
struct FittedRecord {
  std::string size;  // of the model
  Machine machine;
  PreparedJob job;
  Seconds measured;
};

// Returns the record's preferred measurement, as an iteration time.
std::optional<Seconds> find_measured_iteration(const Record& record) {
  std::optional<Seconds> out;
  std::string best;
  for (const auto& metric : record.measured) {
    const auto* value = std::get_if<double>(&metric.value);
    if (value == nullptr || find_metric_kind(metric.name) != MetricKind::kTime) continue;
    const auto time = to_iteration(record, metric.name, *value);
    if (!std::holds_alternative<Seconds>(time)) continue;
    if (!best.empty() && !is_better_time(metric.name, best)) continue;
    best = metric.name;
    out = std::get<Seconds>(time);
  }
  return out;
}

struct FitCandidate {
  const Record* record;
  ValidationJob job;
  Seconds measured;
};

std::map<Stack, std::vector<FitCandidate>> list_candidates(const std::vector<Record>& records) {
  std::map<Stack, std::vector<FitCandidate>> out;
  for (const auto& record : records) {
    if (record.kind == "hardware" || record.kind == "reference_prediction") continue;
    const auto time = find_measured_iteration(record);
    auto job = make_job(record);
    if (!time || !std::holds_alternative<ValidationJob>(job)) continue;
    auto& j = std::get<ValidationJob>(job);
    const auto stack = make_stack(j);
    if (stack.software.empty()) continue;
    out[stack].push_back({&record, std::move(j), *time});
  }
  return out;
}

std::vector<std::size_t> pick_evenly_spaced(const std::vector<std::size_t>& all, std::size_t most) {
  if (all.size() <= most) return all;
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < most; ++i) out.push_back(all[i * all.size() / most]);
  return out;
}

// Draws `most` records, balanced over model sizes and evenly spaced within each. Otherwise two or
// three records would decide for a size with few records.
std::vector<FitCandidate> draw_balanced(std::vector<FitCandidate> all, std::size_t most) {
  std::map<std::string, std::vector<std::size_t>> by_size;
  for (std::size_t i = 0; i < all.size(); ++i) by_size[all[i].job.size].push_back(i);
  std::vector<std::vector<std::size_t>> sizes;
  sizes.reserve(by_size.size());
  for (auto& [size, places] : by_size) sizes.push_back(std::move(places));
  std::ranges::stable_sort(sizes, {}, [](const auto& places) { return places.size(); });
  std::vector<std::size_t> chosen;
  for (std::size_t s = 0; s < sizes.size(); ++s) {
    const auto share = (most - chosen.size()) / (sizes.size() - s);
    for (auto i : pick_evenly_spaced(sizes[s], share)) chosen.push_back(i);
  }
  std::ranges::sort(chosen);
  std::vector<FitCandidate> out;
  out.reserve(chosen.size());
  for (auto i : chosen) out.push_back(std::move(all[i]));
  return out;
}

std::vector<FittedRecord> prepare_samples(std::vector<FitCandidate> all,
                                          const FitOptions& options) {
  auto chosen = draw_balanced(std::move(all), options.most);
  std::vector<std::optional<FittedRecord>> made(chosen.size());
  parallel_for(chosen.size(), options.threads, [&](std::size_t i) {
    auto& c = chosen[i];
    auto prepared = PreparedJob::prepare(c.job, EstimatePolicy::kRoughToo);
    if (auto* job = std::get_if<PreparedJob>(&prepared)) {
      made[i] = FittedRecord{c.job.size, c.job.machine, std::move(*job), c.measured};
    }
  });
  std::vector<FittedRecord> out;
  for (auto& sample : made) {
    if (sample) out.push_back(std::move(*sample));
  }
  return out;
}

// Fits the numbers that at least one sample's machine has and that are equal on all of them.
class StackFitter {
 public:
  StackFitter(const std::vector<FittedRecord>& samples, const FitOptions& options)
      : samples_(samples), options_(options) {
    for (const auto* p : options.parameters) {
      std::optional<double> common;
      bool differs = false;
      for (const auto& sample : samples) {
        const auto value = get_value(*p, sample.machine);
        differs = differs || (value && common.value_or(*value) != *value);
        if (!common) common = value;
      }
      if (common && !differs) start_.push_back({p, std::clamp(*common, p->low, p->high)});
    }
  }

  [[nodiscard]] const FittedNumbers& start() const { return start_; }

  // Fits, from the numbers `from`, to the samples of all model sizes but `without`.
  [[nodiscard]] FittedNumbers fit(const FittedNumbers& from, const std::string& without,
                                  int iterations) const {
    std::vector<const FittedRecord*> used;
    for (const auto& sample : samples_) {
      if (sample.size != without) used.push_back(&sample);
    }
    if (used.empty()) return from;
    LeastSquares problem;
    problem.iterations = iterations;
    problem.residuals = [&](const std::vector<double>& x) { return compute_residuals(used, x); };
    std::vector<double> x;
    for (const auto& number : from) {
      problem.bounds.push_back({std::log(number.parameter->low), std::log(number.parameter->high)});
      x.push_back(std::clamp(std::log(number.value), problem.bounds.back().low,
                             problem.bounds.back().high));
    }
    return to_numbers(minimize(problem, std::move(x)));
  }

 private:
  [[nodiscard]] FittedNumbers to_numbers(const std::vector<double>& x) const {
    auto out = start_;
    for (std::size_t i = 0; i < out.size(); ++i) out[i].value = std::exp(x[i]);
    return out;
  }

  // Returns the residuals of logarithms. Each number is weakly held at its start, so that a number
  // without influence stays.
  [[nodiscard]] std::vector<double> compute_residuals(const std::vector<const FittedRecord*>& used,
                                                      const std::vector<double>& x) const {
    const auto now = to_numbers(x);
    std::vector<double> out(used.size());
    parallel_for(used.size(), options_.threads, [&](std::size_t i) {
      const auto time = used[i]->job.predict_on(with_numbers(used[i]->machine, now)).iteration;
      out[i] = std::log(time / used[i]->measured);
    });
    const auto hold = kHold * std::sqrt(static_cast<double>(used.size()));
    for (std::size_t i = 0; i < x.size(); ++i) {
      out.push_back(hold * (x[i] - std::log(start_[i].value)));
    }
    return out;
  }

  static constexpr double kHold = 0.002;
  const std::vector<FittedRecord>& samples_;
  const FitOptions& options_;
  FittedNumbers start_;
};

StackFit fit_stack(const Stack& stack, std::vector<FitCandidate> all, const FitOptions& options) {
  const auto say = [&](const std::string& what) {
    if (options.progress) {
      options.progress(fmt::format("{} with {}: {}", stack.family, stack.software, what));
    }
  };
  const auto samples = prepare_samples(std::move(all), options);
  StackFit out;
  out.n = samples.size();
  if (samples.empty()) return out;
  const StackFitter fitter(samples, options);
  say(fmt::format("{} records", samples.size()));
  out.numbers = fitter.fit(fitter.start(), "", options.iterations);
  if (!options.leave_one_out) return out;
  for (const auto& sample : samples) {
    if (out.without.contains(sample.size)) continue;
    say(fmt::format("without {}", sample.size));
    out.without[sample.size] = fitter.fit(out.numbers, sample.size, options.iterations);
  }
  return out;
}

}  // namespace

Stack make_stack(const ValidationJob& job) {
  return {job.machine.name.substr(0, job.machine.name.find(':')), job.stack};
}

Machine with_numbers(Machine machine, const FittedNumbers& numbers) {
  for (const auto& n : numbers) set_value(*n.parameter, n.value, machine);
  return machine;
}

std::map<Stack, StackFit> fit(const std::vector<Record>& records, const FitOptions& options) {
  std::map<Stack, StackFit> out;
  for (auto& [stack, all] : list_candidates(records)) {
    out[stack] = fit_stack(stack, std::move(all), options);
  }
  return out;
}

Predictor make_fitted_predictor(const std::map<Stack, StackFit>& fits) {
  return [fits](const ValidationJob& job) -> std::variant<Prediction, Skipped> {
    const auto at = fits.find(make_stack(job));
    if (at == fits.end() || at->second.n == 0) return predict(job);
    const auto& [n, numbers, without] = at->second;
    const auto own = without.find(job.size);
    auto fitted = job;
    fitted.machine = with_numbers(job.machine, own == without.end() ? numbers : own->second);
    return predict(fitted);
  };
}

std::string format_software_profile(const Stack& stack, const StackFit& fit) {
  auto out = fmt::format("# for machines/{}.machine\nsoftware {}\n", stack.family, stack.software);
  for (const auto& n : fit.numbers) {
    out +=
        fmt::format("  {:<34} # fitted to {} records\n", format_line(*n.parameter, n.value), fit.n);
  }
  return out;
}

}  // namespace tandem::validate
