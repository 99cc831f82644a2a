// Predictions for jobs.
#pragma once

#include <memory>
#include <variant>

#include "validate/job.h"

namespace tandem::validate {

struct Prediction {
  std::string strategy;  // with all its settings
  Seconds iteration;
  Bytes memory;       // peak of the fullest device
  Bytes persistent;   // weights and optimizer state
  Bytes gradients;    // at the peak
  Bytes activations;  // at the peak
  Bytes limit;        // available to a device
};

// Whether to use estimates (predict/estimator.h) that may be off by more than 1 %. They are ten
// times as fast and good enough for fits, which make many predictions.
enum class EstimatePolicy { kNear, kRoughToo };

// A job that can be predicted, with the data that does not depend on the machine's speed.
// Predictions use an estimate; without one, the whole network is lowered and simulated.
class PreparedJob {
 public:
  // Prepares the first of the job's settings that fits its machine's memory, else the last.
  static std::variant<PreparedJob, Skipped> prepare(const ValidationJob& job,
                                                    EstimatePolicy estimates);

  // Predicts for the machine that it was prepared for.
  [[nodiscard]] Prediction predict_on_own_machine(const machine::Machine& machine) const;
  // Predicts for a machine with the same devices and links at other speeds.
  [[nodiscard]] Prediction predict_on(const machine::Machine& machine) const;

 private:
  struct PreparedData;
  explicit PreparedJob(std::shared_ptr<const PreparedData> parts) : parts_(std::move(parts)) {}

  std::shared_ptr<const PreparedData> parts_;
};

// Predicts as `simulate` does, with near estimates only.
std::variant<Prediction, Skipped> predict(const ValidationJob& job);

}  // namespace tandem::validate
