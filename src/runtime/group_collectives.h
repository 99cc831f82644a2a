// The collectives of one group of processes over the transport that the group has: shared memory,
// MPI messages, or a device network.
#pragma once

#include <vector>

#include "runtime/collectives.h"

namespace tandem::runtime {

MPI_Datatype to_mpi(at::ScalarType type);

// Returns a number of elements as the int with which MPI counts. Throws UserError if it is too
// large.
int to_mpi_count(std::int64_t elements);
int count(const at::Tensor& t);

// Lengths as the ints with which MPI counts.
struct MpiLengths {
  explicit MpiLengths(const Lengths& lengths);
  std::vector<int> of, before;
};

// Returns a vector of `t` alone, and holds no other reference to `t`.
std::vector<at::Tensor> wrap_in_vector(at::Tensor t);

// Returns a finished transfer with result `t`, for steps that move no data.
Transfer make_finished_transfer(const at::Tensor& t);

// The collectives of one group. Blocks of a tensor along a dimension go to or come from the members
// in order of rank. In collectives with a root, `root` is the member that alone gets or has the
// whole tensor.
class GroupCollectives {
 public:
  // Tensors are in host memory unless `device` is given.
  GroupCollectives(MPI_Comm comm, SharedMemory* memory, DeviceChannel* device, std::int64_t rank,
                   std::int64_t root, std::int64_t size, at::ScalarType type);

  // Returns this member's block of `t` along `dim`.
  [[nodiscard]] at::Tensor get_block(const at::Tensor& t, std::size_t dim) const;

  // Returns the blocks of `t` along `dim` one after another in memory: [member, shard...].
  [[nodiscard]] at::Tensor arrange_blocks(const at::Tensor& t, std::size_t dim) const;

  // Works in place if no other reference to `t` exists.
  [[nodiscard]] Transfer all_reduce(at::Tensor t) const;
  [[nodiscard]] Transfer reduce(const at::Tensor& t) const;
  [[nodiscard]] Transfer reduce_scatter(at::Tensor t, std::size_t dim) const;
  [[nodiscard]] Transfer all_gather(const at::Tensor& t, std::size_t dim) const;
  [[nodiscard]] Transfer gather(const at::Tensor& t, std::size_t dim) const;
  [[nodiscard]] Transfer all_to_all(const at::Tensor& t, std::size_t from_dim,
                                    std::size_t to_dim) const;
  [[nodiscard]] Transfer broadcast(const at::Tensor& t, at::Tensor like) const;
  [[nodiscard]] Transfer scatter(const at::Tensor& t, std::size_t dim, at::Tensor like) const;

  // Sends `t` to the previous member and receives the next member's: one ring step.
  [[nodiscard]] Transfer shift(const at::Tensor& t) const;

  // Starts sending elements of `from` and receiving elements into `to`. Does not change what
  // `transfer` returns.
  void exchange(Transfer& transfer, const at::Tensor& from, const Lengths& gives,
                const at::Tensor& to, const Lengths& takes) const;

 private:
  [[nodiscard]] bool is_root() const { return rank_ == root_; }

  // Returns lengths that give each member an equal share of `t`.
  [[nodiscard]] Lengths split_evenly(const at::Tensor& t) const;

  // Returns the sizes of all members' blocks joined along `dim` (joined), or of one block of `t`
  // (cut).
  [[nodiscard]] std::vector<std::int64_t> compute_joined_sizes(const at::Tensor& block,
                                                               std::size_t dim) const;
  [[nodiscard]] std::vector<std::int64_t> compute_block_sizes(const at::Tensor& t,
                                                              std::size_t dim) const;

  // Returns a new tensor [member, shard...] for shards like `one`.
  [[nodiscard]] at::Tensor make_gather_buffer(const at::Tensor& one) const;
  // Returns a transfer that holds `in` and `out` alive and has the result `out`.
  [[nodiscard]] Transfer make_transfer(const at::Tensor& in, const at::Tensor& out) const;
  // Returns a transfer whose result is one tensor: the blocks of `out`, which is [member,
  // shard...], joined along `dim`.
  [[nodiscard]] Transfer make_joining_transfer(const at::Tensor& in, const at::Tensor& out,
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
