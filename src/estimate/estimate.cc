#include "estimate/estimate.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "base/hash.h"
#include "cost/collectives.h"
#include "cost/operator_time.h"
#include "machine/part.h"
#include "strategies/grid.h"
#include "strategies/pipeline.h"

namespace tandem::estimate {

namespace {

using lower::Part;
using machine::DigitMask;
using strategies::Setting;

// How many of each section every stage has.
std::vector<SectionCounts> counts_of(std::int64_t layers, std::int64_t stages) {
  std::vector<SectionCounts> out;
  out.reserve(static_cast<std::size_t>(stages));
  for (std::int64_t s = 0; s < stages; ++s) {
    const std::int64_t first = s == 0 ? 1 : 0;
    const std::int64_t last = s + 1 == stages ? 1 : 0;
    out.push_back({first, first, layers / stages - first - last, last, last});
  }
  return out;
}

double end_of(double output, const Streams& streams) { return std::max(output, streams[0]); }

// The host left out: what it has dispatched need not have run.
double latest(const Streams& streams) {
  return *std::max_element(streams.begin(), streams.end() - 1);
}

// One device of all, for a whole step.
double time_of_step(const Sections& sections, const SectionCounts& counts, Passages& passages,
                    std::int64_t micro_batches) {
  StageTimer timer(sections, counts, passages);
  auto streams = timer.idle();
  double now = 0;
  const auto run = [&](bool first, bool last) {
    now = timer.run(Part::kForward, first, last, 0, streams);
    now = timer.run(Part::kBackward, first, last, now, streams);
  };
  const auto once = [&](std::int64_t m) { run(m == 0, m + 1 == micro_batches); };
  constexpr std::int64_t kTimed = 4;  // the first, two to see what one adds, the last
  if (micro_batches <= kTimed) {
    for (std::int64_t m = 0; m < micro_batches; ++m) once(m);
  } else {
    once(0);
    once(1);
    const auto before = streams;
    once(2);
    for (std::size_t s = 0; s < streams.size(); ++s) {
      streams[s] += static_cast<double>(micro_batches - kTimed) * (streams[s] - before[s]);
    }
    once(micro_batches - 1);
  }
  timer.update(streams);
  return std::max(now, latest(streams));
}

// The turns of a stage of several: what a micro-batch takes, and what the first and last do beside.
StageTimes times_of_stage(const Sections& sections, const SectionCounts& counts, Passages& passages,
                          std::int64_t micro_batches) {
  StageTimer timer(sections, counts, passages, false);
  auto streams = timer.idle();
  double now = 0;
  const auto run = [&](Part part, bool first, bool last) {
    const auto before = now;
    now = end_of(timer.run(part, first, last, now, streams), streams);
    return now - before;
  };
  StageTimes out;
  out.dispatch = dispatch_of(sections, counts, Part::kForward);
  out.dispatch_backward = dispatch_of(sections, counts, Part::kBackward);
  out.wait = sections.micro_batch;
  const auto first = run(Part::kForward, true, micro_batches == 1);
  run(Part::kBackward, false, false);
  out.forward = run(Part::kForward, false, false);
  out.backward = run(Part::kBackward, false, false);
  out.first = first - out.forward;
  run(Part::kForward, false, false);
  out.last = run(Part::kBackward, false, true) - out.backward;
  const auto reduced = latest(streams);
  timer.update(streams);
  out.after = latest(streams) - now;
  for (std::size_t s = 0; s < kSections; ++s) {
    out.updates += static_cast<double>(counts[s]) * sections.sums[s].updates;
  }
  out.after = std::max(out.after, out.updates + sections.step);
  out.reductions = reduced - now;
  return out;
}

// The stages of one strategy, put together.
class Step {
 public:
  Step(const machine::Machine& machine, const machine::Digits& digits, const StageModel& stage,
       const Sections& sections, Passages& passages, const Setting& setting, std::int64_t batch,
       const Training& training, TurnTables& turns)
      : machine_(machine),
        digits_(digits),
        stage_(stage),
        sections_(sections),
        passages_(passages),
        turns_(turns),
        schedule_(stage.schedule),
        batch_(batch),
        ranks_(setting.pp) {
    schedule_.micro_batches = setting.micro.value_or(1);
    schedule_.stages = setting.pp * setting.interleave;
    if (setting.interleave > 1) schedule_.order = plan::Order::kInterleaved;
    counts_ = counts_of(stage.layers, schedule_.stages);
    if (ranks_ == 1) return;
    const auto digits_of_ranks = strategies::rank_digits(digits, ranks_).value();
    const auto copies =
        stage.footprint.boundary_copied ? strategies::tensor_digits(setting, digits) : 0;
    transfers_.reserve(static_cast<std::size_t>(ranks_));
    for (std::int64_t r = 0; r < ranks_; ++r) {
      const auto across = digits_between(r, (r + 1) % ranks_, digits_of_ranks);
      transfers_.push_back(transfer(across, copies, Bytes{stage.footprint.boundary}));
    }
    tie(digits_between(ranks_ - 1, 0, digits_of_ranks), training);
  }

  Estimate run() {
    if (schedule_.stages == 1) {
      out_.iteration = time_of_step(sections_, counts_[0], passages_, schedule_.micro_batches);
      fill_in_times({out_.iteration}, {0});
    } else {
      const auto time = time_of(schedule_, times_of_stages(), transfers_, tied_.sends, turns_);
      out_.iteration = time.end;
      fill_in_times(time.busy, time.exposed);
    }
    fill_in_memory();
    fill_in_flops();
    return out_;
  }

 private:
  // What a weight costs that the first and the last stage use: the last one has a copy.
  struct TiedCosts {
    Tied sends;
    double collect = 0;     // adding up its gradient over micro-batches where it is not stored
    double accumulate = 0;  // adding up both uses' gradients, which stages do once
  };

  // The digits in which two ranks differ.
  [[nodiscard]] DigitMask digits_between(std::int64_t from, std::int64_t to,
                                         DigitMask ranks) const {
    DigitMask out = 0;
    for (std::size_t i = 0; i < digits_.count(); ++i) {
      if (((ranks >> i) & 1U) == 0) continue;
      const bool differ =
          digits_.coordinate_of_rank(from, ranks, i) != digits_.coordinate_of_rank(to, ranks, i);
      out |= DigitMask{differ} << i;
    }
    return out;
  }

  [[nodiscard]] Transfer transfer(DigitMask across, DigitMask copies, Bytes bytes) const {
    if (bytes == Bytes{}) return {};
    const auto level = cost::outermost_level(digits_, across);
    return {cost::send_time(machine_, digits_, across, copies, bytes).value,
            machine_.levels[level].by_device};
  }

  void tie(DigitMask across, const Training& training) {
    const auto gradient = schedule_.precision.gradient(stage_.dtype);
    const auto elements = stage_.tied / size_of(stage_.dtype);
    tied_.sends = {transfer(across, 0, stage_.tied).time,
                   transfer(across, 0, elements * size_of(gradient)).time};
    if (tied_.sends.weight == 0 || schedule_.micro_batches == 1) return;
    const auto pass = [&](double buffers) {
      const cost::Work work{.flops = {}, .bytes = buffers * stage_.tied};
      return cost::task_time(machine_.device, work, training.dtype).value;
    };
    tied_.collect = pass(2);
    tied_.accumulate = pass(3);
  }

  [[nodiscard]] std::vector<StageTimes> times_of_stages() const {
    std::vector<StageTimes> out;
    out.reserve(counts_.size());
    for (std::size_t s = 0; s < counts_.size(); ++s) {
      const bool same = s > 0 && counts_[s] == counts_[s - 1];
      out.push_back(
          same ? out.back()
               : times_of_stage(sections_, counts_[s], passages_, schedule_.micro_batches));
    }
    out.front().backward -= tied_.accumulate;
    out.back().backward += tied_.collect;
    return out;
  }

  void fill_in_times(const std::vector<double>& busy, const std::vector<double>& exposed) {
    std::size_t busiest = 0;
    for (std::size_t r = 1; r < busy.size(); ++r) {
      if (busy[r] + exposed[r] > busy[busiest] + exposed[busiest]) busiest = r;
    }
    for (std::size_t s = busiest; s < counts_.size(); s += busy.size()) add_serialized(s);
    for (std::size_t k = 0; k < kKinds; ++k) {
      if (computes(k)) out_.compute += out_.serialized[k];
    }
    const auto all = std::accumulate(out_.serialized.begin(), out_.serialized.end(), 0.0);
    // Where the host is what is waited for nothing is exposed.
    out_.exposed =
        std::clamp(busy[busiest] - out_.compute + exposed[busiest], 0.0, all - out_.compute);
    out_.bubble = std::max(0.0, out_.iteration - out_.compute - out_.exposed);
  }

  void add_serialized(std::size_t s) {
    const auto micro_batches = static_cast<double>(schedule_.micro_batches);
    const auto sums = serialized(sections_, counts_[s]);
    for (std::size_t k = 0; k < kKinds; ++k) {
      out_.serialized[k] += sums.each[k] * micro_batches + sums.once[k];
    }
    if (ranks_ == 1) return;
    const bool is_first = s == 0;
    const bool is_last = s + 1 == counts_.size();
    const auto ranks = transfers_.size();
    // An activation and its gradient each.
    double transfers = 0;
    if (!is_first) transfers += 2 * transfers_[(s + ranks - 1) % ranks].time;
    if (!is_last) transfers += 2 * transfers_[s % ranks].time;
    auto& sends = out_.serialized[2 + static_cast<std::size_t>(machine::Step::kSend)];
    sends += transfers * micro_batches;
    if (is_first || is_last) sends += tied_.sends.weight + tied_.sends.gradient;
    out_.serialized[0] +=
        ((is_last ? tied_.collect : 0) - (is_first ? tied_.accumulate : 0)) * micro_batches;
  }

  void fill_in_memory() {
    std::vector<Held> stages;
    stages.reserve(counts_.size());
    for (std::size_t s = 0; s < counts_.size(); ++s) {
      const bool sends = s + 1 < counts_.size();
      const bool same = s > 1 && sends && counts_[s] == counts_[s - 1];
      stages.push_back(same ? stages.back() : stage_.footprint.of_stage(counts_[s], s > 0, sends));
    }
    if (stages.size() > 1) {
      auto& copies = stages.back().step;
      copies[static_cast<std::size_t>(lower::BufferKind::kActivation)] += stage_.tied.value;
      const auto gradient = size_of(schedule_.precision.gradient(stage_.dtype));
      copies[static_cast<std::size_t>(lower::BufferKind::kGradient)] +=
          stage_.tied.value * (gradient / size_of(stage_.dtype));
    }
    // Beyond these no more are in flight, except where all are.
    auto micro_batches = schedule_.micro_batches;
    if (schedule_.order != plan::Order::kGpipe) {
      micro_batches = std::min(micro_batches, 2 * ranks_);
    }
    const auto& turns = turns_.of(schedule_, ranks_, micro_batches);
    // Of ranks between the first and the last, the earliest has most in flight.
    for (std::int64_t r = 0; r < ranks_; r = r < 1 ? r + 1 : std::max(r + 1, ranks_ - 1)) {
      const auto memory = sim::with_unused(
          peak_over(turns[static_cast<std::size_t>(r)], micro_batches, stages), machine_.device);
      if (memory.peak > out_.memory.peak) out_.memory = memory;
    }
  }

  void fill_in_flops() {
    for (const auto& counts : counts_) {
      for (std::size_t s = 0; s < kSections; ++s) {
        out_.model_flops += static_cast<double>(counts[s]) * sections_.model_flops[s];
      }
    }
    out_.model_flops *= static_cast<double>(batch_) / static_cast<double>(stage_.batch);
    const auto peak = cost::peak_of(machine_.device, stage_.dtype).value *
                      static_cast<double>(machine_.devices());
    if (out_.iteration > 0) out_.mfu = out_.model_flops / peak / out_.iteration;
  }

  const machine::Machine& machine_;
  const machine::Digits& digits_;
  const StageModel& stage_;
  const Sections& sections_;
  Passages& passages_;
  TurnTables& turns_;
  plan::Schedule schedule_;
  std::int64_t batch_;
  std::int64_t ranks_;
  std::vector<SectionCounts> counts_;
  std::vector<Transfer> transfers_;  // by rank
  TiedCosts tied_;
  Estimate out_;
};

// One stage of the setting, in one micro-batch or two.
Setting of_one_stage(const Setting& setting) {
  auto out = setting;
  out.pp = 1;
  out.interleave = 1;
  if (setting.micro) out.micro = std::min<std::int64_t>(*setting.micro, 2);
  return out;
}

// Do data parallel devices differ in nothing but what they sum up? Not where they store weights in
// parts.
bool is_data_parallel(const Setting& s) {
  return s.family == strategies::Family::kMegatron && s.dp.value_or(1) > 1 &&
         s.zero.value_or(0) == 0;
}

// Fewer devices that run data parallel, as long as there are several: what each does is the same.
struct Smaller {
  Setting setting;
  machine::Machine part;
  std::int64_t batch = 0;
};
Smaller with_less_data(const Setting& setting, const machine::Machine& part, std::int64_t batch) {
  const machine::Digits digits(part);
  const auto data = data_digits(setting, digits);
  if (is_data_parallel(setting) && data != 0) {
    const auto innermost = std::bit_floor(data);
    if (auto smaller = part_without(part, digits, data & ~innermost)) {
      auto out = setting;
      out.dp = digits.group_size(innermost);
      return {out, std::move(*smaller), batch / *setting.dp * *out.dp};
    }
  }
  return {setting, part, batch};
}

}  // namespace

std::size_t Estimator::StageHash::operator()(const Stage& stage) const {
  const auto& s = stage.setting;
  Hash h = static_cast<Hash>(s.family);
  for (auto n : {stage.batch, stage.part, s.dp.value_or(-1), s.zero.value_or(-1), s.ep.value_or(-1),
                 s.micro.value_or(-1), s.cp, std::int64_t{s.sp}}) {
    h = hash_combine(h, static_cast<Hash>(n));
  }
  for (auto n : s.tp) h = hash_combine(h, static_cast<Hash>(n));
  return hash_combine(h, hash_text(s.recompute));
}

Estimator::Estimator(const models::Model& model, const machine::Machine& machine,
                     const Training& training)
    : model_(model), machine_(machine), digits_(machine), training_(training) {}

std::optional<Estimate> Estimator::estimate(const Setting& setting, std::int64_t batch) {
  const auto micro = setting.micro.value_or(1);
  const auto* part = part_for(setting.pp);
  if (setting.stale || part == nullptr || batch % micro != 0) return std::nullopt;
  if (setting.interleave > 1 && micro % setting.pp != 0) return std::nullopt;

  const auto inner = of_one_stage(setting);
  const auto inner_batch = batch / micro * inner.micro.value_or(1);
  const Stage on_part{inner, inner_batch, setting.pp};
  auto on_any = on_part;
  if (is_data_parallel(inner)) {
    if (inner_batch % *inner.dp != 0) return std::nullopt;
    on_any.setting.dp = 2;  // any more than 1
    on_any.batch /= *inner.dp;
    on_any.part = 0;
  }
  auto* stage = lowered(on_any, inner, *part, inner_batch);
  if (stage == nullptr) return std::nullopt;
  if (stage->stage.layers % (setting.pp * setting.interleave) != 0) return std::nullopt;
  auto* timed = timed_on(on_part, *stage, inner, *part);
  if (timed == nullptr) return std::nullopt;
  return Step(machine_, digits_, stage->stage, timed->sections, timed->passages, setting, batch,
              training_, turns_)
      .run();
}

const machine::Machine* Estimator::part_for(std::int64_t stages) {
  const auto [at, is_new] = parts_.try_emplace(stages);
  if (is_new) {
    const auto ranks = strategies::rank_digits(digits_, stages);
    if (ranks) at->second = part_without(machine_, digits_, *ranks);
  }
  return at->second ? &*at->second : nullptr;
}

Network* Estimator::network(const machine::Machine& part, std::int64_t batch) {
  std::vector<std::int64_t> shape;
  for (const auto& level : part.levels) shape.push_back(level.count);
  const auto [folded, is_new] = folded_.try_emplace(batch);
  if (is_new) folded->second = fold(model_, batch, training_.dtype);
  if (!folded->second) return nullptr;
  return &networks_.try_emplace({batch, shape}, *folded->second, part).first->second;
}

Estimator::Lowered* Estimator::lowered(const Stage& key, const Setting& inner,
                                       const machine::Machine& part, std::int64_t batch) {
  const auto [at, is_new] = lowered_.try_emplace(key);
  if (is_new) {
    const auto smaller = with_less_data(inner, part, batch);
    auto* folded = network(smaller.part, smaller.batch);
    std::optional<StageModel> stage;
    if (folded != nullptr) {
      stage = stage_model(*folded, smaller.part, smaller.setting, training_, programs_);
    }
    if (stage) {
      const auto time = stage->schedule.micro_batches;
      const auto data = data_digits(smaller.setting, folded->digits()) << (time > 1 ? 1U : 0U);
      at->second.emplace(machine::Digits(smaller.part, time), data, std::move(*stage));
    }
  }
  return at->second ? &*at->second : nullptr;
}

Estimator::Timed* Estimator::timed_on(const Stage& key, Lowered& lowered, const Setting& inner,
                                      const machine::Machine& part) {
  const auto time = lowered.stage.schedule.micro_batches;
  const auto [at, is_new] = timed_.try_emplace(key);
  if (is_new) {
    std::optional<Sections> sections;
    if (!is_data_parallel(inner)) {
      sections = lowered.stage.sections;
    } else {
      const auto data = data_digits(inner, machine::Digits(part)) << (time > 1 ? 1U : 0U);
      sections = retimed(lowered.stage, lowered.data, lowered.digits, part,
                         machine::Digits(part, time), data);
    }
    if (sections) at->second.emplace(std::move(*sections), lowered);
  }
  return at->second ? &*at->second : nullptr;
}

sim::Simulation to_simulation(const Estimate& e) {
  sim::Simulation out;
  out.iteration = Seconds{e.iteration};
  for (std::size_t k = 0; k < kKinds; ++k) {
    if (e.serialized[k] <= 0) continue;
    const bool sends = k == 2 + static_cast<std::size_t>(machine::Step::kSend);
    out.serialized[sends ? "send_recv" : std::string(kind_name(k))] += Seconds{e.serialized[k]};
  }
  out.compute = Seconds{e.compute};
  out.exposed_comm = Seconds{e.exposed};
  out.bubble = Seconds{e.bubble};
  out.memory = e.memory.peak;
  out.group_memory = {e.memory};
  out.persistent = e.memory.persistent;
  out.model_flops = Flops{e.model_flops};
  out.mfu = e.mfu;
  return out;
}

}  // namespace tandem::estimate
