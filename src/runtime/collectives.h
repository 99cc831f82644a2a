// The steps of machine/reshard.h on this process's shard: rank = device. Every device of a group
// calls `move` with its shard and gets its shard of the same tensor in the new layout. Inside a
// computer they go through shared memory, between computers by MPI; none of them blocks: who waits
// for one helps along all that are on their way. Between GPUs they are queued with a DeviceNetwork;
// without one, what lies on a GPU goes through the computer's memory.
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

// A step on its way.
struct Transfer {
  MPI_Request request = MPI_REQUEST_NULL;
  SharedMemory* memory = nullptr;  // where it goes through that
  std::int64_t exchange = 0;
  Mark mark = {};                // where it is queued on a device
  std::vector<at::Tensor> held;  // until it is done
  // Afterwards; by tensor.
  std::function<std::vector<at::Tensor>()> result;
};

// Of one device: what it has of a tensor before and after.
struct Exchanged {
  term::Box has, gets;
};

// What comes from another device: what it sends by this tag.
struct Message {
  int tag = 0;
  Shape local;
  at::ScalarType type;
};

class Collectives {
 public:
  // `digits` must outlive this; the ranks of MPI_COMM_WORLD are its devices. Tensors lie on
  // `place`; `network` is null, or connects such.
  Collectives(const machine::Digits& digits, std::int64_t device, at::Device place = at::kCPU,
              std::unique_ptr<DeviceNetwork> network = nullptr);
  ~Collectives();
  Collectives(const Collectives&) = delete;
  Collectives& operator=(const Collectives&) = delete;

  // Makes the communicator for groups over `mask`. All processes call it, in the same order, before
  // the first `move` over these digits. `only_sends`: nothing else is moved over them.
  void prepare(machine::DigitMask mask, bool only_sends = false);
  // From one device to another, in a step, so many messages in the order in which they are sent.
  // Both of them call it, before the first; everywhere in the same order of pairs.
  void expect(std::int64_t from, std::int64_t to, std::vector<Message> messages);

  // `shard` is undefined where step.before leaves nothing on this device; the result is undefined
  // where step.after does. `local` is the shape of a shard afterwards. The result may share memory
  // with `shard` (a step over the micro-batches is the process's own). A shard that only the
  // caller's argument holds may be overwritten.
  at::Tensor move(const machine::ReshardStep& step, at::Tensor shard, const Shape& local,
                  at::ScalarType type, std::int64_t micro_batch = 0);

  // The same without waiting. All devices start the same steps in the same order.
  Transfer start(const machine::ReshardStep& step, at::Tensor shard, const Shape& local,
                 at::ScalarType type, std::int64_t micro_batch = 0);
  // The same for several tensors by one all-reduce or reduce-scatter: `steps` are of one kind over
  // the same digits. The results may share memory with each other.
  Transfer start_together(const std::vector<machine::ReshardStep>& steps,
                          const std::vector<at::Tensor>& shards, const std::vector<Shape>& locals,
                          at::ScalarType type);
  // A halo step, and its gradient's: by rank in the group. Where several devices have an element of
  // a gradient, it becomes their sum.
  Transfer start_halo(const machine::ReshardStep& step, const at::Tensor& shard,
                      const std::vector<Exchanged>& group);
  // An all-reduce of the rows that a sparse tensor, not coalesced, has: the devices' entries one
  // after another, each device having as many.
  Transfer start_rows(const machine::ReshardStep& step, const at::Tensor& rows);
  // Whatever can go on without waiting does.
  void advance();
  std::vector<at::Tensor> finish(Transfer transfer);

  // A send step's two ends; `tag` tells messages apart. The sender goes on at once; `finish` waits
  // for all that was sent.
  void send(const machine::ReshardStep& step, const at::Tensor& shard, int tag);
  at::Tensor receive(const machine::ReshardStep& step, const Shape& local, at::ScalarType type,
                     int tag);
  void finish();
  // Seconds of the last step for which the device waited; see DeviceNetwork. Null where it is the
  // process that waits.
  [[nodiscard]] std::optional<double> waited() const;

 private:
  // Do devices talk through the computer's memory?
  [[nodiscard]] bool is_staged() const { return !place_.is_cpu() && network_ == nullptr; }
  [[nodiscard]] Transfer to_place(Transfer transfer) const;
  Transfer start_on(at::Device on, const machine::ReshardStep& step, at::Tensor shard,
                    const Shape& local, at::ScalarType type, std::int64_t micro_batch);
  Transfer queued_receive(const machine::ReshardStep& step, int tag);
  void forget_sent();
  // The ends of a send step.
  [[nodiscard]] std::int64_t sender_of(const machine::ReshardStep& step) const;
  [[nodiscard]] std::int64_t receiver_of(const machine::ReshardStep& step) const;
  // Digits that stay idle: the groups at their place have the tensor, the others nothing to do.
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
    at::Tensor tensor;  // until it has gone
    Mark mark = {};
  };
  std::vector<Sent> sent_;
  // Messages have no tags on a network: they are received in the order in which they are sent,
  // those before the one that is wanted too.
  struct Incoming {
    std::vector<Message> order;
    std::size_t next = 0;
    std::map<int, Transfer> received;  // by tag, those not asked for yet
  };
  std::map<std::int64_t, Incoming> incoming_;  // by sender
};

}  // namespace tandem::runtime
