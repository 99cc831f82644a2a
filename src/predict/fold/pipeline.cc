#include "predict/fold/pipeline.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>

namespace tandem::predict {

namespace {

using lower::Phase;

// Marks a pass that sends nothing.
constexpr double kNothing = -1;

// A stage's forward or backward pass. `receive` is 0 if it receives nothing.
struct PipelinePass {
  double time = 0;
  double early = 0;  // part of `time` before it needs its input
  double more = 0;
  double receive = 0;
  double send = 0;  // kNothing: it sends nothing
};

// Transfers that a pass receives and sends, or null.
struct PassTransfers {
  const StageTransfer* from = nullptr;
  const StageTransfer* to = nullptr;
};

// State of one rank: times in seconds, except `updates`.
struct PipelineRank {
  double free = 0;        // when it can compute
  double sends = 0;       // when its send stream is free
  double sends_from = 0;  // since when its send stream is busy
  double receives = 0;    // when its receive stream is free
  double reductions = 0;  // when its gradient reductions are done
  double host = 0;        // when its host has dispatched all tasks so far
  double exposed = 0;
  double gathers = 0;    // when extra work of its first micro-batches is done
  bool updates = false;  // whether it has begun to update

  // Makes the rank wait until `then`, which is no earlier than `free`. It receives from
  // `received_from` on. Adds the time in which it sends or receives to `exposed`.
  void wait_until(double then, double received_from) {
    const double sent = std::min(then, sends);
    const double sending = std::max(0.0, sent - std::max(free, sends_from));
    const double from = std::max(std::max(free, received_from), sent);
    exposed += sending + (then - from);
    free = then;
  }
};

class PipelineSimulation {
 public:
  PipelineSimulation(const OrderedSchedule& actions, const std::vector<StageTimes>& stages,
                     const std::vector<StageTransfer>& transfers, const TiedTransfer& tied,
                     std::vector<ScheduleCache::Taken>& taken)
      : schedule_(actions), stages_(stages), tied_(tied), taken_(taken), ranks_(actions.ranks()) {
    const std::size_t places =
        actions.first_place.back() + 1;  // one for slots that receive nothing
    if (taken_.size() < places) taken_.resize(places);
    taken_[places - 1] = {};
    const auto stages_count = stages.size();
    ends_.resize(2 * stages_count);
    times_.resize(2 * stages_count);
    for (std::size_t s = 0; s < stages_count; ++s) {
      const auto* before = s > 0 ? &transfers[s - 1] : nullptr;
      const auto* after = s + 1 < stages_count ? &transfers[s] : nullptr;
      const auto& stage = stages[s];
      ends_[2 * s] = {before, after};
      ends_[2 * s + 1] = {after, before};
      times_[2 * s] = {.time = stage.forward,
                       .more = stage.forward_more,
                       .receive = before != nullptr ? before->time : 0,
                       .send = after != nullptr ? after->time : kNothing};
      times_[2 * s + 1] = {.time = stage.backward,
                           .early = stage.backward_early,
                           .more = stage.backward_more,
                           .receive = after != nullptr ? after->back : 0,
                           .send = before != nullptr ? before->back : kNothing};
      has_host_ = has_host_ || takes_host(stage);
      any_by_device_ = any_by_device_ || (before != nullptr && before->by_device);
    }
  }

  PipelineTime run() {
    if (has_host_ || any_by_device_) {
      for (std::size_t t = 0; t < schedule_.actions.size(); ++t) run_action(t);
    } else {
      run_all();
    }
    PipelineTime out;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      out.end = std::max({out.end, ranks_[r].free, ranks_[r].reductions});
      out.busy.push_back(compute_busy(r));
      out.exposed.push_back(ranks_[r].exposed);
    }
    return out;
  }

  // Returns the time that one round of `turns` forward slots and as many backward slots adds to the
  // step, and to each rank's exposed time. Returns nullopt unless the last slots all end later, by
  // the same time, than those one round before. Then each further round adds the same time. A slot
  // waits for nothing further away than the next rank's slot before it, so two slots per rank are
  // enough to compare.
  [[nodiscard]] std::optional<PipelineTime> measure_round(std::uint32_t actions) const {
    PipelineTime out;
    const auto alternating = count_alternating();
    const auto all_ranks = 2 * static_cast<std::uint32_t>(ranks_.size());
    const auto compared = std::min(2 * actions, all_ranks);
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      const auto count = schedule_.first_place[r + 1] - schedule_.first_place[r];
      // Compares slots that alternate on the first rank, which is the first to begin no new ones.
      if (alternating < 2 * actions + compared || schedule_.warm_up[r] + alternating > count) {
        return std::nullopt;
      }
      const auto end = schedule_.first_place[r] + schedule_.warm_up[r] + alternating;
      if (r == 0) out.end = time_since_round(end - 1, actions);
      constexpr double kRounding = 1e-9;
      for (auto place = end - compared; place < end; ++place) {
        const bool same =
            std::abs(time_since_round(place, actions) - out.end) <= kRounding * out.end;
        if (!same) return std::nullopt;
      }
      // A host that is behind and slower would delay later rounds.
      if (compute_round_host(r, actions) > (1 + kRounding) * out.end) return std::nullopt;
      out.exposed.push_back(taken_[end - 1].exposed - taken_[end - 1 - 2 * actions].exposed);
      out.busy.push_back(compute_round_busy(r, actions));
    }
    return out;
  }

 private:
  [[nodiscard]] std::uint32_t count_alternating() const {
    return schedule_.first_place[1] - chunks() - 2 * schedule_.warm_up[0];
  }

  [[nodiscard]] double time_since_round(std::uint32_t place, std::uint32_t actions) const {
    return taken_[place].end - taken_[place - 2 * actions].end;
  }

  // Returns the busy time of a rank in `turns` forward and `turns` backward slots, without work
  // that occurs once a step.
  [[nodiscard]] double compute_round_busy(std::size_t rank, std::uint32_t actions) const {
    double out = 0;
    for (auto s = rank; s < stages_.size(); s += ranks_.size()) {
      out += stages_[s].forward + stages_[s].backward;
    }
    return out * actions / static_cast<double>(chunks());
  }
  [[nodiscard]] double compute_round_host(std::size_t rank, std::uint32_t actions) const {
    double out = 0;
    for (auto s = rank; s < stages_.size(); s += ranks_.size()) {
      out += stages_[s].host_forward.dispatch + stages_[s].host_backward.dispatch + stages_[s].wait;
      // Each transfer costs both ends, in each direction.
      for (const auto* transfer : {ends_[2 * s].from, ends_[2 * s].to}) {
        if (transfer != nullptr) out += 2 * transfer->dispatch;
      }
    }
    return out * actions / static_cast<double>(chunks());
  }
  [[nodiscard]] double compute_busy(std::size_t rank) const {
    const auto places = schedule_.first_place[rank + 1] - schedule_.first_place[rank];
    auto out = compute_round_busy(rank, (places - chunks()) / 2);
    for (auto s = rank; s < stages_.size(); s += ranks_.size()) {
      out += s == 0 ? stages_[s].first : stages_[s].first_late;
      out += stages_[s].last + stages_[s].updates;
    }
    return out;
  }
  [[nodiscard]] std::uint32_t chunks() const {
    return static_cast<std::uint32_t>(stages_.size() / ranks_.size());
  }

  void run_action(std::size_t t) {
    const auto& action = schedule_.actions[t];
    const auto& places = schedule_.places[t];
    auto& rank = ranks_[places.rank];
    if (action.phase == Phase::kUpdate) {
      update(rank, action);
    } else {
      run_pass(rank, action, places);
    }
  }

  void run_all() {
    std::size_t next = 0;
    bool alike = true;
    for (const auto count : schedule_.stretches) {
      const auto end = next + count;
      if (alike) {
        run_plain_actions(std::span(schedule_.places).subspan(next, count));
      } else {
        for (auto t = next; t < end; ++t) run_action(t);
      }
      next = end;
      alike = !alike;
    }
  }

  // Fast version of `run_action` for most slots, where most time is spent: no host, and no work
  // that occurs once a step. A slot that receives nothing receives in no time, since earlier
  // receives are long done.
  void run_plain_actions(std::span<const ActionIndices> actions) {
    const auto* times = times_.data();
    auto* ranks = ranks_.data();
    auto* taken = taken_.data();
    for (const auto& action : actions) {
      auto& rank = ranks[action.rank];
      const auto& pass = times[action.pass];
      const auto start = std::max(rank.receives, taken[action.input].end);
      const auto received = start + pass.receive;
      rank.receives = received;
      const auto needed = received - pass.early;
      if (needed > rank.free) rank.wait_until(needed, std::min(start, needed));
      const auto free = rank.free += pass.time;
      auto began = free;
      if (pass.send >= 0) {
        began = std::max(rank.sends, free + pass.more);
        rank.sends = began + pass.send;
        rank.sends_from = began;
      }
      taken[action.taken] = {began, rank.exposed};
    }
  }

  void run_pass(PipelineRank& rank, const OrderedAction& action, const ActionIndices& places) {
    const bool forward = action.phase == Phase::kForward;
    const auto& stage = stages_[action.stage];
    const auto& pass = times_[places.pass];
    const auto& ends = ends_[places.pass];
    // If the host waits for the device, it is at most one slot ahead.
    if (forward && stage.wait > 0) rank.host = std::max(rank.host, rank.free) + stage.wait;
    if (forward && action.is_first) send_tied_weight(rank, action.stage);
    if (ends.from != nullptr) {
      receive(rank, taken_[places.input].end, pass, *ends.from);
    }
    double time = pass.time;
    if (forward && action.is_first) {
      // Work that does not wait for the input begins with the step.
      time = std::max(time + stage.first_late, rank.gathers + time + stage.first - rank.free);
      rank.gathers += stage.first;
    }
    if (!forward && action.is_last) time += stage.last;
    const auto dispatched_from = rank.host;
    rank.free = std::max(rank.free + time, dispatched_from);
    if (has_host_) {
      const auto& host = get_host_times(stage, action);
      rank.free = std::max(rank.free, dispatched_from + host.end);
      rank.host += host.dispatch;
    }
    if (!forward && action.is_last) finish_gradients(rank, action.stage, dispatched_from);
    taken_[places.taken] = {ends.to == nullptr ? rank.free : send(rank, pass, *ends.to),
                            rank.exposed};
  }

  static bool takes_host(const StageTimes& stage) {
    return stage.host_forward.end + stage.host_backward.end + stage.host_update.end + stage.wait +
               stage.wait_update >
           0;
  }

  static const HostTimes& get_host_times(const StageTimes& stage, const OrderedAction& action) {
    if (action.phase == Phase::kForward)
      return action.is_first ? stage.host_first : stage.host_forward;
    return action.is_last ? stage.host_last : stage.host_backward;
  }

  void finish_gradients(PipelineRank& rank, std::size_t stage, double dispatched_from) {
    const auto& times = stages_[stage];
    rank.reductions =
        std::max({rank.reductions + times.reductions, rank.free + times.after - times.updates,
                  dispatched_from + times.host_reductions});
    if (stage == tied_.stage) tied_from_ = rank.free;
    if (stage == 0 && tied_.gradient > 0) {
      rank.reductions = std::max(rank.reductions, tied_from_ + tied_.gradient);
    }
  }

  // Sends the tied weight from the first stage, before its first activation, to the other stage.
  void send_tied_weight(PipelineRank& rank, std::size_t stage) {
    if (stage == 0) {
      tied_there_ = (any_by_device_ ? rank.free : rank.sends) += tied_.weight;
    } else if (stage == tied_.stage) {
      auto& stream = any_by_device_ ? rank.free : rank.receives;
      stream = std::max(stream, tied_there_);
    }
    if (any_by_device_ && (stage == 0 || stage == tied_.stage)) rank.exposed += tied_.weight;
  }

  static void receive(PipelineRank& rank, double began, const PipelinePass& pass,
                      const StageTransfer& transfer) {
    auto& stream = transfer.by_device ? rank.free : rank.receives;
    rank.host += transfer.dispatch;
    const auto start = std::max({stream, began, rank.host});
    stream = start + pass.receive;
    if (transfer.by_device) {
      rank.exposed += pass.receive;
      return;
    }
    const auto needed = std::max(stream - pass.early, rank.free);
    rank.wait_until(needed, std::min(start, needed));
  }

  // Sends the result of a pass. Returns when the send begins.
  static double send(PipelineRank& rank, const PipelinePass& pass, const StageTransfer& transfer) {
    rank.host += transfer.dispatch;
    const auto there = std::max(rank.free + pass.more, pass.more < 0 ? 0 : rank.host);
    if (transfer.by_device) {
      // The send is part of the slot and delays the rank's next slots.
      rank.free = std::max(rank.free, there) + pass.send;
      rank.exposed += pass.send;
      return there;
    }
    const auto began = std::max(rank.sends, there);
    rank.sends = began + pass.send;
    rank.sends_from = began;
    return began;
  }

  void update(PipelineRank& rank, const OrderedAction& action) const {
    const auto& stage = stages_[action.stage];
    if (!rank.updates) rank.host = std::max(rank.host, rank.free) + stage.wait_update;
    rank.updates = true;
    if (rank.reductions > rank.free) rank.wait_until(rank.reductions, rank.free);
    rank.free = std::max(rank.free + stage.updates, rank.host + stage.host_update.end);
    rank.host += stage.host_update.dispatch;
  }

  const OrderedSchedule& schedule_;
  const std::vector<StageTimes>& stages_;
  TiedTransfer tied_;
  std::vector<PipelinePass> times_;  // by pass: each stage's forward, then its backward
  std::vector<PassTransfers> ends_;  // by pass
  bool has_host_ = false;
  bool any_by_device_ = false;
  double tied_from_ = 0;                      // when the other stage has its gradient
  double tied_there_ = 0;                     // when the other stage has the weight
  std::vector<ScheduleCache::Taken>& taken_;  // by place
  std::vector<PipelineRank> ranks_;
};

}  // namespace

PipelineTime compute_unextrapolated_time(const plan::Schedule& schedule, std::int64_t ranks,
                                         const std::vector<StageTimes>& stages,
                                         const std::vector<StageTransfer>& transfers,
                                         const TiedTransfer& tied, ScheduleCache& actions) {
  return PipelineSimulation(actions.get_ordered(schedule, ranks, schedule.micro_batches), stages,
                            transfers, tied, actions.get_scratch())
      .run();
}

PipelineTime compute_pipeline_time(const plan::Schedule& schedule, std::int64_t ranks,
                                   const std::vector<StageTimes>& stages,
                                   const std::vector<StageTransfer>& transfers,
                                   const TiedTransfer& tied, ScheduleCache& actions) {
  const auto chunks = schedule.stages / ranks;
  const auto all = schedule.micro_batches;
  const bool one_each = schedule.order == plan::Order::k1F1B && chunks == 1;
  const bool alternates = one_each || schedule.order == plan::Order::kInterleaved;
  // Micro-batches per round, and the number of micro-batches that fill and drain the pipeline with
  // more than one round between.
  const auto round = one_each ? 1 : ranks;
  const auto least = one_each ? 2 * ranks + 2 : 3 * ranks;
  for (auto some = least; alternates && some < all; some *= 2) {
    PipelineSimulation pipeline(actions.get_ordered(schedule, ranks, some), stages, transfers, tied,
                                actions.get_scratch());
    auto out = pipeline.run();
    const auto further = pipeline.measure_round(static_cast<std::uint32_t>(round * chunks));
    if (!further) continue;
    const auto left = (all - some) / round;
    const auto rounds = static_cast<double>(left);
    out.end += rounds * further->end;
    for (std::size_t r = 0; r < out.busy.size(); ++r) {
      out.busy[r] += rounds * further->busy[r];
      out.exposed[r] += rounds * further->exposed[r];
    }
    return out;
  }
  return compute_unextrapolated_time(schedule, ranks, stages, transfers, tied, actions);
}

}  // namespace tandem::predict
