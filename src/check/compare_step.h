// Compares training by a program with the same training on one device. It compares the loss, every
// weight's gradient and every updated weight of a step. Values are in a prime field, where equal
// means equal to the last bit. If updates are delayed, several steps run, so that the delay shows.
#pragma once

#include <string>

#include "lower/program.h"

namespace tandem::check {

struct StepComparison {
  std::size_t tensors = 0;   // number of tensors compared
  double worst_error = 0;    // in double, relative to the tensor's largest element; 0 if all agree
  std::string where = {};    // node of the first tensor that differs
  std::string message = {};  // description of the difference; empty if all agree

  [[nodiscard]] bool agrees() const { return message.empty(); }
};

// Compares a program that trains with plain SGD. Runs both sides, so sizes must be small.
StepComparison compare_step(const lower::Program& program);

}  // namespace tandem::check
