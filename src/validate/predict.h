// What this program predicts for a job.
#pragma once

#include <memory>
#include <variant>

#include "lower/program.h"
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

// A job lowered: what does not depend on the machine's speed is done once, so that fits can ask
// again and again.
class LoweredJob {
 public:
  // The first of the job's settings that fits its machine's memory, else the last.
  static std::variant<LoweredJob, Skipped> make(const Job& job);

  // The same devices and links, faster or slower.
  [[nodiscard]] Prediction on(const machine::Machine& machine) const;

 private:
  LoweredJob(std::string strategy, lower::Program program)
      : strategy_(std::move(strategy)),
        program_(std::make_shared<const lower::Program>(std::move(program))) {}

  std::string strategy_;
  std::shared_ptr<const lower::Program> program_;
};

std::variant<Prediction, Skipped> predict(const Job& job);

}  // namespace tandem::validate
