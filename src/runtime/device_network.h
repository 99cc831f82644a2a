// What devices with memory of their own say to each other. Everything is queued on the device,
// beside what computes there: nothing here makes the process wait, but `finish`.
#pragma once

#include <mpi.h>

#include <memory>
#include <vector>

#include "runtime/tensor.h"

namespace tandem::runtime {

// What was queued up to some point: the network that made it can wait for it.
using Mark = std::shared_ptr<void>;

// How many elements go to or come from every member of a group, and after how many others they lie.
struct Lengths {
  std::vector<std::int64_t> of, before;

  void add(std::int64_t length) {
    before.push_back(all());
    of.push_back(length);
  }
  [[nodiscard]] std::int64_t all() const { return of.empty() ? 0 : before.back() + of.back(); }
};

// Collectives of a group, all of whose members start the same ones in the same order. Tensors are
// contiguous, and stay as they are until the mark is passed.
class DeviceChannel {
 public:
  virtual ~DeviceChannel() = default;

  // `to` becomes the sum of all members' `from`, which may be the same tensor.
  virtual Mark sum(const at::Tensor& from, const at::Tensor& to) = 0;
  // The same where the root alone has `to`.
  virtual Mark sum_to(const at::Tensor& from, const at::Tensor& to, int root) = 0;
  // `from` is [members, ...]; `to` becomes the sum of the row that is this member's.
  virtual Mark sum_of_row(const at::Tensor& from, const at::Tensor& to) = 0;
  // `to` is [members, ...], and becomes the `from` of all.
  virtual Mark gather(const at::Tensor& from, const at::Tensor& to) = 0;
  virtual Mark gather_to(const at::Tensor& from, const at::Tensor& to, int root) = 0;
  // `tensor` becomes what it is on the root.
  virtual Mark broadcast(const at::Tensor& tensor, int root) = 0;
  // The root's `from` is [members, ...]; `to` becomes the own row.
  virtual Mark scatter(const at::Tensor& from, const at::Tensor& to, int root) = 0;
  // Of the elements of `from` every member gets some.
  virtual Mark exchange(const at::Tensor& from, const Lengths& gives, const at::Tensor& to,
                        const Lengths& takes) = 0;
};

class DeviceNetwork {
 public:
  virtual ~DeviceNetwork() = default;

  // All processes of `comm` call it.
  virtual std::unique_ptr<DeviceChannel> over(MPI_Comm comm) = 0;
  // Makes the way from one process to another, both of which call it. Ways are made one after
  // another, in the same order everywhere.
  virtual void connect(int from, int to) = 0;
  // Messages on one way arrive in the order in which they are sent.
  virtual Mark send(const at::Tensor& tensor, int to) = 0;
  virtual Mark receive(const at::Tensor& tensor, int from) = 0;

  [[nodiscard]] virtual bool is_over(const Mark& mark) const = 0;
  // What is computed from now on comes after it.
  virtual void await(const Mark& mark) = 0;
  // Waits for all that was queued and computed. Throws UserError where communication failed.
  virtual void finish() = 0;
  // Seconds for which the device had nothing to do but wait for marks, between the last two calls
  // of `finish`.
  [[nodiscard]] virtual double waited() const = 0;
};

}  // namespace tandem::runtime
