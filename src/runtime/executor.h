// Runs a lowered program on this process's device. Each buffer that the device holds has one tensor
// per micro-batch that needs one. Tasks run in the order of the device's schedule slots; a tensor
// is freed after its last use.
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

struct TrainingOptions {
  std::uint64_t seed = 0;
  double rate = 0.01;
  std::shared_ptr<const data::Dataset> data = nullptr;  // Null: synthetic data
};

// The device that holds the tensors, and the network that connects such devices (see device.h).
struct ExecutionDevice {
  at::Device device = at::kCPU;
  std::unique_ptr<DeviceNetwork> network = nullptr;
};

class Executor {
 public:
  // `program` must outlive this object. All processes construct their executors together, because
  // that creates communicators. Throws UserError if the runtime cannot execute the program.
  Executor(const lower::Program& program, std::int64_t device, TrainingOptions training,
           ExecutionDevice place = {});

  // Runs one training step: feed(n), run(), loss(), with n = 0, 1, ...
  void feed(std::int64_t step);
  void run();
  // Returns this device's share of the loss. The shares of all devices sum to the loss.
  [[nodiscard]] double loss() const { return loss_; }
  // Returns the exposed communication of the last step in seconds: the device waited, or moved data
  // itself, and computed nothing.
  [[nodiscard]] double exposed_communication() const { return exposed_s_; }

  // Gradient collectives of the last step on this device. Times are in seconds since the start of
  // the step.
  // Number of gradient collectives started
  struct Overlap {
    // Number of those overlapped with later tasks of the backward pass
    std::int64_t started = 0;
    // Start of the first one
    std::int64_t overlapped_with_backward = 0;
    // End of the backward pass
    double first_start_s = 0;
    double backward_end_s = 0;
  };
  [[nodiscard]] const Overlap& overlap() const { return overlap_; }

  // Starts measuring the time of every task.
  void measure_tasks() { task_s_.resize(tasks_.size()); }
  // Returns seconds by task of the program: the lower quartile of the task's runs, because other
  // programs only add time (through shared caches). It is 0 for collectives and for tasks that do
  // not run here.
  [[nodiscard]] std::vector<double> compute_task_seconds() const;

  // Returns whether this device has a shard of the buffer. Shards of weights and optimizer state
  // may be read, and overwritten in place, between steps.
  [[nodiscard]] bool holds(lower::BufferId id) const;
  // Returns the newest version of a weight or of optimizer state. Its dimensions may have any order
  // in memory.
  at::Tensor& get_newest_version(lower::BufferId id) {
    return is_delayed(id) ? newest_[id.index()] : values_[instances_.get_index(id, 0)];
  }
  // Returns whether the buffer has two versions: the newest, and the one before, with which the
  // next step computes (lower/program.h).
  [[nodiscard]] bool is_delayed(lower::BufferId id) const {
    return program_.buffer(id).kind == lower::BufferKind::kWeight && program_.versions(id) > 1;
  }
  // Returns the version with which the next step computes.
  at::Tensor& get_next_step_version(lower::BufferId id) {
    return values_[instances_.get_index(id, 0)];
  }

  // Returns the names of operators that have no kernel and run slowly, by their definition.
  [[nodiscard]] std::vector<std::string> list_slow_operators() const;

 private:
  // A task and what about it does not change from step to step.
  struct Ready {
    const lower::Task* task;
    const Kernel* kernel = nullptr;  // Forward, backward
    Call call = {};
    lower::BufferId saved_result = lower::Program::kNone;  // Backward: if it helps
    bool reads_result = false;  // Backward: reads the result and no operand
    bool starts = false;        // Collective that overlaps with compute
    bool widens = false;        // Widens bf16 operands to fp32
    bool wide = false;          // Backward: makes a fp32 gradient of bf16 operands
    bool of_rows = false;       // All-reduces sparse tensors
    // Backward: the weight that the matmul updates in place (lower/fused_updates.h).
    lower::BufferId updates = lower::Program::kNone;
    bool saves_values = false;  // Saves values for backward, or takes the saved ones
  };
  struct ScheduledTask {
    std::size_t ready = 0;
    std::int64_t micro_batch = 0;
    std::vector<std::size_t> last_used = {};  // Instances used last here
    bool waits = false;                       // Needs a collective that is in progress
  };
  // A collective in progress, and the instances that get its results.
  struct Started {
    Transfer transfer;
    std::vector<std::size_t> instances;
    std::int64_t since = -1;  // Value of backward_tasks_ at its start; -1: moves no gradient
  };

  [[nodiscard]] bool runs_here(const lower::Task& task) const;
  [[nodiscard]] Ready prepare(const lower::Task& task) const;
  [[nodiscard]] bool is_saved_for_backward(lower::BufferId id) const;
  void set_shards(Call& call, const lower::Task& task, std::int64_t micro_batch) const;
  void narrow_to_block(Call& call, const lower::Task& task, std::int64_t slot) const;
  void schedule_tasks();
  void find_last_uses();
  void mark_tasks_that_save();
  void find_waits();
  void prepare_communication();
  [[nodiscard]] int compute_tag(std::size_t send, std::int64_t micro_batch) const;
  [[nodiscard]] std::vector<Message> list_messages(std::int64_t from, std::int64_t to) const;
  void initialise();
  void wait_for_device();

  void run_task(Ready& ready, const ScheduledTask& scheduled);
  [[nodiscard]] std::vector<at::Tensor>* get_saved_values(const Ready& ready);
  void run_forward(const Ready& ready);
  void run_backward(const Ready& ready);
  [[nodiscard]] std::vector<at::Tensor> get_operands(const Ready& ready) const;
  void add_part(const lower::Task& task, lower::BufferId id, const Shard& part,
                const at::Tensor& made);
  // Returns the box of the buffer that this device has in the current slot's micro-batch.
  [[nodiscard]] term::Box compute_local_box(lower::BufferId id) const;
  void move(const Ready& ready, const ScheduledTask& scheduled);
  void send(const lower::Task& task);
  [[nodiscard]] Transfer start(const Ready& ready, const ScheduledTask& scheduled);
  [[nodiscard]] Transfer start_halo(const lower::Task& task, at::Tensor shard);
  [[nodiscard]] Transfer start_bucket(const lower::Task& task);
  [[nodiscard]] bool needs(const ScheduledTask& scheduled, const Started& started) const;
  void finish_started(const ScheduledTask* scheduled);
  void accumulate_gradient(const lower::Task& task);
  void add_gradients(const lower::Task& task);
  void update(const lower::Task& task);
  void apply_optimizer(at::Tensor weight, const lower::Task& task);
  [[nodiscard]] bool has_master_copy(const lower::Task& update) const;
  // Returns `t` converted to the buffer's element type.
  [[nodiscard]] at::Tensor to_stored_type(const at::Tensor& t, lower::BufferId id) const;
  [[nodiscard]] at::TensorOptions make_options(const lower::Buffer& buffer) const {
    return at::device(place_).dtype(to_aten(buffer.dtype));
  }
  void add_loss();
  [[nodiscard]] at::Tensor make_loss_gradient(lower::BufferId id) const;
  [[nodiscard]] std::vector<at::Tensor> get_values(std::span<const lower::BufferId> ids) const;
  // Returns the buffer's tensor for the current slot's micro-batch.
  at::Tensor& value(lower::BufferId id) { return values_[instances_.get_index(id, micro_batch_)]; }
  [[nodiscard]] const at::Tensor& value(lower::BufferId id) const {
    return values_[instances_.get_index(id, micro_batch_)];
  }

  const lower::Program& program_;
  std::int64_t device_;
  TrainingOptions training_;
  at::Device place_;
  Collectives collectives_;
  lower::Instances instances_;
  ImageOrder order_;
  std::vector<int> send_number_;  // Each task's number among the sends; -1: none
  std::vector<Ready> tasks_;      // Tasks that this device takes part in
  std::vector<ScheduledTask> scheduled_tasks_;
  std::vector<at::Tensor> values_;  // One per instance
  std::vector<at::Tensor> newest_;  // Newest version, by buffer, of weights with delayed updates
  // Values that kernels save between a node's forward task and its only backward task, by node and
  // micro-batch.
  std::vector<std::vector<std::vector<at::Tensor>>> saved_;
  std::int64_t step_ = 0;
  std::int64_t micro_batch_ = 0;
  std::vector<at::Tensor> losses_;  // Losses of this step, read at its end
  double loss_ = 0;
  std::vector<Started> started_;
  double exposed_s_ = 0;
  double began_ = 0;  // Start time of the step
  Overlap overlap_;
  std::int64_t backward_tasks_ = 0;          // Number of backward tasks run so far in this step
  std::vector<std::vector<double>> task_s_;  // Seconds by task and run; empty: not measured
};

}  // namespace tandem::runtime
