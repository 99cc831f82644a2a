// Caches operators that are compiled for the field (generate/kernel.h) at operands of given sizes.
// A verdict computes hundreds of instances, whose sizes are small and mostly recur in other
// instances and rules. Only operators that recur are compiled.
#pragma once

#include <memory>
#include <unordered_map>

#include "generate/kernel.h"

namespace tandem::verify {

// A cache of kernels, one for each thread.
class KnownKernels {
 public:
  // Clears the cache when its kernels exceed `most` bytes.
  explicit KnownKernels(std::size_t most = std::size_t{1} << 26U) : most_(most) {}

  static KnownKernels& get_thread_cache();

  struct CachedKernel {
    unsigned asked = 0;
    bool has_none = false;
    // Null if the operator has not recurred often enough, or has no kernel: random, empty or large
    // operators.
    std::unique_ptr<const generate::FieldKernel> kernel;
    bool is_tried = false;  // whether it has matched the slow evaluation once
  };
  // Returns the entry of a signature, which is interned. It stays valid until the next call.
  CachedKernel& find_or_compile(const ops::Signature& signature);

  generate::Scratch scratch;  // used when kernels run

 private:
  std::size_t most_;
  std::size_t bytes_ = 0;  // total of all kernels
  std::unordered_map<const ops::Signature*, CachedKernel> known_;
};

}  // namespace tandem::verify
