#include "predict/fold/footprint.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "predict/fold/sections.h"

namespace tandem::predict {

namespace {

using lower::BufferId;
using lower::BufferKind;
using lower::Program;
using lower::Task;
using lower::TaskKind;

// A task by its position in a phase of a section.
struct TaskPlace {
  std::size_t part = 0;  // 0: forward, 1: backward, 2: later
  SectionPlace place;
  std::size_t task = 0;
  bool last = false;      // whether it runs only in the last micro-batch
  bool left_out = false;  // whether its piece is outside of the run
  bool first = false;     // whether it runs only in the first micro-batch
  [[nodiscard]] std::size_t section() const { return static_cast<std::size_t>(place.section); }
};

int to_number(const SectionPlace& place) {
  constexpr int kMostPieces = 256;
  return static_cast<int>(place.section) * kMostPieces + place.piece;
}

enum class MicroBatchPosition : std::uint8_t { kFirst, kAny, kLast };  // micro-batch

// Buffers whose lifetime begins or ends at each task of one phase of a section.
class Changes {
 public:
  // Kind of lifetime event: begins or ends in every micro-batch, or only in the first or last one.
  enum class LifetimeEvent : std::uint8_t { kBegins, kEnds, kFirstBegins, kLastBegins, kLastEnds };

  void add_task() { first_.push_back(kNone); }
  [[nodiscard]] std::size_t tasks() const { return first_.size(); }
  void add(std::size_t task, LifetimeEvent event, std::size_t kind, double bytes) {
    if (bytes == 0) return;
    entries_.push_back({event, static_cast<std::uint8_t>(kind), first_[task], bytes});
    first_[task] = static_cast<std::uint32_t>(entries_.size() - 1);
  }

  [[nodiscard]] MemoryChange sum(MicroBatchPosition which) const {
    MemoryChange out;
    double most = 0;
    const auto take = [&](std::uint32_t entry, bool ends) {
      for (; entry != kNone; entry = entries_[entry].next) {
        const auto& e = entries_[entry];
        if (is_end(e.event) == ends && is_in(e.event, which)) {
          out.net[e.kind] += ends ? -e.bytes : e.bytes;
        }
      }
    };
    for (const auto first : first_) {
      if (first == kNone) continue;
      take(first, false);
      const auto now = total(out.net);
      if (now > most) {
        most = now;
        out.most = out.net;
      }
      take(first, true);
    }
    return out;
  }

 private:
  static constexpr std::uint32_t kNone = 0xffffffff;
  struct LifetimeEntry {
    LifetimeEvent event;
    std::uint8_t kind;   // lower::BufferKind
    std::uint32_t next;  // next entry of the same task, or kNone
    double bytes;
  };
  static bool is_end(LifetimeEvent e) {
    return e == LifetimeEvent::kEnds || e == LifetimeEvent::kLastEnds;
  }
  static bool is_in(LifetimeEvent e, MicroBatchPosition which) {
    if (e == LifetimeEvent::kFirstBegins) return which == MicroBatchPosition::kFirst;
    const bool in_any = e == LifetimeEvent::kBegins || e == LifetimeEvent::kEnds;
    return in_any || which == MicroBatchPosition::kLast;
  }

  std::vector<std::uint32_t> first_;  // by task: index into entries_
  std::vector<LifetimeEntry> entries_;
};

// Collects the lifetimes of buffers over all tasks, or over a run of pieces without the rest of its
// section.
class LifetimeCollector {
 public:
  LifetimeCollector(const Program& program, const std::vector<SectionPlace>& place_of_node,
                    const std::vector<SectionPlace>& place_of_task, bool is_pipelined,
                    const Run* run)
      : program_(program),
        place_of_node_(place_of_node),
        is_pipelined_(is_pipelined),
        run_(run),
        first_(program.buffers.size()),
        last_(program.buffers.size()),
        several_(program.digits.time() != 0) {
    std::vector<bool> of_run;
    if (run != nullptr) of_run = select_run_tasks(*run, program, place_of_task);
    written_elsewhere_.resize(program.buffers.size());
    unread_.resize(program.buffers.size());
    has_copy_.resize(program.buffers.size());
    for (std::size_t t = 0; t < program.tasks.size(); ++t) {
      const bool left_out =
          run != nullptr && place_of_task[t].section == run->section && !of_run[t];
      if (left_out) {
        record_skipped_task(program.tasks[t], place_of_task[t]);
      } else {
        record_task(program.tasks[t], place_of_task[t]);
      }
    }
    if (run != nullptr) extend_received_lifetimes();
    for (std::size_t b = 0; b < program.buffers.size(); ++b) count_buffer(BufferId(b));
  }

  [[nodiscard]] HeldMemory compute_held(Section section) const {
    const auto s = static_cast<std::size_t>(section);
    auto out = held_[s];
    out.forward = changes_[0][s].sum(MicroBatchPosition::kAny);
    out.last_forward = changes_[0][s].sum(MicroBatchPosition::kLast);
    out.first = changes_[1][s].sum(MicroBatchPosition::kFirst);
    out.backward = changes_[1][s].sum(MicroBatchPosition::kAny);
    out.last = changes_[1][s].sum(MicroBatchPosition::kLast);
    return out;
  }

  // Returns the tensors that `piece` passes on to `next`, the piece that follows it.
  [[nodiscard]] Boundary find_boundary(const SectionPlace& piece, const SectionPlace& next) const {
    Boundary out;
    const auto at = to_number(piece);
    for (std::size_t b = 0; b < program_.buffers.size(); ++b) {
      if (!first_[b]) continue;
      const auto& first = *first_[b];
      const auto& last = *last_[b];
      const bool goes_on =
          first.part == 0 && to_number(first.place) == at && to_number(last.place) > at;
      const bool comes_back = first.part == 1 && to_number(first.place) == to_number(next) &&
                              last.part == 1 && to_number(last.place) == at;
      if (!goes_on && !comes_back) continue;
      const auto& buffer = program_.buffers[b];
      if (buffer.is_persistent() || buffer.reserved || !is_held(buffer)) continue;
      // Each stage gathers its own weights.
      if (buffer.kind == BufferKind::kGathered) continue;
      (goes_on ? out.activation : out.gradient) += get_bytes(buffer);
      (goes_on ? out.copied : out.gradient_copied) =
          (buffer.layout.digits(machine::DigitRole::kReplica) & program_.digits.space()) != 0;
    }
    return out;
  }

 private:
  [[nodiscard]] bool is_held(const lower::Buffer& buffer) const {
    return holds_shard(buffer.layout, program_.digits, 0);
  }

  void record_task(const Task& task, const SectionPlace& place) {
    TaskPlace now{.part = task.backward ? std::size_t{1} : 0,
                  .place = place,
                  .last = task.when == lower::When::kLast,
                  .first = task.when == lower::When::kFirst};
    if (task.kind == TaskKind::kUpdate) {
      now.part = 2;
    } else {
      auto& changes = changes_[now.part][now.section()];
      now.task = changes.tasks();
      const auto row = count_bucket_bytes(program_, task).value;
      changes.add_task();
      begin(now, kGradient, row);
      end(now, kGradient, row);
    }
    const bool gathers = regathers(task);
    const auto use = [&](BufferId b) {
      if (b == Program::kNone) return;
      auto& first = first_[b.index()];
      const bool is_elsewhere = first && first->section() != now.section();
      const bool is_ahead = is_elsewhere && unread_[b.index()];
      if (is_elsewhere && !is_ahead && has_own_copy(b)) return count_copy(b, now);
      if (!first || is_ahead) first = now;
      unread_[b.index()] = false;
      last_[b.index()] = now;
    };
    for_each_use(task, use);
    if (!gathers) return;
    for (auto b : task.writes) unread_[b.index()] = true;
  }

  // Returns whether `task` regathers a weight for the backward pass. The task may be listed in the
  // section whose backward pass comes before (lower/prefetch_gathers.h), which may be on another
  // stage. The gathered weight therefore counts from its first reader's section on.
  [[nodiscard]] bool regathers(const Task& task) const {
    return task.recomputed && task.kind == TaskKind::kMove &&
           program_.buffer(task.writes[0]).kind == BufferKind::kGathered;
  }

  // Returns whether each stage gathers its own copy of a weight that the first and last section
  // read.
  [[nodiscard]] bool has_own_copy(BufferId b) const {
    return is_pipelined_ && program_.buffer(b).kind == BufferKind::kGathered;
  }
  // Returns whether the last section gathers such a weight itself, in every micro-batch.
  [[nodiscard]] bool gathers_copy(BufferId b) const {
    if (!has_own_copy(b) || !program_.buffer(b).each) return false;
    const auto weight = find_chain_start(program_.pcg, program_.buffer(b).node);
    return place_of_node_[weight.index()].section == Section::kBefore &&
           first_[b.index()]->place.section == Section::kAfter;
  }
  // Counts the copy of a stage that receives a weight: it gathers the weight once and keeps it for
  // the step.
  void count_copy(BufferId b, const TaskPlace& now) {
    if (now.part != 0 || has_copy_[b.index()] || !is_held(program_.buffer(b))) return;
    has_copy_[b.index()] = true;
    held_[now.section()].from_then[kGathered] += get_bytes(program_.buffer(b));
  }

  // Notes a task that another stage runs.
  void record_skipped_task(const Task& task, const SectionPlace& place) {
    if (regathers(task)) return;
    for (auto b : task.writes) written_elsewhere_[b.index()] = true;
    if (task.recomputed) return;
    const TaskPlace now{
        .part = task.backward ? std::size_t{1} : 0, .place = place, .left_out = true};
    for_each_use(task, [&](BufferId b) {
      if (b != Program::kNone) last_[b.index()] = now;
    });
  }

  template <class Use>
  static void for_each_use(const Task& task, Use&& use) {
    std::ranges::for_each(task.reads, use);
    std::ranges::for_each(task.writes, use);
    use(task.saved);
  }

  // Extends the lifetime of tensors that were received from other pieces. These pieces would
  // recompute them for the backward pass, so the run saves what it received instead.
  void extend_received_lifetimes() {
    for (std::size_t again = 0; again < first_.size(); ++again) {
      if (!written_elsewhere_[again] || !first_[again] || first_[again]->part != 1) continue;
      const auto& recomputed = program_.buffers[again];
      if (recomputed.kind == BufferKind::kGradient) continue;
      for (std::size_t b = 0; b < again; ++b) {
        const bool is_received = written_elsewhere_[b] && first_[b] && first_[b]->part == 0;
        if (!is_received || program_.buffers[b].node != recomputed.node) continue;
        last_[b] = last_[again];
        first_[again].reset();
        break;
      }
    }
  }

  [[nodiscard]] double get_bytes(const lower::Buffer& buffer) const {
    return (buffer.bytes() - (buffer.is_persistent() ? Bytes{} : buffer.shared)).value;
  }

  [[nodiscard]] bool is_in_run(const SectionPlace& place) const {
    return run_ == nullptr || place.section != run_->section ||
           (place.piece >= run_->from && place.piece < run_->to);
  }

  void count_buffer(BufferId id) {
    const auto& buffer = program_.buffer(id);
    if (!first_[id.index()] || unread_[id.index()] || !is_held(buffer)) return;
    const auto kind = static_cast<std::size_t>(buffer.kind);
    const auto bytes = get_bytes(buffer);
    if (gathers_copy(id)) return count_copy(id, *first_[id.index()]);
    // Persistent buffers and inputs count where their node is, others where they are written. If a
    // weight is used twice, each use gathers its own copy and writes its own gradient.
    const auto& place = place_of_node_[buffer.node.index()];
    auto& held = held_[static_cast<std::size_t>(place.section)];
    if (buffer.is_persistent()) {
      if (is_in_run(place)) held.persistent[kind] += bytes;
      return;
    }
    const auto& first = *first_[id.index()];
    const auto& last = *last_[id.index()];
    if (buffer.reserved) {
      held_[first.section()].step[kind] += bytes;
      return;
    }
    const bool for_step = !buffer.each && (several_ || buffer.kind == BufferKind::kInput);
    // Intermediate buffers on the way to a buffer of the whole step are freed before any
    // micro-batch saves tensors.
    if (several_ && for_step && first.part == 0 && last.first) return;
    if (for_step && !(first.last && first.part == 1)) {
      if (buffer.kind == BufferKind::kInput) {  // there from the start
        if (is_in_run(place)) held.step[kind] += bytes;
      } else if (first.part == 0) {
        held_[first.section()].from_then[kind] += bytes;
      } else if (first.part == 1) {
        add(first, Changes::LifetimeEvent::kFirstBegins, kind, bytes);
      }
    } else if (first.part < 2 && !written_elsewhere_[id.index()]) {
      begin(first, kind, bytes);
    }
    if (last.part == 2 || last.left_out) return;
    if (for_step && buffer.kind != BufferKind::kInput) {
      add(last, Changes::LifetimeEvent::kLastEnds, kind, bytes);
    } else if (!for_step) {
      end(last, kind, bytes);
    }
  }

  void add(const TaskPlace& m, Changes::LifetimeEvent event, std::size_t kind, double bytes) {
    changes_[m.part][m.section()].add(m.task, event, kind, bytes);
  }
  void begin(const TaskPlace& m, std::size_t kind, double bytes) {
    add(m, m.last ? Changes::LifetimeEvent::kLastBegins : Changes::LifetimeEvent::kBegins, kind,
        bytes);
  }
  void end(const TaskPlace& m, std::size_t kind, double bytes) {
    add(m, m.last ? Changes::LifetimeEvent::kLastEnds : Changes::LifetimeEvent::kEnds, kind, bytes);
  }

  static constexpr auto kGradient = static_cast<std::size_t>(BufferKind::kGradient);
  static constexpr auto kGathered = static_cast<std::size_t>(BufferKind::kGathered);

  const Program& program_;
  const std::vector<SectionPlace>& place_of_node_;
  bool is_pipelined_;
  const Run* run_;
  // Tasks that first and last use a buffer, by buffer.
  std::vector<std::optional<TaskPlace>> first_, last_;
  std::vector<bool> written_elsewhere_;                    // by buffer: written outside of the run
  std::vector<bool> has_copy_;                             // by buffer: counted by count_copy
  std::vector<bool> unread_;                               // by buffer: regathered and not read yet
  std::array<std::array<Changes, kSections>, 2> changes_;  // forward, backward
  std::array<HeldMemory, kSections> held_;
  bool several_;
};

// Adds the change of `count` equal sections in sequence. The maximum is in the first or the
// last one. Example: net 1, most 3, count 4 -> net 4, most 3 + 3 * 1 = 6.
void add_repeated(MemoryChange& to, const MemoryChange& one, std::int64_t count) {
  const auto before = total(one.net) > 0 ? static_cast<double>(count - 1) : 0;
  auto most = to.net;
  for (std::size_t k = 0; k < most.size(); ++k) most[k] += before * one.net[k] + one.most[k];
  update_most(to.most, most);
  add(to.net, one.net, static_cast<double>(count));
}

}  // namespace

void add(Parts& to, const Parts& what, double times) {
  for (std::size_t k = 0; k < to.size(); ++k) to[k] += times * what[k];
}

double total(const Parts& parts) { return std::accumulate(parts.begin(), parts.end(), 0.0); }

void update_most(Parts& most, const Parts& now) {
  if (total(now) > total(most)) most = now;
}

HeldMemory Footprint::compute_stage_memory(const RunCounts& counts, const Boundary* before,
                                           const Boundary* behind) const {
  constexpr auto kActivation = static_cast<std::size_t>(BufferKind::kActivation);
  constexpr auto kGradient = static_cast<std::size_t>(BufferKind::kGradient);
  HeldMemory out;
  if (before != nullptr) out.forward.net[kActivation] = before->activation;
  if (behind != nullptr) {
    for (auto* change : {&out.first, &out.backward, &out.last}) {
      change->net[kGradient] = behind->gradient;
    }
  }
  out.last_forward.net = out.forward.net;
  for (auto* change : {&out.forward, &out.last_forward, &out.first, &out.backward, &out.last}) {
    change->most = change->net;
  }
  for (std::size_t r = 0; r < runs.size(); ++r) {
    if (counts[r] == 0) continue;
    const auto& run = runs[r];
    add(out.persistent, run.persistent, static_cast<double>(counts[r]));
    add(out.step, run.step, static_cast<double>(counts[r]));
    add(out.from_then, run.from_then, static_cast<double>(counts[r]));
    add_repeated(out.forward, run.forward, counts[r]);
    add_repeated(out.last_forward, run.last_forward, counts[r]);
  }
  for (auto r = runs.size(); r-- > 0;) {
    if (counts[r] == 0) continue;
    add_repeated(out.first, runs[r].first, counts[r]);
    add_repeated(out.backward, runs[r].backward, counts[r]);
    add_repeated(out.last, runs[r].last, counts[r]);
  }
  if (behind != nullptr) {
    for (auto* change : {&out.forward, &out.last_forward}) {
      change->net[kActivation] -= behind->activation;
    }
  }
  if (before != nullptr) out.last.net[kGradient] -= before->gradient;
  // A micro-batch's other gradients are used or sent within it. The sums over micro-batches remain.
  if (!several) {
    out.backward.net[kGradient] = out.last.net[kGradient];
    return out;
  }
  out.first.net[kGradient] -= out.backward.net[kGradient];
  out.backward.net[kGradient] = 0;
  return out;
}

Footprint compute_footprint(const Program& program, const std::vector<SectionPlace>& place_of_node,
                            const std::vector<SectionPlace>& place_of_task,
                            const std::vector<Run>& runs, bool is_pipelined) {
  Footprint out;
  out.several = program.digits.time() != 0;
  out.runs.resize(runs.size());
  const LifetimeCollector all(program, place_of_node, place_of_task, is_pipelined, nullptr);
  for (const auto& run : runs) {
    auto& boundaries = out.boundaries[static_cast<std::size_t>(run.section)];
    boundaries.resize(std::max<std::size_t>(boundaries.size(), run.to));
  }
  for (std::size_t r = 0; r < runs.size(); ++r) {
    const auto section = runs[r].section;
    const bool is_whole =
        runs[r].from == 0 && runs[r].to == out.boundaries[static_cast<std::size_t>(section)].size();
    out.runs[r] =
        is_whole ? all.compute_held(section)
                 : LifetimeCollector(program, place_of_node, place_of_task, is_pipelined, &runs[r])
                       .compute_held(section);
  }
  // The last piece has no boundary.
  for (std::size_t s = 0; s < kSections; ++s) {
    for (std::uint8_t p = 0; p < out.boundaries[s].size(); ++p) {
      const bool is_last = p + 1U == out.boundaries[s].size();
      if (is_last && s + 1 == kSections) break;
      const SectionPlace here{static_cast<Section>(s), p};
      const SectionPlace next = is_last
                                    ? SectionPlace{static_cast<Section>(s + 1), 0}
                                    : SectionPlace{here.section, static_cast<std::uint8_t>(p + 1)};
      out.boundaries[s][p] = all.find_boundary(here, next);
    }
  }
  return out;
}

}  // namespace tandem::predict
