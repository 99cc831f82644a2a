#include "lower/buckets.h"

#include <algorithm>
#include <set>

namespace tandem::lower {

namespace {

// Rebuilds the task list of a program, with gradients in buckets.
class GradientBucketer {
 public:
  explicit GradientBucketer(Program& program)
      : program_(program), moved_to_(program.tasks.size()), put_off_(program.tasks.size()) {}

  void run() {
    auto tasks = std::exchange(program_.tasks, {});
    for (std::size_t t = 0; t < tasks.size(); ++t) {
      if (tasks[t].kind == TaskKind::kUpdate) send_all_buckets();
      process_task({t, std::move(tasks[t])});
    }
    send_all_buckets();
    for (auto& task : program_.tasks) {
      if (task.kind == TaskKind::kReceive) task.peer = moved_to_[task.peer];
    }
  }

 private:
  // A task of the original list.
  struct OriginalTask {
    std::size_t was = 0;  // index in the original list
    Task task;
  };

  // Gradients that share a collective. The first entry's task becomes the collective of all.
  using Bucket = std::vector<OriginalTask>;

  // Delays the entry, adds it to a bucket or emits it.
  void process_task(OriginalTask entry) {
    if (must_wait(entry)) {
      defer(std::move(entry));
    } else if (!is_gradient_of_weight(entry.task)) {
      emit(std::move(entry));
    } else {
      add_to_bucket(std::move(entry));
    }
  }

  // Returns whether the task needs a gradient that is in a bucket, or a task that waits for one.
  [[nodiscard]] bool must_wait(const OriginalTask& entry) const {
    const auto is_pending = [&](BufferId b) { return pending_.contains(b); };
    return std::ranges::any_of(entry.task.reads, is_pending) ||
           std::ranges::any_of(entry.task.writes, is_pending) ||
           (entry.task.kind == TaskKind::kReceive && put_off_[entry.task.peer]);
  }

  void defer(OriginalTask entry) {
    put_off_[entry.was] = true;
    pending_.insert(entry.task.writes.begin(), entry.task.writes.end());
    waiting_.push_back(std::move(entry));
  }

  void emit(OriginalTask entry) {
    put_off_[entry.was] = false;
    moved_to_[entry.was] = program_.tasks.size();
    program_.tasks.push_back(std::move(entry.task));
  }

  // Returns whether the task is a collective that sums the gradient of a weight.
  [[nodiscard]] bool is_gradient_of_weight(const Task& task) const {
    const bool sums = task.kind == TaskKind::kMove && task.backward && !task.recomputed &&
                      (task.step.kind == machine::Step::kAllReduce ||
                       task.step.kind == machine::Step::kReduceScatter);
    if (!sums) return false;
    const auto& pcg = program_.pcg;
    auto node = program_.buffer(task.reads[0]).node;
    while (is_parallel(pcg.node(node))) node = pcg.inputs(node)[0];
    return is_weight(pcg.node(node));
  }

  // Returns whether one collective may do both tasks.
  [[nodiscard]] bool can_share_bucket(const Task& a, const Task& b) const {
    const auto& left = program_.buffer(a.reads[0]);
    const auto& right = program_.buffer(b.reads[0]);
    if (a.stage != b.stage || a.when != b.when || a.step.kind != b.step.kind ||
        a.step.digits != b.step.digits || left.dtype != right.dtype) {
      return false;
    }
    for (std::size_t i = 0; i < left.layout.count(); ++i) {
      const bool idle = left.layout[i].is_idle() || right.layout[i].is_idle();
      if (idle && left.layout[i] != right.layout[i]) return false;
    }
    return true;
  }

  // Adds a gradient to its bucket, and sends the bucket if it is full.
  void add_to_bucket(OriginalTask entry) {
    pending_.insert(entry.task.writes.begin(), entry.task.writes.end());
    auto bucket = std::ranges::find_if(
        buckets_, [&](const Bucket& b) { return can_share_bucket(b[0].task, entry.task); });
    if (bucket == buckets_.end()) bucket = buckets_.insert(bucket, Bucket());
    bucket->push_back(std::move(entry));
    Bytes total;
    for (const auto& e : *bucket) total += count_moved_bytes(program_, e.task);
    if (total < program_.schedule.bucket) return;
    auto full = std::move(*bucket);
    buckets_.erase(bucket);
    send_bucket(std::move(full));
  }

  void send_all_buckets() {
    while (!buckets_.empty()) {
      auto first = std::move(buckets_.front());
      buckets_.erase(buckets_.begin());
      send_bucket(std::move(first));
    }
  }

  // Emits the bucket's collective, then retries the tasks that waited for it.
  void send_bucket(Bucket bucket) {
    auto all = std::move(bucket[0]);
    for (std::size_t i = 1; i < bucket.size(); ++i) {
      all.task.reads.push_back(bucket[i].task.reads[0]);
      all.task.writes.push_back(bucket[i].task.writes[0]);
    }
    emit(std::move(all));
    pending_.clear();
    for (const auto& open : buckets_) {
      for (const auto& e : open) pending_.insert(e.task.writes.begin(), e.task.writes.end());
    }
    for (auto& entry : std::exchange(waiting_, {})) process_task(std::move(entry));
  }

  Program& program_;
  std::vector<std::size_t> moved_to_;  // by index in the original list
  std::vector<bool> put_off_;          // by index in the original list
  std::vector<Bucket> buckets_;        // in the order of their first gradients
  std::vector<OriginalTask> waiting_;
  std::set<BufferId> pending_;  // buffers that tasks in buckets or waiting tasks have yet to write
};

}  // namespace

void bucket_gradients(Program& program) { GradientBucketer(program).run(); }

}  // namespace tandem::lower
