// Operators at operands of given sizes, compiled for the field (generate/kernel.h). A verdict
// computes hundreds of instances, whose sizes are small and mostly those of other instances and
// rules: what comes again is compiled, what comes once is not.
#pragma once

#include <memory>
#include <unordered_map>

#include "generate/kernel.h"

namespace tandem::verify {

// One for each thread.
class KnownKernels {
 public:
  // Beyond so many bytes of kernels it forgets all.
  explicit KnownKernels(std::size_t most = std::size_t{1} << 26U) : most_(most) {}

  static KnownKernels& of_thread();

  struct Known {
    unsigned asked = 0;
    bool has_none = false;
    // Null where it did not come often enough to be worth it, or has no kernel: what is random, or
    // of no elements, or large.
    std::unique_ptr<const generate::Kernel> kernel;
    bool is_tried = false;  // it has once computed what the slow evaluation does
  };
  // Of a signature, which is interned; there until the next one is asked for.
  Known& of(const ops::Signature& signature);

  generate::Scratch scratch;  // for their runs

 private:
  std::size_t most_;
  std::size_t bytes_ = 0;  // of all kernels
  std::unordered_map<const ops::Signature*, Known> known_;
};

}  // namespace tandem::verify
