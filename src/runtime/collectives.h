// Executes the steps of machine/reshard.h on this process's shard; rank = device. Every device of a
// group calls `move` with its shard and gets its shard of the same tensor in the new layout. Steps
// go through shared memory inside a computer and through MPI between computers. No step blocks: a
// process that waits for one also advances all others. Steps between GPUs are queued on a
// DeviceNetwork; without one, the data goes through host memory.
#pragma once

#include <mpi.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "machine/reshard.h"
#include "runtime/device_network.h"
#include "runtime/shared_memory.h"
#include "runtime/tensor.h"
#include "term/evaluate.h"

namespace tandem::runtime {

// A step in progress.
struct Transfer {
  MPI_Request request = MPI_REQUEST_NULL;
  SharedMemory* memory = nullptr;  // Shared memory that carries it, or null
  std::int64_t exchange = 0;
  Mark mark = {};                // Set if it is queued on a device
  std::vector<at::Tensor> held;  // Tensors held alive until it is done
  // Returns the results, by tensor, after the transfer is done.
  std::function<std::vector<at::Tensor>()> result;
};

// The boxes of a tensor that one device has before and after a halo step.
struct Exchanged {
  term::Box has, gets;
};

// A message that another device will send with this tag: shape and type of its tensor.
struct Message {
  int tag = 0;
  Shape local;
  at::ScalarType type;
};

class Collectives {
 public:
  // `digits` must outlive this object; its devices are the ranks of MPI_COMM_WORLD. Tensors are on
  // `place`. `network` connects such devices, or is null.
  Collectives(const machine::Digits& digits, std::int64_t device, at::Device place = at::kCPU,
              std::unique_ptr<DeviceNetwork> network = nullptr);
  ~Collectives();
  Collectives(const Collectives&) = delete;
  Collectives& operator=(const Collectives&) = delete;

  // Creates the communicator for groups over `mask`. All processes call it in the same order,
  // before the first `move` over these mesh axis factors. `only_sends`: they carry nothing but
  // sends.
  void prepare(machine::DigitMask mask, bool only_sends = false);
  // Announces the messages that device `from` sends to device `to` in one step, in the order of
  // sending. Both devices call it before the first message, and all processes use the same order of
  // pairs.
  void expect(std::int64_t from, std::int64_t to, std::vector<Message> messages);

  // Moves `shard` by `step`. Returns this device's shard in the new layout, with sizes `local` and
  // type `type`. `shard` is undefined if step.before leaves nothing on this device; the result is
  // undefined if step.after does. The result may share memory with `shard`; a step over
  // micro-batches, for instance, stays in the process. `shard` may be overwritten if the caller has
  // no other reference to it.
  at::Tensor move(const machine::ReshardStep& step, at::Tensor shard, const Shape& local,
                  at::ScalarType type, std::int64_t micro_batch = 0);

  // Starts the move and returns without waiting. All devices start the same steps in the same
  // order.
  Transfer start(const machine::ReshardStep& step, at::Tensor shard, const Shape& local,
                 at::ScalarType type, std::int64_t micro_batch = 0);
  // Starts the same step for several tensors as one all-reduce or reduce-scatter. `steps` have one
  // kind and the same mesh axis factors. The results may share memory with each other.
  Transfer start_together(const std::vector<machine::ReshardStep>& steps,
                          const std::vector<at::Tensor>& shards, const std::vector<Shape>& locals,
                          at::ScalarType type);
  // Starts a halo step or its gradient. `group` has the boxes of the group's devices, by rank. The
  // gradient of an element that several devices have is the sum of theirs.
  Transfer start_halo(const machine::ReshardStep& step, const at::Tensor& shard,
                      const std::vector<Exchanged>& group);
  // Starts an all-reduce of an uncoalesced sparse tensor of rows. The result has all devices'
  // entries one after another; each device has the same number.
  Transfer start_rows(const machine::ReshardStep& step, const at::Tensor& rows);
  // Advances all transfers as far as they can go without waiting.
  void advance();
  // Waits for `transfer` and returns its results.
  std::vector<at::Tensor> finish(Transfer transfer);

  // Sends `shard` by a send step, or receives it; `tag` identifies the message.
  // `send` does not wait; `finish` waits for all that was sent.
  void send(const machine::ReshardStep& step, const at::Tensor& shard, int tag);
  at::Tensor receive(const machine::ReshardStep& step, const Shape& local, at::ScalarType type,
                     int tag);
  void finish();
  // Returns the seconds of the last step for which the device waited (see DeviceNetwork::waited).
  // Returns nullopt if the process itself does the waiting.
  [[nodiscard]] std::optional<double> waited() const;

 private:
  // Returns whether the data of devices goes through host memory.
  [[nodiscard]] bool is_staged() const { return !place_.is_cpu() && network_ == nullptr; }
  [[nodiscard]] Transfer copy_results_to_device(Transfer transfer) const;
  Transfer start_on(at::Device on, const machine::ReshardStep& step, at::Tensor shard,
                    const Shape& local, at::ScalarType type, std::int64_t micro_batch);
  Transfer queue_receive(const machine::ReshardStep& step, int tag);
  void forget_sent();
  // Returns the device that sends (find_sender) or receives (find_receiver) in a send step of this
  // device's group.
  [[nodiscard]] std::int64_t find_sender(const machine::ReshardStep& step) const;
  [[nodiscard]] std::int64_t find_receiver(const machine::ReshardStep& step) const;
  // Returns whether this device's group has the tensor. It does not if a mesh axis factor that the
  // step leaves alone is idle, and the device is not at the idle place.
  [[nodiscard]] bool takes_part(const machine::ReshardStep& step) const;
  void wait(Transfer& transfer);

  const machine::Digits& digits_;
  std::int64_t device_;
  at::Device place_;
  std::unique_ptr<DeviceNetwork> network_;
  struct Channel {
    MPI_Comm comm = MPI_COMM_NULL;
    std::unique_ptr<SharedMemory> memory;
    std::unique_ptr<DeviceChannel> device;
  };
  std::map<machine::DigitMask, Channel> channels_;
  struct Sent {
    MPI_Request request;
    at::Tensor tensor;  // Held alive until it is sent
    Mark mark = {};
  };
  std::vector<Sent> sent_;
  // Messages from one sender. A network has no tags, so messages are received in the order of
  // sending, including those before the one that is wanted.
  struct Incoming {
    std::vector<Message> order;
    std::size_t next = 0;
    std::map<int, Transfer> received;  // Received but not yet asked for, by tag
  };
  std::map<std::int64_t, Incoming> incoming_;  // One per sender
};

}  // namespace tandem::runtime
