#include "runtime/training.h"

#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <iostream>

#include "runtime/tensor_memory.h"

namespace tandem::runtime {

namespace {

// Time-outs in seconds. kPatience is for a first step or a checkpoint, whose time is unknown. A
// later step may take kSlower times as long as the longest so far, because other programs may use
// the CPUs.
constexpr std::int64_t kPatience = 600;
constexpr std::int64_t kLeast = 60;
constexpr double kSlower = 20;
// Share of the run time for checkpoints.
constexpr double kShare = 0.1;

double reduce_over_ranks(double value, MPI_Op op) {
  double out = 0;
  MPI_Allreduce(&value, &out, 1, MPI_DOUBLE, op, MPI_COMM_WORLD);
  return out;
}

class TrainingLoop {
 public:
  TrainingLoop(Executor& executor, const TrainingOptions& training, const Checkpoints* checkpoints,
               const WorkerJob& job, const World& world, const Deadline& deadline)
      : executor_(executor),
        training_(training),
        checkpoints_(checkpoints),
        job_(job),
        world_(world),
        deadline_(deadline) {}

  Measurements run_from(std::int64_t first) {
    begin_ = last_saved_ = MPI_Wtime();
    for (std::int64_t step = first; step < job_.steps; ++step) {
      // The first step is not measured, because it gets its memory from the system.
      if (job_.measure && step == first + 1) executor_.measure_tasks();
      run_step(step);
      const bool late = reduce_over_ranks(MPI_Wtime() - begin_, MPI_MAX) > job_.seconds;
      const bool last = step + 1 == job_.steps || (late && step > first);
      if (checkpoints_ != nullptr && (last || is_due(step + 1))) save(step + 1);
      if (last) break;
    }
    if (shows_progress()) std::cerr << "\r" << std::flush;
    return std::move(out_);
  }

 private:
  [[nodiscard]] bool shows_progress() const { return job_.progress && world_.rank == 0; }

  void run_step(std::int64_t step) {
    if (shows_progress()) {
      std::cerr << fmt::format("\rstep {} of {} ", step + 1, job_.steps) << std::flush;
    }
    deadline_.renew(job_.timeout.value_or(choose_timeout()), fmt::format("step {}", step));
    begin_tensor_step();
    const double before = MPI_Wtime();
    executor_.feed(step);
    out_.data_s.push_back(reduce_over_ranks(MPI_Wtime() - before, MPI_MAX));
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    executor_.run();
    out_.step_s.push_back(reduce_over_ranks(MPI_Wtime() - start, MPI_MAX));
    out_.exposed_s.push_back(reduce_over_ranks(executor_.exposed_communication(), MPI_MAX));
    out_.overlap = executor_.overlap();
    out_.first_start_s.push_back(out_.overlap.first_start_s);
    out_.backward_end_s.push_back(out_.overlap.backward_end_s);
    out_.loss.push_back(reduce_over_ranks(executor_.loss(), MPI_SUM));
    longest_ = std::max(longest_, out_.step_s.back());
    check_loss(step);
    if (job_.stream && world_.rank == 0) print_loss(step);
  }

  // Prints {"loss": 0.5, "step": 3} in one line. The loss reads back unchanged.
  void print_loss(std::int64_t step) const {
    std::cout << fmt::format("{{\"loss\":{},\"step\":{}}}\n", out_.loss.back(), step) << std::flush;
  }

  [[nodiscard]] std::int64_t choose_timeout() const {
    if (out_.step_s.empty()) return kPatience;
    return std::max(kLeast, static_cast<std::int64_t>(std::ceil(kSlower * longest_)));
  }

  // Throws Failed on all ranks if the loss is not finite.
  void check_loss(std::int64_t step) const {
    const auto loss = out_.loss.back();
    if (std::isfinite(loss)) return;
    if (world_.rank == 0) {
      print_error(UserError("runtime", fmt::format("step {}", step),
                            fmt::format("the loss is {}, so training stops", loss),
                            "try a smaller --lr"));
    }
    throw Failed{};
  }

  // Returns whether a checkpoint is due. The first one, after the first step, shows how long one
  // takes.
  [[nodiscard]] bool is_due(std::int64_t step) const {
    if (job_.every) return step % *job_.every == 0;
    const double since = reduce_over_ranks(MPI_Wtime() - last_saved_, MPI_MAX);
    return out_.checkpoints.empty() || since > save_s_ / kShare;
  }

  void save(std::int64_t step) {
    deadline_.renew(job_.timeout.value_or(kPatience),
                    fmt::format("saving the checkpoint after step {}", step - 1));
    const double start = MPI_Wtime();
    checkpoints_->save(step, training_, executor_);
    last_saved_ = MPI_Wtime();
    save_s_ = reduce_over_ranks(last_saved_ - start, MPI_MAX);
    out_.checkpoints.push_back(step);
  }

  Executor& executor_;
  const TrainingOptions& training_;
  const Checkpoints* checkpoints_;
  const WorkerJob& job_;
  const World& world_;
  const Deadline& deadline_;
  Measurements out_;
  double longest_ = 0;
  double begin_ = 0;
  double last_saved_ = 0;
  double save_s_ = 0;
};

}  // namespace

Measurements train(Executor& executor, const TrainingOptions& training,
                   const Checkpoints* checkpoints, std::int64_t first, const WorkerJob& job,
                   const World& world, const Deadline& deadline) {
  return TrainingLoop(executor, training, checkpoints, job, world, deadline).run_from(first);
}

}  // namespace tandem::runtime
