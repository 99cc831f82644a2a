// The steps of machine/reshard.h on this process's shard, by MPI: rank = device. Every device of a
// group calls `move` with its shard and gets its shard of the same tensor in the new layout.
#pragma once

#include <mpi.h>

#include <map>

#include "machine/reshard.h"
#include "runtime/tensor.h"

namespace tandem::runtime {

class Collectives {
 public:
  // `digits` must outlive this; the ranks of MPI_COMM_WORLD are its devices.
  Collectives(const machine::Digits& digits, std::int64_t device);
  ~Collectives();
  Collectives(const Collectives&) = delete;
  Collectives& operator=(const Collectives&) = delete;

  // Makes the communicator for groups over `mask`. All processes call it, in the same order, before
  // the first `move` over these digits.
  void prepare(machine::DigitMask mask);

  // `shard` is undefined where step.before leaves nothing on this device; the result is undefined
  // where step.after does. `local` is the shape of a shard afterwards. The result may share memory
  // with `shard`; a shard that only the caller's argument holds may be overwritten.
  at::Tensor move(const machine::ReshardStep& step, at::Tensor shard, const Shape& local,
                  at::ScalarType type) const;

 private:
  const machine::Digits& digits_;
  std::int64_t device_;
  std::map<machine::DigitMask, MPI_Comm> communicators_;
};

}  // namespace tandem::runtime
