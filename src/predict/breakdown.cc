#include "predict/breakdown.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace tandem::predict {

using lower::TaskKind;

std::string_view get_task_kind(const lower::Program& program, const lower::Task& task) {
  if (task.kind == TaskKind::kSend || task.kind == TaskKind::kReceive) return "send_recv";
  if (task.kind == TaskKind::kMove) return machine::name(task.step.kind);
  const bool looks_up = program.pcg.node(task.node).op.spec().row_sparse_operand.has_value();
  return looks_up ? "embedding" : "compute";
}

std::string_view to_reported_kind(std::string_view kind) {
  const auto at = std::ranges::find(kReportedKinds, kind);
  return at == kReportedKinds.end() ? "send_recv" : *at;
}

bool communicates(const lower::Task& task) {
  if (task.kind == TaskKind::kMove) return !is_local(task.step.kind);
  return task.kind == TaskKind::kSend || task.kind == TaskKind::kReceive;
}

namespace {

// Sums shares in a sweep over the begins and ends of spans.
class Sweep {
 public:
  Sweep(const lower::Program& program, const Simulation& simulation)
      : program_(program), iteration_(simulation.iteration) {
    for (const auto& span : simulation.timeline) {
      if (span.device_class == simulation.busiest) add(span);
    }
  }

  std::vector<Share> run() {
    std::ranges::sort(events_, {}, [](const SweepEvent& e) { return std::pair(e.at, e.begins); });
    Seconds before;
    for (const auto& event : events_) {
      expose(event.at - before);
      before = event.at;
      active_[event.share] += event.begins ? 1 : -1;
      (shares_[event.share].is_compute() ? computing_ : communicating_) += event.begins ? 1 : -1;
    }
    const auto rank = [](const Share& s) {
      const auto at = std::ranges::find(kReportedKinds, to_reported_kind(s.kind));
      return std::tuple(at, s.kind, s.digits);
    };
    std::ranges::stable_sort(shares_, {}, rank);
    return std::move(shares_);
  }

 private:
  void add(const Span& span) {
    const auto& task = program_.tasks[span.task];
    const auto share = find_or_add_share(task);
    auto& sums = shares_[share];
    ++sums.count;
    if (communicates(task)) sums.bytes += count_moved_bytes(program_, task);
    sums.serialized += span.end - span.start;
    // A span that continues into the next iteration also continues from the last one.
    if (span.end > iteration_) {
      add_event(share, span.start, iteration_);
      add_event(share, Seconds{}, span.end - iteration_);
    } else {
      add_event(share, span.start, span.end);
    }
  }

  std::size_t find_or_add_share(const lower::Task& task) {
    const auto kind = get_task_kind(program_, task);
    const auto digits = communicates(task) ? task.step.digits : 0;
    const auto [at, fresh] = known_.try_emplace({std::string(kind), digits}, shares_.size());
    if (fresh) {
      shares_.push_back({.kind = std::string(kind),
                         .digits = digits,
                         .count = 0,
                         .bytes = {},
                         .serialized = {},
                         .exposed = {}});
      active_.push_back(0);
    }
    return at->second;
  }

  void add_event(std::size_t share, Seconds begin, Seconds end) {
    events_.push_back({begin, true, share});
    events_.push_back({end, false, share});
  }

  // Adds `time` to the exposed time of the active shares.
  void expose(Seconds time) {
    if (time <= Seconds{} || (computing_ > 0) == (communicating_ > 0)) return;
    const int together = computing_ + communicating_;
    for (std::size_t s = 0; s < shares_.size(); ++s) {
      if (active_[s] > 0) shares_[s].exposed += time * (active_[s] / double(together));
    }
  }

  struct SweepEvent {
    Seconds at;
    bool begins = false;  // ends sort before begins at the same time
    std::size_t share = 0;
  };
  const lower::Program& program_;
  Seconds iteration_;
  std::vector<Share> shares_;
  std::vector<int> active_;  // by share: number of active spans
  std::map<std::pair<std::string, machine::DigitMask>, std::size_t> known_;
  std::vector<SweepEvent> events_;
  int computing_ = 0;
  int communicating_ = 0;
};

}  // namespace

std::vector<Share> break_down(const lower::Program& program, const Simulation& simulation) {
  return Sweep(program, simulation).run();
}

}  // namespace tandem::predict
