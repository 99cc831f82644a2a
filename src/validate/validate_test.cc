// Predictions that are used as measurements have no error, in any unit. Reports of groups, memory
// and fits match their inputs.
#include "validate/validate.h"

#include <gtest/gtest.h>

#include <cmath>

#include "validate/fit.h"
#include "validate/record_test_support.h"

namespace tandem::validate {
namespace {

Prediction predict_record(const Record& record) {
  const auto job = make_job(record);
  return std::get<Prediction>(predict(std::get<ValidationJob>(job)));
}

Metric number(const std::string& name, double value) { return {name, value}; }

TEST(Metrics, RoundTrip) {
  const auto r = small_gpt();
  for (const char* metric :
       {"iter_s", "tokens_per_s_per_gpu", "samples_per_s", "tokens_per_s", "tflops_per_gpu",
        "mfu_pct", "hfu_pct", "model_tflops_per_gpu", "pct_peak", "agg_pflops"}) {
    EXPECT_EQ(find_metric_kind(metric), MetricKind::kTime);
    const auto value = std::get<double>(from_iteration(r, metric, Seconds{0.25}));
    EXPECT_NEAR(std::get<Seconds>(to_iteration(r, metric, value)).value, 0.25, 1e-12) << metric;
  }
}

TEST(Metrics, MatchTheFormulasOfThePapers) {
  auto r = small_gpt();
  const double tokens = 32 * 1024;
  EXPECT_DOUBLE_EQ(std::get<double>(from_iteration(r, "tokens_per_s_per_gpu", Seconds{2})),
                   tokens / 2 / 8);
  const double h = 1024;
  const double megatron = 96 * tokens * 4 * h * h * (1 + 1024 / (6 * h) + 51200 / (16.0 * 4 * h));
  EXPECT_NEAR(std::get<double>(from_iteration(r, "tflops_per_gpu", Seconds{2})),
              megatron / 2 / 8 / 1e12, 1e-9);
  r.options.recompute = "none";
  EXPECT_NEAR(std::get<double>(from_iteration(r, "tflops_per_gpu", Seconds{2})),
              megatron * 72 / 96 / 2 / 8 / 1e12, 1e-9);
  r.model.billions = 0.1;
  const double model = tokens * (6 * 0.1e9 + 12 * 4 * h * 1024);
  EXPECT_NEAR(std::get<double>(from_iteration(r, "mfu_pct", Seconds{2})),
              100 * model / 2 / 8 / 312e12, 1e-9);
  // 12 h^2 per layer, forward and backward, and attention.
  const double layer = 2 * 12 * h * h + 4 * 1024 * h;
  EXPECT_NEAR(std::get<Flops>(count_hardware_flops(r)).value,
              3 * tokens * (4 * layer + 2 * 51200 * h), 1e6);
}

TEST(Validation, HasNoErrorOnItsOwnPredictions) {
  auto r = small_gpt();
  const auto p = predict_record(r);
  r.measured = {number("iter_s", p.iteration.value), number("mem_gib", p.memory.value / 1073741824),
                number("ttt_min", 3)};
  const auto report = validate({r}, {});
  ASSERT_EQ(report.rows.size(), 3U);
  EXPECT_NEAR(report.rows[0].error.value(), 0, 1e-12);
  EXPECT_NEAR(report.rows[1].error.value(), 0, 1e-12);
  EXPECT_EQ(report.rows[2].skipped, "this metric is not predicted");
  EXPECT_EQ(report.coverage, 1);
  EXPECT_EQ(report.groups.at("g").n, 1U);
  EXPECT_FALSE(report.groups.at("g").is_judged());
}

// Three strategies of one job. The second has the fastest measurement but not the fastest
// prediction.
TEST(Validation, GroupsSweeps) {
  std::vector<Record> records;
  for (const std::int64_t tp : {1, 2, 4}) {
    auto r = small_gpt();
    r.parallel.tp = tp;
    r.parallel.pp = 1;
    r.id = std::to_string(tp);
    r.measured = {number("iter_s", predict_record(r).iteration.value)};
    records.push_back(std::move(r));
  }
  const auto right = validate(records, {}).groups.at("g");
  EXPECT_EQ(right.sweeps, 1U);
  EXPECT_EQ(right.regret, 0);
  EXPECT_EQ(right.sweep_spearman, 1);
  std::swap(records[0].measured, records[2].measured);
  const auto wrong = validate(records, {}).groups.at("g");
  EXPECT_EQ(wrong.sweep_spearman, -1);
  EXPECT_GT(wrong.regret.value(), 0);
  records[1].batch.global = 64;  // a separate sweep with one member
  EXPECT_EQ(validate(records, {}).groups.at("g").sweeps, 0U);
}

TEST(Validation, FitsAConstantUtilization) {
  std::vector<Record> records;
  for (const std::int64_t batch : {16, 32, 64}) {
    auto r = small_gpt();
    r.batch.global = batch;
    const auto flops = std::get<Flops>(count_hardware_flops(r)).value;
    r.measured = {number("iter_s", flops / (0.25 * 312e12 * 8))};
    records.push_back(std::move(r));
  }
  const auto g = validate(records, {}).groups.at("g");
  EXPECT_NEAR(g.constant_mape.value(), 0.5, 1e-9);
  EXPECT_NEAR(g.best_constant_mape.value(), 0, 1e-9);
}

TEST(Validation, ReportsWhetherAModelFits) {
  EXPECT_EQ(classify_fit(Bytes{91}, Bytes{100}), Answer::kFits);
  EXPECT_EQ(classify_fit(Bytes{93}, Bytes{100}), Answer::kMargin);
  EXPECT_EQ(classify_fit(Bytes{107}, Bytes{100}), Answer::kMargin);
  EXPECT_EQ(classify_fit(Bytes{109}, Bytes{100}), Answer::kDoesNotFit);

  // Predicted share of the available memory, and whether the run was out of memory.
  struct Case {
    double used;
    bool ran_out;
  };
  std::vector<Record> records;
  std::vector<double> used;
  for (const auto& [part, ran_out] : {Case{2, true},
                                      {0.5, true},
                                      {1.01, true},
                                      {0.5, false},
                                      {2, false},
                                      {0.5, false},
                                      {0.5, false}}) {
    auto r = small_gpt();
    r.batch.micro_size = 16;
    r.batch.global = 32 * static_cast<std::int64_t>(records.size() + 1);
    r.kind = "oom";
    r.measured = {{"oom", ran_out}};
    records.push_back(std::move(r));
    used.push_back(part);
  }
  RunOptions options;
  options.predictor = [&](const ValidationJob& job) -> std::variant<Prediction, Skipped> {
    const auto part = used[static_cast<std::size_t>(job.batch / 32 - 1)];
    return Prediction{"", Seconds{1}, Bytes{100 * part}, {}, {}, {}, Bytes{100}};
  };
  const auto oom = validate(records, options).oom;
  EXPECT_EQ(oom.n, 7U);
  EXPECT_EQ(oom.ran_out, 3U);
  EXPECT_EQ(oom.margin, 1U);
  EXPECT_EQ(oom.recall, 0.5);
  EXPECT_EQ(oom.recall_of_all, 1.0 / 3);
  EXPECT_EQ(oom.false_alarms, 0.25);
}

TEST(Validation, SkipsByKindAndReportsWhy) {
  auto fact = small_gpt();
  fact.kind = "hardware";
  fact.measured = {number("iter_s", 1)};
  auto other = small_gpt();
  other.kind = "reference_prediction";
  auto unknown = small_gpt();
  unknown.model.layers.reset();
  unknown.measured = {number("iter_s", 1)};
  auto known = small_gpt();
  known.measured = {number("iter_s", 1)};
  auto impossible = known;
  impossible.system.gpu = "TPUv4";
  auto misspelt = known;
  misspelt.kind = "train_stp";
  auto negative = known;
  negative.measured = {number("iter_s", -1)};
  const auto report = validate({fact, other, unknown, known, impossible, misspelt, negative}, {});
  ASSERT_EQ(report.rows.size(), 7U);
  EXPECT_EQ(report.rows[0].skipped, "hardware facts are not predicted");
  EXPECT_EQ(report.rows[1].skipped, "the record is another tool's prediction");
  EXPECT_EQ(report.rows[2].skipped, "the model's 'layers' is not stated");
  EXPECT_EQ(report.rows[5].skipped, "the kind 'train_stp' is unknown");
  EXPECT_EQ(report.rows[6].skipped, "the measured number is negative");
  EXPECT_EQ(report.coverage, 1.0 / 3);  // unstated records do not count
  EXPECT_EQ(report.coverage_of_all, 1.0 / 4);
}

TEST(Validation, IsTheSameForAnyNumberOfThreads) {
  std::vector<Record> records(6, small_gpt());
  for (std::size_t i = 0; i < records.size(); ++i) {
    records[i].id = std::to_string(i);
    records[i].batch.global = 16 * static_cast<std::int64_t>(i + 1);
    records[i].measured = {number("iter_s", 1)};
  }
  const auto one = validate(records, {});
  RunOptions options;
  options.threads = 3;
  const auto three = validate(records, options);
  for (std::size_t i = 0; i < records.size(); ++i) {
    EXPECT_EQ(one.rows[i].id, three.rows[i].id);
    EXPECT_EQ(one.rows[i].predicted, three.rows[i].predicted);
  }
}

// The records are measured on a machine with other numbers. The fit finds them, and predicts a
// held-out size.
TEST(Fits, RecoverTheMeasuredMachine) {
  const auto parameters = parse_parameters("compute_utilization,level gpu utilization");
  const FittedNumbers truth = {{parameters[0], 0.45}, {parameters[1], 0.33}};
  std::vector<Record> records;
  for (const std::int64_t hidden : {1024, 2048, 4096}) {
    for (const std::int64_t tp : {1, 2, 4, 8}) {
      auto r = small_gpt();
      r.id = std::to_string(records.size());
      r.model.hidden = hidden;
      r.parallel.tp = tp;
      r.parallel.pp = 1;
      auto job = std::get<ValidationJob>(make_job(r));
      job.machine = with_numbers(job.machine, truth);
      r.measured = {number("iter_s", std::get<Prediction>(predict(job)).iteration.value)};
      records.push_back(std::move(r));
    }
  }
  const auto fits = fit(records, {.parameters = parameters, .leave_one_out = true, .progress = {}});
  ASSERT_EQ(fits.size(), 1U);
  const auto& [stack, found] = *fits.begin();
  EXPECT_EQ(stack.family, "dgx_a100");
  EXPECT_EQ(stack.software, "megatron");
  EXPECT_EQ(found.n, 12U);
  EXPECT_NEAR(found.numbers[0].value, 0.45, 0.01);
  EXPECT_NEAR(found.numbers[1].value, 0.33, 0.01);
  EXPECT_EQ(found.without.size(), 3U);
  RunOptions options;
  options.predictor = make_fitted_predictor(fits);
  EXPECT_LT(validate(records, options).groups.at("g").mape, 0.01);
  const auto line = fmt::format("\n  compute_utilization {:.3g} ", found.numbers[0].value);
  EXPECT_NE(format_software_profile(stack, found).find(line), std::string::npos) << line;
}

// Both attention kernels of the layout sweep share all numbers but that of attention.
TEST(Fits, LeaveFieldsThatDifferBetweenProfilesOfOneStack) {
  std::vector<Record> records;
  for (const char* kernel : {"flash_attention2", "flash_attentionv1.0.8"}) {
    auto r = small_gpt();
    r.source = "Aleph-Alpha";
    r.options.attention = kernel;
    r.measured = {number("iter_s", 1)};
    records.push_back(std::move(r));
  }
  const auto fits =
      fit(records, {.parameters = parse_parameters("compute_utilization,attention_utilization"),
                    .progress = {}});
  ASSERT_EQ(fits.size(), 1U);
  EXPECT_EQ(fits.begin()->first.software, "aleph-alpha");
  EXPECT_EQ(fits.begin()->second.n, 2U);
  ASSERT_EQ(fits.begin()->second.numbers.size(), 1U);
  EXPECT_EQ(fits.begin()->second.numbers[0].parameter->name, "compute_utilization");
}

}  // namespace
}  // namespace tandem::validate
