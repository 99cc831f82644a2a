// What this program predicts for a job.
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
  Bytes limit;        // what a device may use
};

// May an estimate (predict/estimator.h) be off by more than 1 %? Ten times as fast, good enough for
// fits, which ask again and again.
enum class Estimates { kNear, kRoughToo };

// A job that can be predicted, and what of that does not depend on the machine's speed. By
// estimate; where there is none the whole network is lowered and simulated.
class PreparedJob {
 public:
  // The first of the job's settings that fits its machine's memory, else the last.
  static std::variant<PreparedJob, Skipped> make(const Job& job, Estimates estimates);

  // On the machine that it was made for.
  [[nodiscard]] Prediction on_its_own(const machine::Machine& machine) const;
  // The same devices and links, faster or slower.
  [[nodiscard]] Prediction on(const machine::Machine& machine) const;

 private:
  struct Parts;
  explicit PreparedJob(std::shared_ptr<const Parts> parts) : parts_(std::move(parts)) {}

  std::shared_ptr<const Parts> parts_;
};

// As `simulate` does: estimates are near.
std::variant<Prediction, Skipped> predict(const Job& job);

}  // namespace tandem::validate
