// Errors for plans that a framework cannot express.
#pragma once

#include <string>

#include "base/error.h"
#include "frameworks/degrees.h"

namespace tandem::frameworks {

// Throws errors of kind `target` ("megatron"). Their place is the setting of the plan.
class Refusing {
 public:
  Refusing(std::string target, const Degrees& degrees)
      : target_(std::move(target)), where_(to_text(degrees.setting)) {}

  void when(bool condition, const std::string& message, const std::string& hint = "") const {
    if (condition) throw UserError(target_, where_, message, hint);
  }

 private:
  std::string target_;
  std::string where_;
};

}  // namespace tandem::frameworks
