// Training by a program against the same training by one device: the loss, every weight's
// gradient and every updated weight of a step, in a prime field, where equal means equal to the
// last bit. Of several steps where updates are delayed, so that the delay shows.
#pragma once

#include <string>

#include "lower/program.h"

namespace tandem::check {

struct Comparison {
  std::size_t tensors = 0;   // compared
  double worst_error = 0;    // in double, relative to the tensor's largest element; 0 if all agree
  std::string where = {};    // the node of the first tensor that differs
  std::string message = {};  // what is wrong there; empty if all agree

  [[nodiscard]] bool agrees() const { return message.empty(); }
};

// Of a program of training with plain SGD. Runs both, which is only for small sizes.
Comparison compare_step(const lower::Program& program);

}  // namespace tandem::check
