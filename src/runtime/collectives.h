// The steps of machine/reshard.h on this process's shard, by MPI: rank = device. Every device of a
// group calls `move` with its shard and gets its shard of the same tensor in the new layout.
#pragma once

#include <mpi.h>

#include <map>
#include <vector>

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
  // with `shard` (a step over the micro-batches is the process's own). A shard that only the
  // caller's argument holds may be overwritten.
  at::Tensor move(const machine::ReshardStep& step, at::Tensor shard, const Shape& local,
                  at::ScalarType type, std::int64_t micro_batch = 0) const;

  // The same for several tensors by one all-reduce or reduce-scatter: `steps` are of one kind over
  // the same digits. The results may share memory with each other.
  [[nodiscard]] std::vector<at::Tensor> move_together(
      const std::vector<machine::ReshardStep>& steps, const std::vector<at::Tensor>& shards,
      const std::vector<Shape>& locals, at::ScalarType type) const;

  // A send step's two ends; `tag` tells messages apart. The sender goes on at once; `finish` waits
  // for all that was sent.
  void send(const machine::ReshardStep& step, const at::Tensor& shard, int tag);
  at::Tensor receive(const machine::ReshardStep& step, const Shape& local, at::ScalarType type,
                     int tag) const;
  void finish();

 private:
  // Digits that stay idle: the groups at their place have the tensor, the others nothing to do.
  [[nodiscard]] bool takes_part(const machine::ReshardStep& step) const;

  const machine::Digits& digits_;
  std::int64_t device_;
  std::map<machine::DigitMask, MPI_Comm> communicators_;
  struct Sent {
    MPI_Request request;
    at::Tensor tensor;  // until it has gone
  };
  std::vector<Sent> sent_;
};

}  // namespace tandem::runtime
