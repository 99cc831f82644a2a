#include "predict/fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "base/check.h"

namespace tandem::predict {

namespace {

using machine::Step;

// Terms of the formula for a collective: time = volume / rate + steps * latency.
struct Sample {
  double volume;  // bytes
  double steps;
  double time;  // seconds, measured
};
using Samples = std::map<Step, std::map<double, Sample>>;  // by size

// Returns the time of `c` on devices joined by one link of this rate and latency.
double compute_link_time(std::int64_t devices, BytesPerSecond rate, Seconds latency,
                         const MeasuredCollective& c) {
  machine::Machine one;
  auto& level = one.levels.emplace_back();
  level.count = devices;
  level.bandwidth = rate;
  level.latency = latency;
  const machine::Digits digits(one);
  return collective_time(one, digits, c.kind, digits.all(), c.bytes).value;
}

Samples make_samples(const Profile& profile) {
  Samples out;
  for (const auto& c : profile.collectives) {
    const MeasuredCollective nothing{c.kind, Bytes{}, {}};
    out[c.kind][c.bytes.value] = {
        .volume = compute_link_time(profile.devices, BytesPerSecond{1}, Seconds{}, c),
        .steps = compute_link_time(profile.devices, BytesPerSecond{1}, Seconds{1}, nothing),
        .time = c.time.value};
  }
  return out;
}

struct LinkFit {
  double latency = 0;
  std::map<Step, std::map<double, double>> rates;  // by size, bytes/s
  double error = 0;                                // worst |log(predicted / measured time)|
};

// Returns the rates that reproduce the measured times with this latency, by size. A size whose time
// is nearly all latency gives no rate.
std::map<double, double> fit_rates(double latency, const std::map<double, Sample>& samples) {
  std::map<double, double> out;
  for (const auto& [size, s] : samples) {
    constexpr double kNearlyAll = 0.8;
    const bool last = size == samples.rbegin()->first;
    const double least = (1 - kNearlyAll) * s.time;
    const double rest = s.time - s.steps * latency;
    if (rest < least && !last) continue;
    double rate = s.volume / std::max(rest, least);
    if (!out.empty()) {
      // A longer message takes no less time, with room for rounding.
      const auto& [before, reached] = *out.rbegin();
      rate = std::min(rate, 0.99 * reached * size / before);
    }
    out[size] = rate;
  }
  return out;
}

LinkFit fit_link_at_latency(double latency, const Samples& samples) {
  LinkFit out{.latency = latency, .rates = {}};
  for (const auto& [kind, of_kind] : samples) {
    const auto& rates = out.rates[kind] = fit_rates(latency, of_kind);
    for (const auto& [size, s] : of_kind) {
      // Sizes below the first rate use that rate. The last size always has a rate.
      const double predicted = s.volume / rates.lower_bound(size)->second + s.steps * latency;
      out.error = std::max(out.error, std::abs(std::log(predicted / s.time)));
    }
  }
  return out;
}

// Returns the fit with the largest latency whose worst error is nearly minimal. A smaller latency
// would move time to the rates of short messages, and still shorter messages would lose it.
LinkFit fit_link(const Samples& samples) {
  double most = 0;
  for (const auto& [kind, of_kind] : samples) {
    const auto& shortest = of_kind.begin()->second;
    most = std::max(most, shortest.time / shortest.steps);
  }
  std::optional<LinkFit> best;
  constexpr int kTried = 200;
  constexpr double kClearlyLess = 0.02;
  for (int i = 0; i < kTried; ++i) {
    auto link = fit_link_at_latency(most * std::pow(0.98, i), samples);
    if (!best || link.error < best->error - kClearlyLess) best = std::move(link);
  }
  CHECK(best.has_value());
  return *best;
}

double compute_flop_rate(const MeasuredOperator& o) { return o.work().flops.value / o.time.value; }

// Compute rates of a device. The peak of fp32 is its largest rate, and `utilization` is the mean of
// its matmuls relative to that peak. Other types get the peak at which the same utilization gives
// their mean rate, since only large matmuls fill units for bf16 or fp16 matrices.
struct ComputeRates {
  std::map<DType, double> peaks;
  double utilization = 1;
  double launch = 0;
};

bool is_scalar_matmul(const MeasuredOperator& o) {
  return std::ranges::all_of(o.shape, [](auto n) { return n == 1; });
}

double compute_geometric_mean(const std::vector<double>& rates) {
  double sum = 0;
  for (const double rate : rates) sum += std::log(rate);
  return std::exp(sum / static_cast<double>(rates.size()));
}

ComputeRates fit_compute_rates(const Profile& profile) {
  ComputeRates out;
  std::map<DType, std::vector<double>> rates;
  for (const auto& o : profile.operators) {
    if (o.name != "linear") continue;
    if (is_scalar_matmul(o)) {
      out.launch = std::max(out.launch, o.time.value);
    } else {
      rates[o.dtype].push_back(compute_flop_rate(o));
    }
  }
  CHECK(rates.contains(DType::kFp32));
  const auto& single = rates[DType::kFp32];
  out.utilization = compute_geometric_mean(single) / *std::ranges::max_element(single);
  for (const auto& [type, of_type] : rates)
    out.peaks[type] = compute_geometric_mean(of_type) / out.utilization;
  return out;
}

double find_memory_bandwidth(const Profile& profile) {
  double least = INFINITY;
  for (const auto& o : profile.operators) {
    if (o.name == "add") least = std::min(least, o.work().bytes.value / o.time.value);
  }
  CHECK(std::isfinite(least));
  return least;
}

std::string format_device(const Profile& profile) {
  const auto compute = fit_compute_rates(profile);
  std::string out = fmt::format(
      "device cpu-core\n"
      "{}"
      "  memory computer           # [PROFILE] memory of this computer, divided equally\n"
      "  reserve {:.2g} GB            # [PROFILE] twice the memory of a process with libtorch and "
      "MPI\n"
      "  bandwidth {:.3g} GB/s        # [PROFILE] sum of two tensors of 128 MiB in all processes\n",
      profile.threads > 1
          ? fmt::format("  threads {}                 # per process\n", profile.threads)
          : "",
      2 * profile.resident.value / 1e9, find_memory_bandwidth(profile) / 1e9);
  for (const auto& [type, rate] : compute.peaks) {
    out += fmt::format("  peak {} {:.4g} GFLOP/s    # [PROFILE] {}\n", name(type), rate / 1e9,
                       type == DType::kFp32 ? "fastest matmul" : "from the mean of its matmuls");
  }
  return out + fmt::format(
                   "  compute_utilization {:.2g}  # [PROFILE] mean of the fp32 matmuls\n"
                   "  launch {:.3g} us            # [PROFILE] matmul of 1 x 1 matrices\n"
                   "  store_zeros yes           # for tokens that an expert does not receive\n"
                   "  sum_rows yes              # of embedding gradients\n"
                   "  update_in_matmuls yes    # of linear layers' weights, with plain SGD\n"
                   "  free_at_last_use yes      # gathered weights and whole gradients\n",
                   compute.utilization, compute.launch * 1e6);
}

// One process has no peer to send to, so the level gets the bandwidth of its own memory.
std::string format_level_of_one_process(const Profile& profile) {
  return fmt::format(
      "level process ?\n"
      "  bandwidth {:.4g} GB/s by_device  # of its own memory\n"
      "  latency 1 us\n",
      find_memory_bandwidth(profile) / 1e9);
}

std::string format_level(const Profile& profile) {
  if (profile.collectives.empty()) return format_level_of_one_process(profile);
  const auto link = fit_link(make_samples(profile));
  double most = 0;
  for (const auto& [kind, rates] : link.rates) {
    for (const auto& [size, rate] : rates) most = std::max(most, rate);
  }
  std::string out = fmt::format(
      "level process ?\n"
      "  bandwidth {:.4g} GB/s by_device  # [PROFILE] fastest rate below; the cores copy\n"
      "  latency {:.3g} us        # [PROFILE] from the shortest messages\n",
      most / 1e9, link.latency * 1e6);
  for (const auto& [kind, rates] : link.rates) {
    // Halos use the utilization of sends.
    const auto word = kind == Step::kSend ? "" : std::string(machine::name(kind)) + " ";
    for (const auto& [size, rate] : rates) {
      out += fmt::format("  utilization {}{:.4g} at {:.6g} KiB    # [PROFILE] {}, {:.3g} GB/s\n",
                         word, rate / most, size / 1024, machine::name(kind), rate / 1e9);
    }
  }
  return out;
}

}  // namespace

std::string format_machine(const Profile& profile, const std::string& source) {
  return fmt::format(
      "# Processes on one computer that share its memory, for `tandem train` without a cluster.\n"
      "# Created by `tandem profile`, which ran operators and collectives in all processes at "
      "once.\n"
      "# A collective that was not measured has the rates of send.\n"
      "# [PROFILE] tandem profile, {} process{}, {}\n\n"
      "machine local\n"
      "usage local:PROCESSES\n"
      "doc processes on one computer, one core each, sharing its memory\n\n{}\n{}",
      profile.devices, profile.devices == 1 ? "" : "es", source, format_device(profile),
      format_level(profile));
}

}  // namespace tandem::predict
