#include "estimate/pipeline.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "lower/order.h"

namespace tandem::estimate {

namespace {

using lower::Part;
using lower::Turn;

constexpr double kNotSent = -1;

struct Rank {
  const std::vector<Turn>* turns = nullptr;
  std::size_t next = 0;
  double free = 0;        // when it can compute
  double sends = 0;       // when the stream of what it sends is free
  double sends_from = 0;  // since when it is not
  double receives = 0;    // and of what it receives
  double reductions = 0;  // and of gradients' reductions
  double host = 0;        // when its host has dispatched all so far
  double busy = 0;
  double exposed = 0;

  // It has nothing to compute until then, and receives since.
  void wait_until(double then, double received_from) {
    const double sending = std::max(0.0, std::min(then, sends) - std::max(free, sends_from));
    const double from = std::max({free, received_from, std::min(then, sends)});
    exposed += sending + std::max(0.0, then - from);
    free = then;
  }
};

class Pipeline {
 public:
  Pipeline(std::int64_t micro_batches, const TurnTables::Table& turns,
           const std::vector<StageTimes>& stages, const std::vector<Transfer>& transfers,
           const Tied& tied)
      : micro_batches_(micro_batches), stages_(stages), transfers_(transfers), tied_(tied) {
    const auto cells = stages.size() * static_cast<std::size_t>(micro_batches);
    for (auto& sent : sent_) sent.assign(cells, kNotSent);
    for (const auto& of_rank : turns) ranks_.push_back({.turns = &of_rank});
  }

  PipelineTime run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (auto& rank : ranks_) moved = advance(rank) || moved;
    }
    PipelineTime out;
    for (const auto& rank : ranks_) {
      CHECK(rank.next == rank.turns->size(), "a rank waits for ever");
      out.end = std::max({out.end, rank.free, rank.reductions});
      out.busy.push_back(rank.busy);
      out.exposed.push_back(rank.exposed);
    }
    return out;
  }

 private:
  // By direction: when the sending of each stage's results began.
  double& sent(Part part, std::size_t stage, std::int64_t micro_batch) {
    return sent_[static_cast<std::size_t>(part)][stage * static_cast<std::size_t>(micro_batches_) +
                                                 static_cast<std::size_t>(micro_batch)];
  }

  bool advance(Rank& rank) {
    bool moved = false;
    for (; rank.next < rank.turns->size(); ++rank.next) {
      const auto& turn = (*rank.turns)[rank.next];
      if (turn.part == Part::kUpdate) {
        update(rank, turn);
      } else if (!take(rank, turn)) {
        return moved;
      }
      moved = true;
    }
    return moved;
  }

  bool take(Rank& rank, const Turn& turn) {
    const bool forward = turn.part == Part::kForward;
    const auto last_stage = stages_.size() - 1;
    const auto before = rank.free;
    if (forward ? turn.stage > 0 : turn.stage < last_stage) {
      const auto from = forward ? turn.stage - 1U : turn.stage + 1U;
      const auto began = sent(turn.part, from, turn.micro_batch);
      if (began == kNotSent) return false;
      receive(rank, began, transfer_from(forward ? from : turn.stage));
    }
    const auto& stage = stages_[turn.stage];
    double time = forward ? stage.forward : stage.backward;
    if (forward && turn.micro_batch == 0) time += stage.first;
    const bool last = !forward && turn.micro_batch + 1 == micro_batches_;
    if (last) time += stage.last;
    if (forward && stage.wait > 0) {
      rank.host = std::max(rank.host, before) + stage.wait;
      rank.free = std::max(rank.free, rank.host);
    }
    rank.host += forward ? stage.dispatch : stage.dispatch_backward;
    rank.free = std::max(rank.free + time, rank.host);
    rank.busy += time;
    if (last) finish_gradients(rank, turn.stage);
    if (forward ? turn.stage < last_stage : turn.stage > 0) {
      send(rank, sent(turn.part, turn.stage, turn.micro_batch),
           transfer_from(forward ? turn.stage : turn.stage - 1U));
    }
    if (forward && turn.micro_batch == 0) share_tied(rank, turn.stage);
    return true;
  }

  // Between a stage and the next.
  [[nodiscard]] const Transfer& transfer_from(std::size_t stage) const {
    return transfers_[stage % transfers_.size()];
  }

  void finish_gradients(Rank& rank, std::size_t stage) {
    const auto& times = stages_[stage];
    rank.reductions =
        std::max(rank.reductions + times.reductions, rank.free + times.after - times.updates);
    if (stage + 1 == stages_.size()) tied_from_ = rank.free;
    if (stage == 0 && tied_.gradient > 0) {
      rank.reductions = std::max(rank.reductions, tied_from_ + tied_.gradient);
    }
  }

  // The first stage sends the weight behind its first activation; the last one needs it.
  void share_tied(Rank& rank, std::size_t stage) {
    if (stage == 0) {
      tied_there_ = rank.sends += tied_.weight;
    } else if (stage + 1 == stages_.size() && tied_there_ > rank.free) {
      rank.wait_until(tied_there_, tied_there_ - tied_.weight);
    }
  }

  static void receive(Rank& rank, double began, const Transfer& transfer) {
    auto& stream = transfer.by_device ? rank.free : rank.receives;
    const auto start = std::max(stream, began);
    stream = start + transfer.time;
    if (!transfer.by_device && stream > rank.free) rank.wait_until(stream, start);
  }

  static void send(Rank& rank, double& began, const Transfer& transfer) {
    auto& stream = transfer.by_device ? rank.free : rank.sends;
    began = std::max(stream, rank.free);
    stream = began + transfer.time;
    rank.sends_from = began;
  }

  void update(Rank& rank, const Turn& turn) const {
    const auto time = stages_[turn.stage].updates;
    if (rank.reductions > rank.free) rank.wait_until(rank.reductions, rank.free);
    rank.free += time;
    rank.busy += time;
  }

  std::int64_t micro_batches_;
  const std::vector<StageTimes>& stages_;
  const std::vector<Transfer>& transfers_;
  Tied tied_;
  double tied_from_ = 0;   // when the last stage has its gradient
  double tied_there_ = 0;  // when the last stage has the weight
  std::array<std::vector<double>, 2> sent_;
  std::vector<Rank> ranks_;
};

}  // namespace

const TurnTables::Table& TurnTables::of(const plan::Schedule& schedule, std::int64_t ranks,
                                        std::int64_t micro_batches) {
  const auto [at, is_new] =
      tables_.try_emplace({schedule.order, schedule.stages, ranks, micro_batches});
  if (is_new) {
    auto with_these = schedule;
    with_these.micro_batches = micro_batches;
    for (std::int64_t r = 0; r < ranks; ++r) {
      at->second.push_back(lower::turns_of(with_these, ranks, r));
    }
  }
  return at->second;
}

namespace {

PipelineTime run(const plan::Schedule& schedule, std::int64_t micro_batches,
                 const std::vector<StageTimes>& stages, const std::vector<Transfer>& transfers,
                 const Tied& tied, TurnTables& turns) {
  const auto ranks = static_cast<std::int64_t>(transfers.size());
  return Pipeline(micro_batches, turns.of(schedule, ranks, micro_batches), stages, transfers, tied)
      .run();
}

double longest_turns(const std::vector<StageTimes>& stages) {
  double out = 0;
  for (const auto& stage : stages) out = std::max(out, stage.forward + stage.backward);
  return out;
}

// In a full pipeline, one stage a rank, a rank's turns wait in a circle for those of its
// neighbours: over n ranks in a row, forward along them and back takes the time of n micro-batches.
// Is any such way longer than n turns of the busiest rank?
bool waits_when_full(const std::vector<StageTimes>& stages,
                     const std::vector<Transfer>& transfers) {
  const auto has_host = [](const StageTimes& s) { return s.dispatch + s.wait > 0; };
  if (std::ranges::any_of(stages, has_host)) return true;
  constexpr double kRounding = 1.001;
  const auto busiest = kRounding * longest_turns(stages);
  for (std::size_t first = 0; first < stages.size(); ++first) {
    double way = 0;
    for (std::size_t i = first; i < stages.size(); ++i) {
      if (i > first) way += 2 * transfers[i - 1].time;
      way += stages[i].forward + stages[i].backward;
      if (way > busiest * static_cast<double>(i - first + 1)) return true;
    }
  }
  return false;
}

}  // namespace

PipelineTime time_of_every_turn(const plan::Schedule& schedule,
                                const std::vector<StageTimes>& stages,
                                const std::vector<Transfer>& transfers, const Tied& tied,
                                TurnTables& turns) {
  return run(schedule, schedule.micro_batches, stages, transfers, tied, turns);
}

PipelineTime time_of(const plan::Schedule& schedule, const std::vector<StageTimes>& stages,
                     const std::vector<Transfer>& transfers, const Tied& tied, TurnTables& turns) {
  // Once the pipeline is full, every micro-batch adds what the busiest rank needs for it.
  const auto ranks = static_cast<std::int64_t>(transfers.size());
  const auto all = schedule.micro_batches;
  const auto full = 2 * ranks;
  const bool one_each = schedule.order == plan::Order::k1F1B && schedule.stages == ranks;
  if (all <= full + 1 || !one_each || waits_when_full(stages, transfers)) {
    return run(schedule, all, stages, transfers, tied, turns);
  }
  auto out = run(schedule, full + 1, stages, transfers, tied, turns);
  const auto before = run(schedule, full, stages, transfers, tied, turns);
  // Not yet, where the busiest rank is early and its delay has not gone through.
  constexpr double kRounding = 0.999;
  if (out.end - before.end < kRounding * longest_turns(stages)) {
    return run(schedule, all, stages, transfers, tied, turns);
  }
  const auto more = static_cast<double>(all - full - 1);
  const auto go_on = [&](double& now, double then) { now += more * (now - then); };
  go_on(out.end, before.end);
  for (std::size_t r = 0; r < out.busy.size(); ++r) {
    go_on(out.busy[r], before.busy[r]);
    go_on(out.exposed[r], before.exposed[r]);
  }
  return out;
}

}  // namespace tandem::estimate
