// The collectives of one group of processes, on the way that there is for them: memory that they
// share, messages, or a network of devices.
#pragma once

#include <vector>

#include "runtime/collectives.h"

namespace tandem::runtime {

MPI_Datatype to_mpi(at::ScalarType type);

// Of a message, as MPI counts.
int mpi_count(std::int64_t elements);
int count(const at::Tensor& t);

// As MPI counts them.
struct MpiLengths {
  explicit MpiLengths(const Lengths& lengths);
  std::vector<int> of, before;
};

// One tensor, of which nobody else holds a copy.
std::vector<at::Tensor> only(at::Tensor t);

// What needs no moving.
Transfer done(const at::Tensor& t);

// One group's collectives. Blocks of a tensor along a dimension go to or come from the members in
// order of their rank. `root` is the member that alone gets or has the whole, where there is one.
class GroupCollectives {
 public:
  // Either tensors lie in the computer's memory, or `device` is given.
  GroupCollectives(MPI_Comm comm, SharedMemory* memory, DeviceChannel* device, std::int64_t rank,
                   std::int64_t root, std::int64_t size, at::ScalarType type);

  [[nodiscard]] at::Tensor block(const at::Tensor& t, std::size_t dim) const;

  // [member, shard...]: the blocks of `t` along `dim`, one after another in memory.
  [[nodiscard]] at::Tensor blocks(const at::Tensor& t, std::size_t dim) const;

  // In place where nobody else can see it.
  [[nodiscard]] Transfer all_reduce(at::Tensor t) const;
  [[nodiscard]] Transfer reduce(const at::Tensor& t) const;
  [[nodiscard]] Transfer reduce_scatter(at::Tensor t, std::size_t dim) const;
  [[nodiscard]] Transfer all_gather(const at::Tensor& t, std::size_t dim) const;
  [[nodiscard]] Transfer gather(const at::Tensor& t, std::size_t dim) const;
  [[nodiscard]] Transfer all_to_all(const at::Tensor& t, std::size_t from_dim,
                                    std::size_t to_dim) const;
  [[nodiscard]] Transfer broadcast(const at::Tensor& t, at::Tensor like) const;
  [[nodiscard]] Transfer scatter(const at::Tensor& t, std::size_t dim, at::Tensor like) const;

  // What the next one has.
  [[nodiscard]] Transfer shift(const at::Tensor& t) const;

  // Elements of `from` become such of `to`; the transfer's result stays as it is.
  void exchange(Transfer& transfer, const at::Tensor& from, const Lengths& gives,
                const at::Tensor& to, const Lengths& takes) const;

 private:
  [[nodiscard]] bool is_root() const { return rank_ == root_; }

  // As much of `t` for every member.
  [[nodiscard]] Lengths even(const at::Tensor& t) const;

  // The sizes of what blocks along `dim` make, and of such a block.
  [[nodiscard]] std::vector<std::int64_t> joined(const at::Tensor& block, std::size_t dim) const;
  [[nodiscard]] std::vector<std::int64_t> cut(const at::Tensor& t, std::size_t dim) const;

  [[nodiscard]] at::Tensor all_shards(const at::Tensor& one) const;
  [[nodiscard]] Transfer holding(const at::Tensor& in, const at::Tensor& out) const;
  // `out` is [member, shard...]: the result is one tensor, blocks joined along `dim`.
  [[nodiscard]] Transfer joining(const at::Tensor& in, const at::Tensor& out,
                                 std::size_t dim) const;

  MPI_Comm comm_;
  SharedMemory* memory_;
  DeviceChannel* device_;
  std::int64_t rank_;
  int root_;
  std::int64_t size_;
  MPI_Datatype type_;
  MPI_Op sum_;
};

}  // namespace tandem::runtime
