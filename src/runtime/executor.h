// Runs a lowered program on this process's device: one tensor for each buffer it holds and
// micro-batch it is for, the tasks in the order of its turns, a tensor freed after its last use.
#pragma once

#include <memory>
#include <span>

#include "data/dataset.h"
#include "lower/instances.h"
#include "lower/program.h"
#include "runtime/collectives.h"
#include "runtime/image_order.h"
#include "runtime/kernels.h"
#include "term/evaluate.h"

namespace tandem::runtime {

struct Training {
  std::uint64_t seed = 0;
  double rate = 0.01;
  std::shared_ptr<const data::Dataset> data = nullptr;  // null: synthetic
};

// Where tensors lie, and how what lies there gets to other processes (see device.h).
struct Place {
  at::Device device = at::kCPU;
  std::unique_ptr<DeviceNetwork> network = nullptr;
};

class Executor {
 public:
  // `program` must outlive this. All processes construct theirs together (communicators).
  // Throws UserError when the runtime cannot execute the program.
  Executor(const lower::Program& program, std::int64_t device, Training training, Place place = {});

  // One training step is feed(n), run(), loss(), with n = 0, 1, ...
  void feed(std::int64_t step);
  void run();
  // This device's share of the loss: all devices' shares add up to it.
  [[nodiscard]] double loss() const { return loss_; }
  // Seconds of the last step in which this device computed nothing because of communication: it
  // waited, or, where that is its own work, moved data.
  [[nodiscard]] double exposed_communication() const { return exposed_s_; }

  // Of the last step: collectives that this device started of gradients, and those of them that
  // were on their way while it computed more of the backward pass; when the first one was started
  // and the backward pass had ended, in seconds from the step's beginning.
  struct Overlap {
    std::int64_t started = 0;
    std::int64_t beside_backward = 0;
    double first_start_s = 0;
    double backward_end_s = 0;
  };
  [[nodiscard]] const Overlap& overlap() const { return overlap_; }

  // From now on: how long every task takes of this process's time. Afterwards in seconds by task of
  // the program, the lower quartile of its runs (what other programs do, by caches that they share,
  // only adds to it); 0 for what does not run here, or is a collective.
  void measure_tasks() { task_s_.resize(tasks_.size()); }
  [[nodiscard]] std::vector<double> task_seconds() const;

  // Does this device have a shard of the buffer? Of weights and optimizer state it may be read, and
  // overwritten in place, between steps.
  [[nodiscard]] bool holds(lower::BufferId id) const;
  // It lies in memory in any order.
  at::Tensor& lasting(lower::BufferId id) {
    return is_delayed(id) ? newest_[id.index()] : values_[instances_.of(id, 0)];
  }
  // Are there two versions of the buffer, the newest and the one before, which the next step
  // computes with (lower/program.h)?
  [[nodiscard]] bool is_delayed(lower::BufferId id) const {
    return program_.buffer(id).kind == lower::BufferKind::kWeight && program_.versions(id) > 1;
  }
  at::Tensor& before(lower::BufferId id) { return values_[instances_.of(id, 0)]; }

  // Operators that run by their meaning, for want of a kernel.
  [[nodiscard]] std::vector<std::string> slow_operators() const;

 private:
  // A task with what does not change from step to step worked out.
  struct Ready {
    const lower::Task* task;
    const Kernel* kernel = nullptr;  // forward, backward
    Call call = {};
    lower::BufferId kept_result = lower::Program::kNone;  // backward: worth reading
    bool reads_result = false;  // backward: there is no operand, only that
    bool starts = false;        // a collective that goes on while others compute
    bool widens = false;        // what it reads in 16 bits
    bool wide = false;          // backward: of such it makes a gradient in fp32
    bool of_rows = false;       // it sums sparse tensors
    // Backward: the weight that it subtracts a product from (lower/product_updates.h).
    lower::BufferId updates = lower::Program::kNone;
    bool keeps = false;  // or takes what its node's forward task has kept
  };
  struct Turn {
    std::size_t ready = 0;
    std::int64_t micro_batch = 0;
    std::vector<std::size_t> last_used = {};  // instances
    bool waits = false;                       // for a collective that was started
  };
  // A collective on its way, and where its results go.
  struct Started {
    Transfer transfer;
    std::vector<std::size_t> instances;
    std::int64_t since = -1;  // backward_tasks_ when it was started; -1: not of a gradient
  };

  [[nodiscard]] bool runs_here(const lower::Task& task) const;
  [[nodiscard]] Ready prepare(const lower::Task& task) const;
  [[nodiscard]] bool kept_for_backward(lower::BufferId id) const;
  void place(Call& call, const lower::Task& task, std::int64_t micro_batch) const;
  void narrow_to_block(Call& call, const lower::Task& task, std::int64_t slot) const;
  void take_turns();
  void find_last_uses();
  void find_what_to_keep();
  void find_waits();
  void prepare_communication();
  [[nodiscard]] int tag_of(std::size_t send, std::int64_t micro_batch) const;
  [[nodiscard]] std::vector<Message> messages_between(std::int64_t from, std::int64_t to) const;
  void initialise();
  void wait_for_device();

  void run(Ready& ready, const Turn& turn);
  [[nodiscard]] std::vector<at::Tensor>* kept(const Ready& ready);
  void forward(const Ready& ready);
  void backward(const Ready& ready);
  [[nodiscard]] std::vector<at::Tensor> operands_of(const Ready& ready) const;
  void add_part(const lower::Task& task, lower::BufferId id, const Shard& part,
                const at::Tensor& made);
  // What this device has of a buffer in the micro-batch whose turn it is.
  [[nodiscard]] term::Box box_of(lower::BufferId id) const;
  void move(const Ready& ready, const Turn& turn);
  void send(const lower::Task& task);
  [[nodiscard]] Transfer start(const Ready& ready, const Turn& turn);
  [[nodiscard]] Transfer start_halo(const lower::Task& task, at::Tensor shard);
  [[nodiscard]] Transfer start_bucket(const lower::Task& task);
  [[nodiscard]] bool needs(const Turn& turn, const Started& started) const;
  void finish_started(const Turn* turn);
  void collect(const lower::Task& task);
  void accumulate(const lower::Task& task);
  void update(const lower::Task& task);
  void change(at::Tensor weight, const lower::Task& task);
  [[nodiscard]] bool has_master_of(const lower::Task& update) const;
  // As the buffer has it.
  [[nodiscard]] at::Tensor stored(const at::Tensor& t, lower::BufferId id) const;
  [[nodiscard]] at::TensorOptions options(const lower::Buffer& buffer) const {
    return at::device(place_).dtype(to_aten(buffer.dtype));
  }
  void add_loss();
  [[nodiscard]] at::Tensor seed_value(lower::BufferId id) const;
  [[nodiscard]] std::vector<at::Tensor> values(std::span<const lower::BufferId> ids) const;
  // Of the micro-batch whose turn it is.
  at::Tensor& value(lower::BufferId id) { return values_[instances_.of(id, micro_batch_)]; }
  [[nodiscard]] const at::Tensor& value(lower::BufferId id) const {
    return values_[instances_.of(id, micro_batch_)];
  }

  const lower::Program& program_;
  std::int64_t device_;
  Training training_;
  at::Device place_;
  Collectives collectives_;
  lower::Instances instances_;
  ImageOrder order_;
  std::vector<int> send_number_;  // by task of the program: which send it is; -1: none
  std::vector<Ready> tasks_;      // those this device takes part in
  std::vector<Turn> turns_;
  std::vector<at::Tensor> values_;  // by instance
  std::vector<at::Tensor> newest_;  // by buffer, of weights whose updates are delayed
  // What kernels keep between a node's forward and its one backward task, by node and micro-batch.
  std::vector<std::vector<std::vector<at::Tensor>>> kept_;
  std::int64_t step_ = 0;
  std::int64_t micro_batch_ = 0;
  std::vector<at::Tensor> losses_;  // of this step, read when it is over
  double loss_ = 0;
  std::vector<Started> started_;
  double exposed_s_ = 0;
  double began_ = 0;  // the step
  Overlap overlap_;
  std::int64_t backward_tasks_ = 0;          // of this step, so far
  std::vector<std::vector<double>> task_s_;  // of its runs; empty: nobody asks
};

}  // namespace tandem::runtime
