#include "estimate/estimate.h"

#include <algorithm>
#include <set>

#include "cost/collectives.h"
#include "cost/operator_time.h"
#include "estimate/footprint.h"
#include "estimate/pipeline.h"
#include "lower/lower.h"
#include "machine/part.h"
#include "plan/parallelize.h"
#include "strategies/pipeline.h"

namespace tandem::estimate {

namespace {

using lower::Part;
using machine::DigitMask;
using strategies::Setting;

// A folded network lowered on the part of the machine that one stage has.
struct Lowered {
  lower::Program program;
  std::vector<Section> section_of_task;
  machine::Machine machine;
  std::int64_t layers = 0;
};

std::optional<Lowered> lower_folded(const Question& q, const Setting& setting, DigitMask ranks) {
  auto part = part_without(q.machine, machine::Digits(q.machine), ranks);
  auto folded = fold(q.model, q.batch, q.dtype);
  if (!part || !folded) return std::nullopt;
  const machine::Digits digits(*part);
  const strategies::Problem problem(folded->graph, digits);
  auto inner = setting;
  inner.pp = 1;
  inner.interleave = 1;
  auto made = strategies::make_strategy(inner, problem);
  const auto* strategy = std::get_if<strategies::Strategy>(&made);
  if (strategy == nullptr) return std::nullopt;
  const machine::Digits with_time(*part, strategy->schedule.micro_batches);
  const auto mapped =
      plan::parallelize(folded->graph, with_time, strategy->choices, strategy->schedule);
  auto program = lower::lower(mapped, with_time, q.optimizer);
  auto sections = sections_of_tasks(program);
  return Lowered{std::move(program), std::move(sections), std::move(*part), folded->layers};
}

// How many of each section every stage has.
std::vector<SectionCounts> counts_of(std::int64_t layers, std::int64_t stages) {
  std::vector<SectionCounts> out;
  for (std::int64_t s = 0; s < stages; ++s) {
    const std::int64_t first = s == 0 ? 1 : 0;
    const std::int64_t last = s + 1 == stages ? 1 : 0;
    out.push_back({first, first, layers / stages - first - last, last, last});
  }
  return out;
}

double end_of(double output, const Streams& streams) { return std::max(output, streams[0]); }

double latest(const Streams& streams) { return *std::ranges::max_element(streams); }

// One device of all, for a whole step.
double time_of_step(const Sections& sections, const SectionCounts& counts,
                    std::int64_t micro_batches) {
  StageTimer timer(sections, counts);
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
StageTimes times_of_stage(const Sections& sections, const SectionCounts& counts,
                          std::int64_t micro_batches) {
  StageTimer timer(sections, counts);
  auto streams = timer.idle();
  double now = 0;
  const auto run = [&](Part part, bool first, bool last) {
    const auto before = now;
    now = end_of(timer.run(part, first, last, now, streams), streams);
    return now - before;
  };
  StageTimes out;
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
    for (const auto& task : sections.part(Part::kUpdate, static_cast<Section>(s)).tasks) {
      out.updates += static_cast<double>(counts[s]) * task.duration;
    }
  }
  out.after = std::max(out.after, out.updates);
  out.reductions = reduced - now;
  return out;
}

class Estimator {
 public:
  Estimator(const Question& q, const Setting& setting, DigitMask ranks, const Lowered& lowered)
      : q_(q),
        digits_(q.machine),
        lowered_(lowered),
        schedule_(lowered.program.schedule),
        sections_(timed_sections(lowered.program, lowered.machine, lowered.section_of_task)),
        footprint_(footprint_of(lowered.program, lowered.section_of_task)),
        rank_count_(setting.pp) {
    schedule_.stages = setting.pp * setting.interleave;
    if (setting.interleave > 1) schedule_.order = plan::Order::kInterleaved;
    counts_ = counts_of(lowered.layers, schedule_.stages);
    for (std::int64_t r = 0; r < rank_count_ && rank_count_ > 1; ++r) {
      const auto across = digits_between(r, (r + 1) % rank_count_, ranks);
      transfers_.push_back(transfer(across, Bytes{footprint_.boundary}));
    }
    if (rank_count_ > 1) {
      tied_bytes_ = tied_bytes();
      tied_ = transfer(digits_between(rank_count_ - 1, 0, ranks), tied_bytes_).time;
      if (tied_ > 0 && schedule_.micro_batches > 1) {
        const auto pass = [&](double buffers) {
          const cost::Work work{.flops = {}, .bytes = buffers * tied_bytes_};
          return cost::task_time(q.machine.device, work, q.dtype).value;
        };
        tied_collect_ = pass(2);
        tied_accumulate_ = pass(3);
      }
    }
  }

  sim::Simulation run() {
    std::vector<double> busy;
    std::vector<double> exposed;
    if (schedule_.stages == 1) {
      out_.iteration = Seconds{time_of_step(sections_, counts_[0], schedule_.micro_batches)};
      busy = {out_.iteration.value};
      exposed = {0};
    } else {
      std::vector<StageTimes> stages;
      for (std::size_t s = 0; s < counts_.size(); ++s) {
        const bool same = s > 0 && counts_[s] == counts_[s - 1];
        stages.push_back(same ? stages.back()
                              : times_of_stage(sections_, counts_[s], schedule_.micro_batches));
      }
      stages.front().backward -= tied_accumulate_;
      stages.back().backward += tied_collect_;
      const auto time = time_of(schedule_, stages, transfers_, tied_);
      out_.iteration = Seconds{time.end};
      busy = time.busy;
      exposed = time.exposed;
    }
    fill_in_times(busy, exposed);
    fill_in_memory();
    fill_in_flops();
    return std::move(out_);
  }

 private:
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

  [[nodiscard]] Transfer transfer(DigitMask across, Bytes bytes) const {
    if (bytes == Bytes{}) return {};
    const auto level = cost::outermost_level(digits_, across);
    return {cost::collective_time(q_.machine, digits_, machine::Step::kSend, across, bytes).value,
            q_.machine.levels[level].by_device};
  }

  // Of weights that the first section has and the last one reads, too.
  [[nodiscard]] Bytes tied_bytes() const {
    const auto& program = lowered_.program;
    const auto of_node = sections_of(program.pcg);
    std::set<std::size_t> tied;
    for (std::size_t t = 0; t < program.tasks.size(); ++t) {
      if (lowered_.section_of_task[t] != Section::kAfter) continue;
      for (auto b : program.tasks[t].reads) {
        if (b == lower::Program::kNone) continue;
        const auto& buffer = program.buffer(b);
        const bool is_first = of_node[buffer.node.index()] == Section::kBefore;
        if (buffer.kind == lower::BufferKind::kWeight && is_first) tied.insert(b.index());
      }
    }
    Bytes out;
    for (auto b : tied) out += program.buffers[b].bytes();
    return out;
  }

  void fill_in_times(const std::vector<double>& busy, const std::vector<double>& exposed) {
    std::size_t busiest = 0;
    for (std::size_t r = 1; r < busy.size(); ++r) {
      if (busy[r] + exposed[r] > busy[busiest] + exposed[busiest]) busiest = r;
    }
    double compute = 0;
    for (std::size_t s = busiest; s < counts_.size(); s += busy.size()) {
      const auto sums = serialized(sections_, counts_[s]);
      for (std::size_t k = 0; k < kKinds; ++k) {
        const auto time = sums.of(k, schedule_.micro_batches);
        if (time > 0) out_.serialized[std::string(kind_name(k))] += Seconds{time};
        if (computes(k)) compute += time;
      }
      // An activation and its gradient each.
      double transfers = 0;
      const auto ranks = transfers_.size();
      if (s > 0) transfers += 2 * transfers_[(s + ranks - 1) % ranks].time;
      if (s + 1 < counts_.size()) transfers += 2 * transfers_[s % ranks].time;
      transfers *= static_cast<double>(schedule_.micro_batches);
      if (counts_.size() > 1 && (s == 0 || s + 1 == counts_.size())) transfers += 2 * tied_;
      if (counts_.size() > 1) {
        const auto here =
            (s + 1 == counts_.size() ? tied_collect_ : 0) - (s == 0 ? tied_accumulate_ : 0);
        const auto collects = here * static_cast<double>(schedule_.micro_batches);
        out_.serialized["compute"] += Seconds{collects};
        compute += collects;
      }
      if (transfers > 0) out_.serialized["send_recv"] += Seconds{transfers};
    }
    out_.busiest = static_cast<std::uint32_t>(busiest);
    out_.compute = Seconds{compute};
    out_.exposed_comm = Seconds{std::max(0.0, busy[busiest] - compute + exposed[busiest])};
    out_.bubble = std::max(Seconds{}, out_.iteration - out_.compute - out_.exposed_comm);
  }

  void fill_in_memory() {
    std::vector<Held> stages;
    for (std::size_t s = 0; s < counts_.size(); ++s) {
      stages.push_back(footprint_.of_stage(counts_[s], s > 0, s + 1 < counts_.size()));
    }
    if (stages.size() > 1) {  // a copy of what is tied, and its gradient
      auto& copies = stages.back().step;
      copies[static_cast<std::size_t>(lower::BufferKind::kActivation)] += tied_bytes_.value;
      copies[static_cast<std::size_t>(lower::BufferKind::kGradient)] += tied_bytes_.value;
    }
    auto schedule = schedule_;
    // Beyond these no more are in flight, except where all are.
    if (schedule.order != plan::Order::kGpipe) {
      schedule.micro_batches = std::min(schedule.micro_batches, 3 * rank_count_);
    }
    for (std::int64_t r = 0; r < rank_count_; ++r) {
      const auto turns = lower::turns_of(schedule, rank_count_, r);
      const auto memory = peak_over(turns, schedule.micro_batches, stages);
      if (memory.peak < out_.memory) continue;
      out_.memory = memory.peak;
      out_.persistent = memory.persistent;
      out_.group_memory = {memory};
    }
  }

  void fill_in_flops() {
    for (const auto& counts : counts_) {
      for (std::size_t s = 0; s < kSections; ++s) {
        out_.model_flops += Flops{static_cast<double>(counts[s]) * sections_.model_flops[s]};
      }
    }
    const auto dtype = lowered_.program.pcg.node(lowered_.program.pcg.outputs()[0]).type.dtype;
    const auto peak =
        cost::peak_of(q_.machine.device, dtype) * static_cast<double>(q_.machine.devices());
    if (out_.iteration > Seconds{}) out_.mfu = out_.model_flops / peak / out_.iteration;
  }

  const Question& q_;
  machine::Digits digits_;
  const Lowered& lowered_;
  plan::Schedule schedule_;
  Sections sections_;
  Footprint footprint_;
  std::int64_t rank_count_;
  std::vector<SectionCounts> counts_;
  std::vector<Transfer> transfers_;  // by rank
  Bytes tied_bytes_;
  double tied_ = 0;             // sending it
  double tied_collect_ = 0;     // adding up its gradient over micro-batches where it is not stored
  double tied_accumulate_ = 0;  // adding up both uses' gradients, which stages do once
  sim::Simulation out_;
};

}  // namespace

std::optional<sim::Simulation> estimate(const Question& question, const Setting& setting) {
  if (setting.stale) return std::nullopt;
  const auto ranks = strategies::rank_digits(machine::Digits(question.machine), setting.pp);
  if (!ranks) return std::nullopt;
  const auto lowered = lower_folded(question, setting, *ranks);
  if (!lowered || lowered->layers % (setting.pp * setting.interleave) != 0) return std::nullopt;
  return Estimator(question, setting, *ranks, *lowered).run();
}

}  // namespace tandem::estimate
