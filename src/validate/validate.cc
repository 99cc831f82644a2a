#include "validate/validate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <mutex>

#include "base/parallel.h"
#include "predict/task_work.h"
#include "validate/curve.h"
#include "validate/relative_memory.h"

namespace tandem::validate {

namespace {

constexpr double kMargin = 0.08;
constexpr std::size_t kLeastSweep = 3;
constexpr double kHalfOfPeak = 0.5;

// Numbers by which a record is judged.
struct RecordJudgment {
  const Record* record = nullptr;
  std::optional<Pair> time;        // iterations
  std::optional<double> constant;  // iteration time at 50 % of peak
  std::vector<Pair> memory;
  std::optional<double> curve;  // mean absolute error
  bool predicted = false;
  bool unstated = false;
};

struct Outcome {
  std::vector<Row> rows;
  RecordJudgment judged;
};

std::string explain_skipped_kind(const Record& record) {
  if (record.kind == "hardware") return "hardware facts are not predicted";
  if (record.kind == "reference_prediction") return "the record is another tool's prediction";
  constexpr std::array<std::string_view, 7> kPredicted = {
      "train_step", "train_run", "throughput", "mfu", "memory", "oom", "collective"};
  if (std::ranges::find(kPredicted, record.kind) != kPredicted.end()) return {};
  return fmt::format("the kind '{}' is unknown", record.kind);
}

std::optional<double> predict_at_half_of_peak(const Record& record) {
  const auto flops = count_hardware_flops(record);
  const auto machine = build_machine(record.system);
  const auto* f = std::get_if<Flops>(&flops);
  const auto* m = std::get_if<machine::Machine>(&machine);
  if (f == nullptr || m == nullptr) return std::nullopt;
  const auto peak = predict::get_peak(m->device, DType::kFp16);
  return (*f / peak).value / kHalfOfPeak / static_cast<double>(m->devices());
}

// Computes the rows of one record.
class RecordJudge {
 public:
  RecordJudge(const Record& record, const Predictor& predictor)
      : record_(record), predictor_(predictor) {
    out_.judged.record = &record;
  }

  Outcome run() {
    const auto reason = explain_skipped_kind(record_);
    if (!reason.empty()) return skip_all({reason});
    if (!record_.unreadable.empty()) return skip_all({record_.unreadable});
    if (record_.measured.empty()) return skip_all({"nothing was measured"});
    for (const auto& metric : record_.measured) add(metric);
    return std::move(out_);
  }

 private:
  Outcome skip_all(const Skipped& why) {
    for (const auto& metric : record_.measured) skip(make_row(metric.name), why);
    if (record_.measured.empty()) skip(make_row(""), why);
    return std::move(out_);
  }

  [[nodiscard]] Row make_row(const std::string& metric) const {
    return {.id = record_.id, .group = record_.group, .metric = metric};
  }

  void skip(Row row, const Skipped& why) {
    row.skipped = why.reason;
    row.predicted.reset();
    out_.judged.unstated = out_.judged.unstated || why.unstated;
    out_.rows.push_back(std::move(row));
  }

  void add(const Metric& metric) {
    auto r = make_row(metric.name);
    if (const auto* curve = std::get_if<std::vector<CurvePoint>>(&metric.value)) {
      return add_curve(std::move(r), *curve);
    }
    if (const auto* value = std::get_if<double>(&metric.value)) r.measured = *value;
    if (const auto* value = std::get_if<bool>(&metric.value)) r.measured = *value ? 1 : 0;
    const auto kind = find_metric_kind(metric.name);
    if (kind == MetricKind::kOther) return skip(std::move(r), {"this metric is not predicted"});
    if (r.measured && *r.measured < 0)
      return skip(std::move(r), {"the measured number is negative"});
    if (!r.measured || (kind != MetricKind::kOom && !(*r.measured > 0))) {
      return skip(std::move(r), {"nothing was measured"});
    }
    const auto& predicted = get_prediction();
    if (const auto* skipped = std::get_if<Skipped>(&predicted)) return skip(std::move(r), *skipped);
    const auto& p = std::get<Prediction>(predicted);
    if (kind == MetricKind::kTime) return add_time(std::move(r), p);
    if (kind == MetricKind::kMemory) return add_memory(std::move(r), p);
    if (kind == MetricKind::kRelativeMemory) return add_relative_memory(std::move(r), p);
    r.answer = classify_fit(p.memory, p.limit);
    r.filled = p.memory / p.limit;
    r.predicted = p.memory > p.limit ? 1 : 0;
    finish(std::move(r));
  }

  void add_curve(Row r, const std::vector<CurvePoint>& points) {
    const auto times = predict_curve_times(record_, points);
    if (const auto* skipped = std::get_if<Skipped>(&times)) return skip(std::move(r), *skipped);
    std::vector<Pair> pairs;
    for (std::size_t i = 0; i < points.size(); ++i) {
      pairs.push_back({points[i].time.value, std::get<std::vector<Seconds>>(times)[i].value});
    }
    r.measured = r.predicted = 0;
    for (const auto& p : pairs) {
      *r.measured += p.measured / static_cast<double>(pairs.size());
      *r.predicted += p.predicted / static_cast<double>(pairs.size());
    }
    r.error = out_.judged.curve = mean_absolute_error(pairs);
    finish(std::move(r));
  }

  void add_time(Row r, const Prediction& p) {
    const auto value = from_iteration(record_, r.metric, p.iteration);
    const auto measured = to_iteration(record_, r.metric, *r.measured);
    if (const auto* skipped = std::get_if<Skipped>(&value)) return skip(std::move(r), *skipped);
    if (const auto* skipped = std::get_if<Skipped>(&measured)) return skip(std::move(r), *skipped);
    r.predicted = std::get<double>(value);
    r.error = *r.predicted / *r.measured - 1;
    if (time_metric_.empty() || is_better_time(r.metric, time_metric_)) {
      time_metric_ = r.metric;
      out_.judged.time = Pair{std::get<Seconds>(measured).value, p.iteration.value};
      out_.judged.constant = predict_at_half_of_peak(record_);
    }
    finish(std::move(r));
  }

  void add_memory(Row r, const Prediction& p) {
    const auto value = from_memory(r.metric, p);
    if (const auto* skipped = std::get_if<Skipped>(&value)) return skip(std::move(r), *skipped);
    r.predicted = std::get<double>(value);
    r.error = *r.predicted / *r.measured - 1;
    out_.judged.memory.push_back({*r.measured, *r.predicted});
    finish(std::move(r));
  }

  void add_relative_memory(Row r, const Prediction& p) {
    const auto baseline = predict(make_baseline(record_));
    if (const auto* skipped = std::get_if<Skipped>(&baseline)) return skip(std::move(r), *skipped);
    constexpr double kPercent = 100;
    const auto& whole = std::get<Prediction>(baseline).activations;
    if (whole == Bytes{}) return skip(std::move(r), {"the baseline has no activations"});
    r.predicted = kPercent * (p.activations / whole);
    r.error = *r.predicted / *r.measured - 1;
    out_.judged.memory.push_back({*r.measured, *r.predicted});
    finish(std::move(r));
  }

  void finish(Row r) {
    out_.judged.predicted = true;
    out_.rows.push_back(std::move(r));
  }

  const std::variant<Prediction, Skipped>& get_prediction() {
    if (!prediction_) prediction_ = predict(record_);
    return *prediction_;
  }

  [[nodiscard]] std::variant<Prediction, Skipped> predict(const Record& record) const {
    auto job = make_job(record);
    if (auto* skipped = std::get_if<Skipped>(&job)) return std::move(*skipped);
    return predictor_(std::get<ValidationJob>(job));
  }

  const Record& record_;
  const Predictor& predictor_;
  Outcome out_;
  std::optional<std::variant<Prediction, Skipped>> prediction_;
  std::string time_metric_;  // metric by which the record is judged
};

std::vector<Outcome> judge_all(const std::vector<Record>& records, const RunOptions& options) {
  std::vector<Outcome> out(records.size());
  std::atomic<std::size_t> done = 0;
  std::mutex telling;
  parallel_for(records.size(), options.threads, [&](std::size_t i) {
    out[i] = RecordJudge(records[i], options.predictor).run();
    ++done;
    if (!options.progress) return;
    const std::scoped_lock lock(telling);
    options.progress(done, records.size());
  });
  return out;
}

std::vector<double> compute_absolute_errors(std::span<const Pair> pairs) {
  std::vector<double> out;
  out.reserve(pairs.size());
  for (const auto& p : pairs) out.push_back(std::abs(p.predicted / p.measured - 1));
  return out;
}

void add_sweeps(const std::vector<const RecordJudgment*>& members, GroupReport& out) {
  std::map<std::string, std::vector<Pair>> sweeps;
  for (const auto* j : members) {
    if (j->time) sweeps[make_sweep_key(*j->record)].push_back(*j->time);
  }
  std::vector<double> correlations;
  std::vector<double> regrets;
  for (const auto& [key, pairs] : sweeps) {
    if (pairs.size() < kLeastSweep) continue;
    ++out.sweeps;
    regrets.push_back(regret(pairs));
    if (const auto rho = spearman(pairs)) correlations.push_back(*rho);
  }
  const auto mean = [](const std::vector<double>& values) -> std::optional<double> {
    if (values.empty()) return std::nullopt;
    double sum = 0;
    for (auto v : values) sum += v;
    return sum / static_cast<double>(values.size());
  };
  out.sweep_spearman = mean(correlations);
  out.regret = mean(regrets);
  if (!regrets.empty()) out.worst_regret = std::ranges::max(regrets);
}

void add_constants(const std::vector<const RecordJudgment*>& members, GroupReport& out) {
  std::vector<Pair> half;
  for (const auto* j : members) {
    if (j->time && j->constant) half.push_back({j->time->measured, *j->constant});
  }
  if (half.empty()) return;
  out.constant_mape = mean_absolute_error(half);
  if (half.size() < 2) return;
  const auto others = scale_leave_one_out(half);
  out.best_constant_mape = mean_absolute_error(others);
  out.best_constant_interval = bootstrap_mean(compute_absolute_errors(others));
}

GroupReport make_group_report(const std::vector<const RecordJudgment*>& members) {
  GroupReport out;
  std::vector<Pair> times;
  std::vector<Pair> memories;
  std::vector<double> curves;
  for (const auto* j : members) {
    if (!j->predicted) ++out.skipped;
    if (j->time) times.push_back(*j->time);
    memories.insert(memories.end(), j->memory.begin(), j->memory.end());
    if (j->curve) curves.push_back(*j->curve);
  }
  out.memory_n = memories.size();
  out.memory_mape = mean_absolute_error(memories);
  const auto& pairs = times.empty() ? memories : times;
  if (!pairs.empty()) {
    out.by = times.empty() ? "memory" : "time";
    out.n = pairs.size();
    out.mape = mean_absolute_error(pairs);
    out.bias = bias(pairs);
    out.interval = bootstrap_mean(compute_absolute_errors(pairs));
    out.spearman = spearman(pairs);
  } else if (!curves.empty()) {
    out.by = "curve";
    out.n = curves.size();
    for (auto error : curves) out.mape += error / static_cast<double>(curves.size());
    out.interval = bootstrap_mean(curves);
  }
  add_sweeps(members, out);
  add_constants(members, out);
  return out;
}

OomReport make_oom_report(const std::vector<Row>& rows) {
  OomReport out;
  std::size_t caught = 0;
  std::size_t decided_out = 0;
  std::size_t alarms = 0;
  std::size_t decided_ran = 0;
  for (const auto& row : rows) {
    if (!row.answer) continue;
    const bool ran_out = *row.measured > 0;
    ++out.n;
    out.ran_out += ran_out ? 1 : 0;
    if (*row.answer == Answer::kMargin) {
      ++out.margin;
      out.margin_ids.push_back(row.id);
      continue;
    }
    const bool said_no = *row.answer == Answer::kDoesNotFit;
    (ran_out ? decided_out : decided_ran) += 1;
    if (said_no) (ran_out ? caught : alarms) += 1;
  }
  const auto part = [](std::size_t a, std::size_t b) -> std::optional<double> {
    if (b == 0) return std::nullopt;
    return static_cast<double>(a) / static_cast<double>(b);
  };
  out.recall = part(caught, decided_out);
  out.false_alarms = part(alarms, decided_ran);
  out.recall_of_all = part(caught, out.ran_out);
  return out;
}

void add_coverage(const std::vector<Outcome>& outcomes, ValidationReport& out) {
  double steps = 0;
  double stated = 0;
  double predicted = 0;
  for (const auto& o : outcomes) {
    if (o.judged.record->kind != "train_step") continue;
    steps += 1;
    predicted += o.judged.predicted ? 1 : 0;
    stated += o.judged.predicted || !o.judged.unstated ? 1 : 0;
  }
  if (stated > 0) out.coverage = predicted / stated;
  if (steps > 0) out.coverage_of_all = predicted / steps;
}

}  // namespace

Answer classify_fit(Bytes memory, Bytes limit) {
  const auto over = memory / limit - 1;
  if (std::abs(over) <= kMargin) return Answer::kMargin;
  return over > 0 ? Answer::kDoesNotFit : Answer::kFits;
}

std::string make_sweep_key(const Record& record) {
  const auto text = [](const Count& n) { return n ? fmt::format("{}", *n) : "?"; };
  const auto& m = record.model;
  const auto batch = find_global_batch(record);
  const auto* sequences = std::get_if<std::int64_t>(&batch);
  return fmt::format("{} {} {} {} {} {} {} | {} {} | {} {}", m.type, text(m.layers), text(m.hidden),
                     text(m.heads), text(m.ffn), text(m.vocab), text(m.seq_len), record.system.gpu,
                     text(record.system.n_gpus), sequences == nullptr ? 0 : *sequences,
                     record.options.dtype);
}

ValidationReport validate(const std::vector<Record>& records, const RunOptions& options) {
  auto outcomes = judge_all(records, options);
  ValidationReport out;
  std::map<std::string, std::vector<const RecordJudgment*>> groups;
  std::vector<Pair> times;
  for (auto& o : outcomes) {
    groups[o.judged.record->group].push_back(&o.judged);
    if (o.judged.time) times.push_back(*o.judged.time);
    std::ranges::move(o.rows, std::back_inserter(out.rows));
  }
  for (const auto& [name, members] : groups) out.groups[name] = make_group_report(members);
  out.mape = mean_absolute_error(times);
  out.oom = make_oom_report(out.rows);
  add_coverage(outcomes, out);
  for (const auto& record : records) {
    for (const auto& field : record.unread) ++out.unread[field];
  }
  return out;
}

}  // namespace tandem::validate
