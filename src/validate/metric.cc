#include "validate/metric.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "machine/machine.h"
#include "predict/task_work.h"
#include "validate/job.h"
#include "validate/relative_memory.h"

namespace tandem::validate {

namespace {

constexpr double kTera = 1e12;
constexpr double kGiB = 1024.0 * 1024 * 1024;
constexpr double kSecondsPerHour = 3600;

// Metrics of time, preferred ones first.
constexpr std::array<std::string_view, 11> kTimes = {
    "iter_s",   "tokens_per_s_per_gpu", "samples_per_s", "tokens_per_s", "tflops_per_gpu",
    "mfu_pct",  "model_tflops_per_gpu", "hfu_pct",       "pct_peak",     "agg_pflops",
    "gpu_hours"};
constexpr std::array<std::string_view, 5> kMemories = {"mem_gib", "mem_alloc_gib", "param_opt_gib",
                                                       "activation_gib", "mem_reserved_gib"};

double to_double(std::int64_t n) { return static_cast<double>(n); }

// Data for every conversion of a decoder's operations.
struct DecoderWork {
  Sizes sizes;
  double tokens;
};
std::variant<DecoderWork, Skipped> find_decoder_work(const Record& record) {
  if (!is_decoder(record.model)) {
    return Skipped{
        fmt::format("operations are not counted for models of type '{}'", record.model.type)};
  }
  const auto sizes = find_decoder_sizes(record.model);
  if (const auto* skipped = std::get_if<Skipped>(&sizes)) return *skipped;
  const auto batch = find_global_batch(record);
  if (const auto* skipped = std::get_if<Skipped>(&batch)) return *skipped;
  const auto& s = std::get<Sizes>(sizes);
  return DecoderWork{s, to_double(std::get<std::int64_t>(batch)) * to_double(s.seq)};
}

// Returns 96 B s L h^2 (1 + s/6h + V/16Lh) with full recomputation, 72 without (arXiv:2104.04473).
double count_megatron_flops(const DecoderWork& w, bool full) {
  const auto h = to_double(w.sizes.hidden);
  const auto layers = to_double(w.sizes.layers);
  return (full ? 96 : 72) * w.tokens * layers * h * h *
         (1 + to_double(w.sizes.seq) / (6 * h) + to_double(w.sizes.vocab) / (16 * layers * h));
}

// Returns 6 per parameter and token, and 12 per layer, position and channel (arXiv:2204.02311,
// appendix B).
double count_model_flops(const Record& record, const DecoderWork& w) {
  const auto [layer, head] = count_decoder_parameters(w.sizes);
  const auto layers = to_double(w.sizes.layers);
  const auto all = layers * layer + head * (w.sizes.tied ? 1 : 2);
  const auto count = record.model.billions ? *record.model.billions * 1e9 : all;
  return w.tokens * (6 * count + 12 * layers * to_double(w.sizes.hidden) * to_double(w.sizes.seq));
}

std::variant<double, Skipped> find_peak(const Record& record) {
  const auto machine = build_machine(record.system);
  if (const auto* skipped = std::get_if<Skipped>(&machine)) return *skipped;
  return predict::get_peak(std::get<machine::Machine>(machine).device, DType::kFp16).value;
}

// The metric is an amount of work per iteration, divided by its time.
struct Rate {
  double amount;
};
// The metric is the iteration time, multiplied by a factor.
struct Multiple {
  double factor;
};
using Conversion = std::variant<Rate, Multiple, Skipped>;

// Returns the conversion of a metric of operations per device and time.
Conversion make_operations_rate(const Record& record, std::string_view metric, double devices) {
  const auto work = find_decoder_work(record);
  if (const auto* skipped = std::get_if<Skipped>(&work)) return *skipped;
  const auto& w = std::get<DecoderWork>(work);
  const bool by_megatron =
      metric == "tflops_per_gpu" || metric == "pct_peak" || metric == "agg_pflops";
  double flops = by_megatron && record.model.type == "gpt"
                     ? count_megatron_flops(w, recomputes_all(record))
                     : count_model_flops(record, w);
  if (metric == "hfu_pct" && recomputes_all(record)) flops *= 4.0 / 3;
  if (metric == "agg_pflops") return Rate{flops / 1e15};
  if (metric == "tflops_per_gpu" || metric == "model_tflops_per_gpu") {
    return Rate{flops / devices / kTera};
  }
  const auto peak = find_peak(record);
  if (const auto* skipped = std::get_if<Skipped>(&peak)) return *skipped;
  return Rate{100 * flops / devices / std::get<double>(peak)};
}

Conversion find_conversion(const Record& record, std::string_view metric) {
  if (metric == "iter_s") return Multiple{1};
  const auto batch = find_global_batch(record);
  if (const auto* skipped = std::get_if<Skipped>(&batch)) return *skipped;
  const auto samples = to_double(std::get<std::int64_t>(batch));
  if (metric == "samples_per_s") return Rate{samples};
  if (!record.system.n_gpus) return skip_unstated("the number of GPUs");
  const auto devices = to_double(*record.system.n_gpus);
  const auto needs_tokens = metric.starts_with("tokens") || metric == "gpu_hours";
  if (needs_tokens && !record.model.seq_len) return skip_unstated("the sequence length");
  if (metric == "gpu_hours") {
    for (const auto& other : record.measured) {
      if (other.name != "train_tokens") continue;
      if (const auto* tokens = std::get_if<double>(&other.value)) {
        return Multiple{*tokens / (samples * to_double(*record.model.seq_len)) * devices /
                        kSecondsPerHour};
      }
    }
    return skip_unstated("the number of tokens trained on");
  }
  if (metric == "tokens_per_s") return Rate{samples * to_double(*record.model.seq_len)};
  if (metric == "tokens_per_s_per_gpu") {
    return Rate{samples * to_double(*record.model.seq_len) / devices};
  }
  return make_operations_rate(record, metric, devices);
}

}  // namespace

MetricKind find_metric_kind(std::string_view metric) {
  if (std::ranges::find(kTimes, metric) != kTimes.end()) return MetricKind::kTime;
  if (std::ranges::find(kMemories, metric) != kMemories.end()) return MetricKind::kMemory;
  if (is_relative(metric)) return MetricKind::kRelativeMemory;
  if (metric == "oom") return MetricKind::kOom;
  if (metric == "points") return MetricKind::kCurve;
  return MetricKind::kOther;
}

bool is_better_time(std::string_view a, std::string_view b) {
  return std::ranges::find(kTimes, a) < std::ranges::find(kTimes, b);
}

std::variant<double, Skipped> from_iteration(const Record& record, std::string_view metric,
                                             Seconds iteration) {
  const auto c = find_conversion(record, metric);
  if (const auto* skipped = std::get_if<Skipped>(&c)) return *skipped;
  if (const auto* rate = std::get_if<Rate>(&c)) return rate->amount / iteration.value;
  return std::get<Multiple>(c).factor * iteration.value;
}

std::variant<Seconds, Skipped> to_iteration(const Record& record, std::string_view metric,
                                            double value) {
  const auto c = find_conversion(record, metric);
  if (const auto* skipped = std::get_if<Skipped>(&c)) return *skipped;
  if (!(value > 0)) return Skipped{fmt::format("'{}' is not positive", metric)};
  if (const auto* rate = std::get_if<Rate>(&c)) return Seconds{rate->amount / value};
  return Seconds{value / std::get<Multiple>(c).factor};
}

std::variant<double, Skipped> from_memory(std::string_view metric, const Prediction& p) {
  if (metric == "param_opt_gib") return (p.persistent + p.gradients).value / kGiB;
  if (metric == "activation_gib") return p.activations.value / kGiB;
  return p.memory.value / kGiB;
}

std::variant<Flops, Skipped> count_hardware_flops(const Record& record) {
  const auto work = find_decoder_work(record);
  if (const auto* skipped = std::get_if<Skipped>(&work)) return *skipped;
  const auto& w = std::get<DecoderWork>(work);
  const auto [layer, head] = count_decoder_parameters(w.sizes);
  const auto attention = 4 * to_double(w.sizes.seq) * to_double(w.sizes.hidden);
  const double passes = recomputes_all(record) ? 4 : 3;
  return Flops{w.tokens *
               (passes * to_double(w.sizes.layers) * (2 * layer + attention) + 3 * 2 * head)};
}

}  // namespace tandem::validate
