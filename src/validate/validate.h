// Holds predictions against published measurements: every number of every record, then statistics
// by group and beside them those of two models that know nothing, and what was said of runs out of
// memory.
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
// Within 8 % of what a device may use, either way, is within the margin.
Answer answer_of(Bytes memory, Bytes limit);

// One number of one record.
struct Row {
  std::string id;
  std::string group;
  std::string metric;
  std::optional<double> measured = {};  // 1 or 0 for oom
  std::optional<double> predicted = {};
  std::optional<double> error = {};   // signed fraction; of a curve the mean of its absolute ones
  std::optional<Answer> answer = {};  // of oom
  std::optional<double> filled = {};  // of oom: the predicted peak, by what a device has
  std::string skipped = {};           // the reason; empty where it is predicted
};

struct GroupReport {
  std::size_t n = 0;        // records judged by their time, else by memory, else by curve
  std::size_t skipped = 0;  // records without any number predicted
  std::string by;           // the metrics judged: "time", "memory", "curve"; empty for none
  double mape = 0;
  double bias = 0;
  Interval interval{};  // of mape, 95 %
  std::optional<double> spearman;
  // Of the sweeps: same network, machine and batch, three strategies or more.
  std::size_t sweeps = 0;
  std::optional<double> sweep_spearman;  // mean
  std::optional<double> regret;          // mean
  std::optional<double> worst_regret;
  // What a model that knows nothing reaches: 50 % of peak; the best constant for the others.
  std::optional<double> constant_mape;
  std::optional<double> best_constant_mape;
  std::optional<Interval> best_constant_interval;
  std::size_t memory_n = 0;  // numbers of memory
  double memory_mape = 0;

  // Fewer records are reported and say little.
  [[nodiscard]] bool is_judged() const { return n >= 15; }
};

struct OomReport {
  std::size_t n = 0;  // records that say whether memory ran out
  std::size_t ran_out = 0;
  std::size_t margin = 0;  // answered "within the margin"
  // Of what was decided: those that ran out and were said not to fit; those that ran and were said
  // not to fit.
  std::optional<double> recall;
  std::optional<double> false_alarms;
  std::optional<double> recall_of_all;  // answers within the margin counted as missed
  std::vector<std::string> margin_ids;
};

struct Report {
  std::vector<Row> rows;
  std::map<std::string, GroupReport> groups;
  OomReport oom;
  // Of the training steps that state what was run, those predicted; and of all of them.
  std::optional<double> coverage;
  std::optional<double> coverage_of_all;
  double mape = 0;                            // of all records judged by time
  std::map<std::string, std::size_t> unread;  // fields that are not looked at, in how many records
};

// How one record is predicted: a measured or fitted machine in place of the built-in one, say.
using Predictor = std::function<std::variant<Prediction, Skipped>(const Job&)>;

struct RunOptions {
  Predictor predictor = predict;
  std::function<void(std::size_t done, std::size_t all)> progress;
  unsigned threads = 1;
};

Report validate(const std::vector<Record>& records, const RunOptions& options);

// What records must share to be one sweep over strategies.
std::string sweep_key(const Record& record);

}  // namespace tandem::validate
