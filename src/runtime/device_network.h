// Communication between devices that have memory of their own. All of it is queued on the device
// and overlaps with compute there. Nothing here makes the process wait, except `finish`.
#pragma once

#include <mpi.h>

#include <memory>
#include <vector>

#include "runtime/tensor.h"

namespace tandem::runtime {

// A point in a device's queue. The network that made it can wait for all that was queued before it.
using Mark = std::shared_ptr<void>;

// Number of elements that each member of a group sends or receives (`of`), and their offset in the
// tensor (`before`).
struct Lengths {
  std::vector<std::int64_t> of, before;

  void add(std::int64_t length) {
    before.push_back(total());
    of.push_back(length);
  }
  [[nodiscard]] std::int64_t total() const { return of.empty() ? 0 : before.back() + of.back(); }
};

// Collectives of one group. All members start the same ones in the same order. Tensors are
// contiguous and must not change until the returned mark is passed.
class DeviceChannel {
 public:
  virtual ~DeviceChannel() = default;

  // Stores the sum of all members' `from` in `to`, which may be the same tensor.
  virtual Mark sum(const at::Tensor& from, const at::Tensor& to) = 0;
  // Stores the sum in `to` of the root only.
  virtual Mark sum_to(const at::Tensor& from, const at::Tensor& to, int root) = 0;
  // Stores the sum of this member's rows in `to`. `from` is [members, ...].
  virtual Mark sum_of_row(const at::Tensor& from, const at::Tensor& to) = 0;
  // Gathers the `from` of all members in `to`, which is [members, ...].
  virtual Mark gather(const at::Tensor& from, const at::Tensor& to) = 0;
  virtual Mark gather_to(const at::Tensor& from, const at::Tensor& to, int root) = 0;
  // Overwrites `tensor` with the root's.
  virtual Mark broadcast(const at::Tensor& tensor, int root) = 0;
  // Stores this member's row of the root's `from`, which is [members, ...], in `to`.
  virtual Mark scatter(const at::Tensor& from, const at::Tensor& to, int root) = 0;
  // Sends to each member its part of `from`, and receives each member's part into `to`.
  virtual Mark exchange(const at::Tensor& from, const Lengths& gives, const at::Tensor& to,
                        const Lengths& takes) = 0;
};

class DeviceNetwork {
 public:
  virtual ~DeviceNetwork() = default;

  // Creates the channel of a group. All processes of `comm` call it.
  virtual std::unique_ptr<DeviceChannel> over(MPI_Comm comm) = 0;
  // Creates the connection from one process to another, both of which call it. All processes create
  // their connections one by one, in the same order.
  virtual void connect(int from, int to) = 0;
  // Sends or receives one tensor. The messages of one connection arrive in the order of sending.
  virtual Mark send(const at::Tensor& tensor, int to) = 0;
  virtual Mark receive(const at::Tensor& tensor, int from) = 0;

  [[nodiscard]] virtual bool is_over(const Mark& mark) const = 0;
  // Makes all compute that is queued from now on wait for `mark`.
  virtual void await(const Mark& mark) = 0;
  // Waits for all communication and compute in the queue. Throws UserError if communication failed.
  virtual void finish() = 0;
  // Returns the seconds between the last two calls of `finish` in which the device only waited for
  // marks.
  [[nodiscard]] virtual double waited() const = 0;
};

}  // namespace tandem::runtime
