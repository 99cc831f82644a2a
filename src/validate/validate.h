// Compares predictions with published measurements: every number of every record, then statistics
// by group. Two trivial baselines and the out-of-memory answers have statistics too.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "validate/metric.h"
#include "validate/predict.h"
#include "validate/record.h"
#include "validate/statistics.h"

namespace tandem::validate {

enum class Answer : std::uint8_t { kFits, kMargin, kDoesNotFit };
// Returns whether `memory` fits `limit`. Within 8 % of the limit, either way, the answer is
// kMargin.
Answer classify_fit(Bytes memory, Bytes limit);

// One number of one record.
struct Row {
  std::string id;
  std::string group;
  std::string metric;
  std::optional<double> measured = {};  // 1 or 0 for oom
  std::optional<double> predicted = {};
  std::optional<double> error = {};   // signed fraction; for a curve, mean of the absolute ones
  std::optional<Answer> answer = {};  // for oom
  std::optional<double> filled = {};  // for oom: predicted peak divided by the limit
  std::string skipped = {};           // the reason; empty if it is predicted
};

struct GroupReport {
  std::size_t n = 0;        // records judged by time, else by memory, else by curve
  std::size_t skipped = 0;  // records with no predicted number
  std::string by;           // judged metrics: "time", "memory", "curve"; empty for none
  double mape = 0;
  double bias = 0;
  Interval interval{};  // of mape, 95 %
  std::optional<double> spearman;
  // Sweeps: three or more strategies for the same network, machine and batch.
  std::size_t sweeps = 0;
  std::optional<double> sweep_spearman;  // mean
  std::optional<double> regret;          // mean
  std::optional<double> worst_regret;
  // Errors of two trivial baselines: 50 % of peak, and the constant that is best for the other
  // records.
  std::optional<double> constant_mape;
  std::optional<double> best_constant_mape;
  std::optional<Interval> best_constant_interval;
  std::size_t memory_n = 0;  // number of memory metrics
  double memory_mape = 0;

  // Returns whether the group has enough records to be judged. Smaller groups are only reported.
  [[nodiscard]] bool is_judged() const { return n >= 15; }
};

struct OomReport {
  std::size_t n = 0;  // records that state whether memory ran out
  std::size_t ran_out = 0;
  std::size_t margin = 0;  // answered "within the margin"
  // Among answers outside the margin: share of runs out of memory that were predicted not to fit,
  // and share of successful runs that were predicted not to fit (false positives).
  std::optional<double> recall;
  std::optional<double> false_alarms;
  std::optional<double> recall_of_all;  // answers within the margin count as missed
  std::vector<std::string> margin_ids;
};

struct ValidationReport {
  std::vector<Row> rows;
  std::map<std::string, GroupReport> groups;
  OomReport oom;
  // Share of predicted training steps: of those that state what was run, and of all.
  std::optional<double> coverage;
  std::optional<double> coverage_of_all;
  double mape = 0;                            // over all records judged by time
  std::map<std::string, std::size_t> unread;  // unused fields, with their numbers of records
};

// Predicts one record, for example on a measured or fitted machine instead of the built-in one.
using Predictor = std::function<std::variant<Prediction, Skipped>(const ValidationJob&)>;

struct RunOptions {
  Predictor predictor = predict;
  std::function<void(std::size_t done, std::size_t all)> progress;
  unsigned threads = 1;
};

ValidationReport validate(const std::vector<Record>& records, const RunOptions& options);

// Returns the fields that records of one sweep over strategies share, as text.
std::string make_sweep_key(const Record& record);

}  // namespace tandem::validate
