#include <algorithm>
#include <bit>
#include <numeric>

#include "base/hash.h"
#include "machine/part.h"
#include "predict/collectives.h"
#include "predict/device.h"
#include "predict/estimator.h"
#include "strategies/grid.h"
#include "strategies/pipeline.h"
#include "strategies/stages.h"

namespace tandem::predict {

namespace {

using machine::DigitMask;
using strategies::Setting;

// The digits in which two ranks of so many differ.
DigitMask digits_between(const machine::Digits& digits, std::int64_t from, std::int64_t to,
                         std::int64_t ranks) {
  const auto of_ranks = strategies::rank_digits(digits, ranks).value();
  DigitMask out = 0;
  for (std::size_t i = 0; i < digits.count(); ++i) {
    if (!machine::has(of_ranks, i)) continue;
    const bool differ =
        digits.coordinate_of_rank(from, of_ranks, i) != digits.coordinate_of_rank(to, of_ranks, i);
    if (differ) out |= machine::bit(i);
  }
  return out;
}

// The stages of one strategy, put together.
class Step {
 public:
  Step(const machine::Machine& machine, const machine::Digits& digits,
       const std::vector<DigitMask>& to_next_rank, const StageModel& stage,
       const Sections& sections, Passages& passages, Beginnings& beginnings, const Setting& setting,
       const Division& division, std::int64_t batch, const Training& training, TurnTables& turns)
      : machine_(machine),
        digits_(digits),
        stage_(stage),
        sections_(sections),
        passages_(passages),
        beginnings_(beginnings),
        division_(division),
        turns_(turns),
        schedule_(stage.schedule),
        batch_(batch),
        ranks_(setting.pp) {
    schedule_.micro_batches = setting.micro.value_or(1);
    schedule_.stages = setting.pp * setting.interleave;
    if (setting.interleave > 1) schedule_.order = plan::Order::kInterleaved;
    if (ranks_ == 1) return;
    connect(to_next_rank, setting);
    const std::int64_t from = division.stages_after[stage.tied.piece] % ranks_;
    tie(from + 1 == ranks_ ? to_next_rank.back() : digits_between(digits, from, 0, ranks_),
        training);
  }

  Estimate run() {
    if (schedule_.stages == 1) {
      out_.iteration = time_of_step(sections_, counts_of(0), passages_, schedule_.micro_batches);
      fill_in_times({out_.iteration}, {0});
    } else {
      const auto time =
          time_of(schedule_, ranks_, times_of_stages(), transfers_, tied_.sends, turns_);
      out_.iteration = time.end;
      fill_in_times(time.busy, time.exposed);
    }
    fill_in_memory();
    fill_in_flops();
    return out_;
  }

 private:
  [[nodiscard]] std::size_t stages() const { return division_.class_of_stage.size(); }
  [[nodiscard]] const RunCounts& counts_of(std::size_t stage) const {
    return division_.classes[division_.class_of_stage[stage]];
  }
  // What the stage sends on.
  [[nodiscard]] const Boundary& boundary(std::size_t stage) const {
    return stage_.footprint.behind(division_.ends[stage]);
  }

  // Stages with those behind them. Most send the same in one of a few ways.
  void connect(const std::vector<DigitMask>& to_next_rank, const Setting& setting) {
    struct Known {
      const Boundary* sent;
      DigitMask across;
      Transfer transfer;
    };
    std::vector<Known> known;
    transfers_.reserve(stages() - 1);
    std::optional<DigitMask> copies;
    for (std::size_t s = 0; s + 1 < stages(); ++s) {
      const auto& sent = boundary(s);
      const auto across = to_next_rank[s % to_next_rank.size()];
      auto at = std::ranges::find_if(
          known, [&](const Known& k) { return k.sent == &sent && k.across == across; });
      if (at == known.end()) {
        if (!copies && (sent.copied || sent.gradient_copied)) {
          copies = strategies::tensor_digits(setting, digits_);
        }
        known.push_back({&sent, across, transfer(across, sent, copies.value_or(0))});
        at = known.end() - 1;
      }
      transfers_.push_back(at->transfer);
    }
  }

  // What a weight costs that the first stage and another use: that one has a copy.
  struct TiedCosts {
    Tied sends;
    double collect = 0;     // adding up its gradient over micro-batches where it is not stored
    double accumulate = 0;  // adding up both uses' gradients, which stages do once
  };

  [[nodiscard]] double time_to_send(DigitMask across, DigitMask copies, Bytes bytes) const {
    if (bytes == Bytes{} || across == 0) return 0;
    return send_time(machine_, digits_, across, copies, bytes).value;
  }
  [[nodiscard]] Transfer transfer(DigitMask across, const Boundary& sent, DigitMask copies) const {
    const auto level = outermost_level(digits_, across);
    return {time_to_send(across, sent.copied ? copies : 0, Bytes{sent.activation}),
            time_to_send(across, sent.gradient_copied ? copies : 0, Bytes{sent.activation}),
            machine_.levels[level].by_device || machine_.device.software.waits_for_sends,
            machine_.device.software.send_dispatch().value};
  }

  void tie(DigitMask across, const Training& training) {
    const auto gradient = schedule_.precision.gradient(stage_.dtype);
    const auto bytes = stage_.tied.bytes;
    const auto elements = bytes / size_of(stage_.dtype);
    tied_.sends = {division_.stages_after[stage_.tied.piece], time_to_send(across, 0, bytes),
                   time_to_send(across, 0, elements * size_of(gradient))};
    // Where it makes a gradient of a copy the stage adds that up by itself as well.
    if (tied_.sends.weight == 0 || schedule_.micro_batches == 1 || stage_.tied.moved) return;
    const auto pass = [&](double buffers) {
      const Work work{.flops = {}, .bytes = buffers * bytes};
      return task_time(machine_.device, work, training.dtype).value;
    };
    tied_.collect = pass(2);
    tied_.accumulate = pass(3);
  }

  [[nodiscard]] std::vector<StageTimes> times_of_stages() const {
    std::vector<StageTimes> classes;
    classes.reserve(division_.classes.size());
    for (const auto& counts : division_.classes) {
      classes.push_back(
          times_of_stage(sections_, counts, passages_, schedule_.micro_batches, beginnings_));
    }
    std::vector<StageTimes> out;
    out.reserve(stages());
    for (const auto c : division_.class_of_stage) out.push_back(classes[c]);
    out.front().backward -= tied_.accumulate;
    out[tied_.sends.stage].backward += tied_.collect;
    return out;
  }

  void fill_in_times(const std::vector<double>& busy, const std::vector<double>& exposed) {
    std::size_t busiest = 0;
    for (std::size_t r = 1; r < busy.size(); ++r) {
      if (busy[r] + exposed[r] > busy[busiest] + exposed[busiest]) busiest = r;
    }
    add_serialized(busiest);
    for (std::size_t k = 0; k < kKinds; ++k) {
      if (computes(k)) out_.compute += out_.serialized[k];
    }
    const auto all = std::accumulate(out_.serialized.begin(), out_.serialized.end(), 0.0);
    // Where the host is what is waited for nothing is exposed.
    out_.exposed =
        std::clamp(busy[busiest] - out_.compute + exposed[busiest], 0.0, all - out_.compute);
    out_.bubble = std::max(0.0, out_.iteration - out_.compute - out_.exposed);
  }

  // Of a rank's stages, of which many are of one class.
  void add_serialized(std::size_t rank) {
    std::vector<double> stages_of_class(division_.classes.size());
    for (auto s = rank; s < stages(); s += static_cast<std::size_t>(ranks_)) {
      ++stages_of_class[division_.class_of_stage[s]];
      add_sends(s);
    }
    const auto micro_batches = static_cast<double>(schedule_.micro_batches);
    for (std::size_t c = 0; c < stages_of_class.size(); ++c) {
      if (stages_of_class[c] == 0) continue;
      const auto sums = serialized(sections_, division_.classes[c]);
      for (std::size_t k = 0; k < kKinds; ++k) {
        out_.serialized[k] += stages_of_class[c] * (sums.each[k] * micro_batches + sums.once[k]);
      }
    }
  }

  void add_sends(std::size_t s) {
    if (ranks_ == 1) return;
    const auto micro_batches = static_cast<double>(schedule_.micro_batches);
    const bool is_first = s == 0;
    const bool is_tied = s == tied_.sends.stage;
    // An activation and its gradient each.
    double transfers = 0;
    if (!is_first) transfers += transfers_[s - 1].time + transfers_[s - 1].back;
    if (s + 1 < stages()) transfers += transfers_[s].time + transfers_[s].back;
    auto& sends = out_.serialized[2 + static_cast<std::size_t>(machine::Step::kSend)];
    sends += transfers * micro_batches;
    if (is_first || is_tied) sends += tied_.sends.weight + tied_.sends.gradient;
    out_.serialized[0] +=
        ((is_tied ? tied_.collect : 0) - (is_first ? tied_.accumulate : 0)) * micro_batches;
  }

  void fill_in_memory() {
    const auto held = held_by_stage();
    // Beyond these no more are in flight, except where all are; the last of them come in when all
    // sums over micro-batches have begun, and give back what is there for all.
    auto micro_batches = schedule_.micro_batches;
    if (schedule_.order != plan::Order::kGpipe) {
      const bool interleaved = schedule_.order == plan::Order::kInterleaved;
      micro_batches = std::min(micro_batches, interleaved ? 4 * ranks_ : 2 * ranks_ + 1);
    }
    const auto& turns = turns_.repeats(schedule_, ranks_, micro_batches);
    const Peaks peaks(held, micro_batches);
    out_.memory = peaks.fullest(turns, ranks_that_differ(held));
    out_.memory = with_unused(out_.memory, machine_.device);
  }

  [[nodiscard]] HeldByStage held_by_stage() const {
    HeldByStage out;
    out.class_of_stage.reserve(stages());
    const std::size_t tied = stages() > 1 ? division_.stages_after[stage_.tied.piece] : 0;
    std::vector<std::size_t> known;  // by class, its first stage
    for (std::size_t s = 0; s < stages(); ++s) {
      const bool is_own = s == 0 || s + 1 == stages() || s == tied;
      const auto same = std::ranges::find_if(known, [&](std::size_t other) {
        return !is_own && other != 0 && other != tied && is_like(s, other);
      });
      out.class_of_stage.push_back(static_cast<std::uint16_t>(same - known.begin()));
      if (same != known.end()) continue;
      const auto* before = s > 0 ? &boundary(s - 1) : nullptr;
      const auto* behind = s + 1 < stages() ? &boundary(s) : nullptr;
      known.push_back(s);
      out.classes.push_back(stage_.footprint.of_stage(counts_of(s), before, behind));
    }
    if (tied > 0) hold_tied(out.classes.front(), out.classes[out.class_of_stage[tied]]);
    return out;
  }

  // Of a weight of the first stage that another uses, that one has a copy; its gradient comes back
  // with the last micro-batch.
  void hold_tied(Held& first, Held& other) const {
    constexpr auto kGathered = static_cast<std::size_t>(lower::BufferKind::kGathered);
    constexpr auto kGradient = static_cast<std::size_t>(lower::BufferKind::kGradient);
    const auto bytes = stage_.tied.bytes.value;
    const auto gradient =
        bytes * (size_of(schedule_.precision.gradient(stage_.dtype)) / size_of(stage_.dtype));
    if (!stage_.tied.moved || stage_.tied.inside) other.step[kGathered] += bytes;
    auto end = first.last.net;
    end[kGradient] += gradient;
    keep_most(first.last.most, end);
    // Where there are several, what the other makes of it is counted.
    if (!stage_.footprint.several) other.step[kGradient] += gradient;
  }

  // Have both stages the same, and receive and send the same? Of stages but the first and the last.
  [[nodiscard]] bool is_like(std::size_t stage, std::size_t other) const {
    return division_.class_of_stage[stage] == division_.class_of_stage[other] &&
           &boundary(stage) == &boundary(other) && &boundary(stage - 1) == &boundary(other - 1);
  }

  // Of ranks that hold the same the earliest has most in flight.
  [[nodiscard]] std::vector<std::size_t> ranks_that_differ(const HeldByStage& held) const {
    const auto every = static_cast<std::size_t>(ranks_);
    const auto are_like = [&](std::size_t a, std::size_t b) {
      for (; b < stages(); a += every, b += every) {
        if (held.class_of_stage[a] != held.class_of_stage[b]) return false;
      }
      return true;
    };
    std::vector<std::size_t> out;
    for (std::size_t r = 0; r < every; ++r) {
      const bool known = std::ranges::any_of(out, [&](std::size_t o) { return are_like(o, r); });
      if (!known) out.push_back(r);
    }
    return out;
  }

  void fill_in_flops() {
    for (std::size_t r = 0; r < sections_.runs(); ++r) {
      std::int64_t times = 0;
      for (const auto c : division_.class_of_stage) times += division_.classes[c][r];
      out_.model_flops += static_cast<double>(times) * sections_.model_flops[r];
    }
    out_.model_flops *= static_cast<double>(batch_) / static_cast<double>(stage_.batch);
    const auto peak =
        peak_of(machine_.device, stage_.dtype).value * static_cast<double>(machine_.devices());
    if (out_.iteration > 0) out_.mfu = out_.model_flops / peak / out_.iteration;
  }

  const machine::Machine& machine_;
  const machine::Digits& digits_;
  const StageModel& stage_;
  const Sections& sections_;
  Passages& passages_;
  Beginnings& beginnings_;
  const Division& division_;
  TurnTables& turns_;
  plan::Schedule schedule_;
  std::int64_t batch_;
  std::int64_t ranks_;
  std::vector<Transfer> transfers_;  // by stage
  TiedCosts tied_;
  Estimate out_;
};

// One stage of the setting, in one micro-batch or two.
Setting of_one_stage(const Setting& setting) {
  auto out = setting;
  out.pp = 1;
  out.interleave = 1;
  out.ends.reset();
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

// By run, the loads of a micro-batch's tasks, but for what data parallel devices send each other;
// and what accumulates gradients, which the ZeRO stage decides.
struct RunLoad {
  std::array<double, Streams::kMost> streams{};
  double accumulation = 0;
};
std::vector<RunLoad> loads_of(const Sections& sections, DigitMask data) {
  constexpr std::size_t kPasses = 2;  // forward and backward
  std::vector<RunLoad> out(sections.runs());
  const auto add = [&](const TimedTask& task, RunLoad& run) {
    if (task.when != lower::When::kEach) return;
    (task.accumulates ? run.accumulation : run.streams[task.stream]) += task.duration;
  };
  for (std::size_t p = 0; p < kPasses; ++p) {
    for (std::size_t r = 0; r < sections.runs(); ++r) {
      for (const auto& task : sections.parts[p][r].tasks) {
        if (computes(task.kind)) add(task, out[r]);
      }
    }
  }
  for (const auto& c : sections.collectives) {
    if (c.part >= kPasses || (c.digits & data) != 0) continue;
    add(sections.parts[c.part][c.run].tasks[c.task], out[c.run]);
  }
  return out;
}

// What a run takes by itself, forward and backward, until its compute ends. Without its longest
// collective each way, which may run before its compute begins, beside that of what comes before.
double time_of_run(const Sections& sections, Passages& passages, std::size_t run) {
  double out = 0;
  for (const auto part : {lower::Part::kForward, lower::Part::kBackward}) {
    double longest = 0;
    for (const auto& task : sections.parts[static_cast<std::size_t>(part)][run].tasks) {
      if (!computes(task.kind)) longest = std::max(longest, task.duration);
    }
    RunCounts counts(sections.runs());
    counts[run] = 1;
    StageTimer timer(sections, counts, passages, false);
    auto streams = timer.idle();
    timer.run(part, false, false, 0, streams);
    out += std::max(0.0, streams[0] - longest);
  }
  return out;
}

// What one layer more between the first and the last adds to a micro-batch, forward and backward.
double steady_layer(const Sections& sections, Passages& passages,
                    const std::vector<std::size_t>& whole) {
  constexpr std::int64_t kLayers = 8;
  double out = 0;
  for (const auto part : {lower::Part::kForward, lower::Part::kBackward}) {
    double before = 0;
    for (const auto layers : {kLayers, kLayers + 1}) {
      RunCounts counts(sections.runs());
      for (std::size_t s = 0; s < kSections; ++s) counts[whole[s]] = 1;
      counts[whole[static_cast<std::size_t>(Section::kMiddle)]] = layers;
      StageTimer timer(sections, counts, passages, false);
      auto streams = timer.idle();
      const auto time = timer.run(part, false, false, 0, streams);
      if (layers > kLayers) out += time - before;
      before = time;
    }
  }
  return out;
}

// Which runs are the whole sections.
std::vector<std::size_t> whole_runs(Cut cut, Network* network) {
  if (cut == Cut::kWhole) return {0, 1, 2, 3, 4};
  const auto& pieces = network->pieces().value();
  const auto runs = all_runs(pieces);
  std::vector<std::size_t> out;
  for (std::size_t s = 0; s < kSections; ++s) {
    const Run whole{static_cast<Section>(s), 0, pieces.count(s)};
    out.push_back(static_cast<std::size_t>(std::ranges::find(runs, whole) - runs.begin()));
  }
  return out;
}

// To lower all of so few layers takes little.
constexpr std::int64_t kFew = 6;

}  // namespace

std::size_t Estimator::StageHash::operator()(const Stage& stage) const {
  const auto& s = stage.setting;
  Hash h = static_cast<Hash>(s.family);
  for (auto n :
       {stage.batch, stage.part, s.dp.value_or(-1), s.zero.value_or(-1), s.ep.value_or(-1),
        s.micro.value_or(-1), s.cp, std::int64_t{s.sp}, static_cast<std::int64_t>(stage.cut)}) {
    h = hash_combine(h, static_cast<Hash>(n));
  }
  for (auto n : s.tp) h = hash_combine(h, static_cast<Hash>(n));
  return hash_combine(h, hash_text(s.recompute));
}

Estimator::Estimator(const models::Model& model, const machine::Machine& machine,
                     const Training& training)
    : model_(model), machine_(machine), digits_(machine), training_(training) {}

// In a pipeline of few layers their ends and the sums of parts of gradients, which stages overlap
// with much else, are much of the step; and to lower all of few layers takes little.
bool Estimator::is_worth_folding(const Setting& setting) const {
  const bool has_layers = model_.settings.has("layers");
  return has_layers && model_.settings.size("layers") > kFew && setting.zero.value_or(0) < 2;
}

std::optional<Estimate> Estimator::estimate(const Setting& setting, std::int64_t batch) {
  const auto micro = setting.micro.value_or(1);
  const auto* part = part_for(setting.pp);
  if (setting.stale || part == nullptr || batch % micro != 0) return std::nullopt;
  // A bucket holds gradients of several layers: which, differs from layer to layer.
  if (setting.bucket > Bytes{}) return std::nullopt;
  // Those of the levels, of compute and of the host.
  if (machine_.levels.size() + 2 > Streams::kMost) return std::nullopt;
  if (setting.interleave > 1 && micro % setting.pp != 0) return std::nullopt;

  const auto inner = of_one_stage(setting);
  const auto inner_batch = batch / micro * inner.micro.value_or(1);
  const auto* division = division_into(setting.pp * setting.interleave, setting.ends, *part, batch);
  if (division == nullptr) return std::nullopt;
  const bool in_pieces = division->classes[0].size() > kSections;
  // Where stages end inside layers, what starts late and what a host delays mix.
  const bool waits_for_hosts = machine_.device.software.dispatch > Seconds{};
  const bool in_unequal_parts = setting.ends && setting.interleave > 1;
  const auto cut = in_pieces ? Cut::kInPieces : Cut::kWhole;
  const Stage on_part{inner, inner_batch, setting.pp, cut};
  auto on_any = on_part;
  if (is_data_parallel(inner)) {
    if (inner_batch % *inner.dp != 0) return std::nullopt;
    on_any.setting.dp = 2;  // any more than 1
    on_any.batch /= *inner.dp;
    on_any.part = 0;
  }
  auto* stage = lowered(on_any, inner, *part, inner_batch);
  if (stage == nullptr) return std::nullopt;
  // Of a weight that two stages of the first rank use the gradient is summed up elsewhere; one that
  // is stored in parts is gathered and summed up in ways of its own.
  const auto& tied = stage->stage.tied;
  const auto tied_to = division->stages_after[tied.piece];
  constexpr double kMuch = 0.02;
  const bool in_parts = setting.zero.value_or(0) > 0;
  auto* timed = timed_on(on_part, *stage, inner, *part);
  if (timed == nullptr) return std::nullopt;
  auto out = Step(machine_, digits_, to_next_rank(setting.pp), stage->stage, timed->sections,
                  timed->passages, stage->beginnings, setting, *division, batch, training_, turns_)
                 .run();
  out.is_rough = is_rough(setting, stage->stage, out) ||
                 ((in_pieces || in_unequal_parts) && waits_for_hosts) ||
                 (setting.pp > 1 && !is_worth_folding(setting)) ||
                 (setting.pp > 1 && in_parts && tied.part > kMuch) ||
                 (tied.bytes > Bytes{} && tied_to > 0 && tied_to % setting.pp == 0);
  return out;
}

std::optional<PassBound> Estimator::bound_pass(const Setting& setting, std::int64_t batch,
                                               Cut cut) {
  auto inner = of_one_stage(setting);
  inner.zero.reset();
  const auto* part = part_for(setting.pp);
  const auto micro = setting.micro.value_or(1);
  if (part == nullptr || batch % micro != 0 || machine_.levels.size() + 2 > Streams::kMost) {
    return std::nullopt;
  }
  const auto inner_batch = batch / micro * inner.micro.value_or(1);
  Stage key{inner, inner_batch, setting.pp, cut};
  if (is_data_parallel(inner)) {
    if (inner_batch % *inner.dp != 0) return std::nullopt;
    key.setting.dp = 2;
    key.batch /= *inner.dp;
    key.part = 0;
  }
  auto* stage = lowered(key, inner, *part, inner_batch);
  if (stage == nullptr) return std::nullopt;
  const auto& model = stage->stage;
  constexpr auto kMiddle = static_cast<std::size_t>(Section::kMiddle);
  const auto smaller = with_less_data(inner, *part, inner_batch);
  const auto whole = whole_runs(cut, network(smaller.part, smaller.batch));
  const auto loads = loads_of(model.sections, stage->data);
  PassBound out;
  for (std::size_t s = 0; s < kSections; ++s) {
    const auto times = s == kMiddle ? static_cast<double>(model.layers - 2) : 1;
    for (std::size_t stream = 0; stream < out.loads.size(); ++stream) {
      out.loads[stream] += times * loads[whole[s]].streams[stream];
    }
  }
  // What is recomputed may run while something is communicated: so what is exposed is that of the
  // same pass without recomputation.
  const bool recomputes = setting.recompute != "none";
  std::optional<PassBound> without;
  if (recomputes) {
    auto other = setting;
    other.recompute = "none";
    without = bound_pass(other, batch, cut);
    if (!without) return std::nullopt;
  }
  for (std::size_t r = 0; r < loads.size(); ++r) {
    const auto& [streams, accumulation] = loads[r];
    const auto exposed = recomputes
                             ? without->exposed[r]
                             : std::max(0.0, time_of_run(model.sections, stage->passages, r) -
                                                 streams[0] - accumulation);
    out.exposed.push_back(exposed);
    out.runs.push_back(streams[0] + exposed);
    out.recomputed.push_back(recomputes ? std::max(0.0, out.runs[r] - without->runs[r]) : 0);
    out.accumulation.push_back(accumulation);
  }
  const auto steady = steady_layer(model.sections, stage->passages, whole);
  out.following =
      std::max(0.0, steady - out.runs[whole[kMiddle]] - out.accumulation[whole[kMiddle]]);
  const auto& boundary = model.footprint.boundaries[kMiddle].back();
  out.sent = boundary.activation;
  out.copied = boundary.copied;
  out.gradient_copied = boundary.gradient_copied;
  constexpr auto kActivation = static_cast<std::size_t>(lower::BufferKind::kActivation);
  const auto& held = model.footprint.runs[whole[kMiddle]];
  out.saved = Bytes{std::max(0.0, held.forward.net[kActivation])};
  return out;
}

std::optional<PipelineDivision> Estimator::divide(std::int64_t ranks, std::int64_t stages_of_rank,
                                                  std::int64_t micro_batches, std::int64_t batch) {
  const auto* part = part_for(ranks);
  if (part == nullptr) return std::nullopt;
  PipelineDivision out;
  out.division = division_into(ranks * stages_of_rank, {}, *part, batch);
  if (out.division == nullptr) return std::nullopt;
  const auto& classes = out.division->classes;
  const auto cut = classes[0].size() == kSections ? Cut::kWhole : Cut::kInPieces;
  const auto whole = whole_runs(cut, network(*part, batch));
  for (const auto& counts : classes) {
    out.layers.push_back(counts[whole[static_cast<std::size_t>(Section::kMiddle)]]);
  }
  plan::Schedule schedule;
  schedule.stages = ranks * stages_of_rank;
  if (stages_of_rank > 1) schedule.order = plan::Order::kInterleaved;
  schedule.micro_batches = micro_batches;
  for (const auto& turn : lower::turns_of(schedule, ranks, 0)) {
    if (turn.part != lower::Part::kForward) break;
    out.in_flight += out.layers[out.division->class_of_stage[turn.stage]];
  }
  return out;
}

// What an estimate leaves out is at the ends of a pipeline and of a step: much of a network of few
// layers, or of one of which a weight that both ends use is a large part. Where communication slows
// down what it runs beside, and much of it is not hidden, updates of a layer wait for one another.
// A host that devices wait for in one pass, and that is ahead of them in the other, settles over
// several layers.
bool Estimator::is_rough(const Setting& setting, const StageModel& stage,
                         const Estimate& estimate) const {
  constexpr std::int64_t kFewLayers = 40;
  constexpr double kShared = 0.01;
  const bool slows_down = machine_.device.software.interference > 0;
  const auto exposed = estimate.exposed / estimate.iteration;
  const auto layers = model_.settings.size("layers");
  if (setting.pp == 1) {
    constexpr double kMuchExposed = 0.1;
    const bool gathers = setting.family == strategies::Family::kFsdp || setting.zero == 3;
    const bool has_host = machine_.device.software.dispatch > Seconds{};
    const bool may_be_off = (has_host && layers <= kFew) || (slows_down && !gathers);
    return may_be_off && exposed > kMuchExposed;
  }
  constexpr double kExposed = 0.05;
  return layers <= kFewLayers || stage.tied.part > kShared || (slows_down && exposed > kExposed);
}

const std::vector<DigitMask>& Estimator::to_next_rank(std::int64_t ranks) {
  const auto [at, is_new] = to_next_rank_.try_emplace(ranks);
  if (is_new) {
    for (std::int64_t r = 0; r < ranks; ++r) {
      at->second.push_back(digits_between(digits_, r, (r + 1) % ranks, ranks));
    }
  }
  return at->second;
}

const machine::Machine* Estimator::part_for(std::int64_t stages) {
  const auto [at, is_new] = parts_.try_emplace(stages);
  if (is_new) {
    const auto ranks = strategies::rank_digits(digits_, stages);
    if (ranks) at->second = part_without(machine_, digits_, *ranks);
  }
  return at->second ? &*at->second : nullptr;
}

const Division* Estimator::division_into(std::int64_t stages,
                                         const std::optional<strategies::Ends>& ends,
                                         const machine::Machine& part, std::int64_t batch) {
  const auto [at, is_new] = divisions_.try_emplace({batch, stages, ends});
  if (is_new && model_.settings.has("layers")) {
    const auto layers = model_.settings.size("layers");
    if (ends || layers % stages == 0) {
      const auto counts =
          strategies::layers_of_stages(layers, stages, ends.value_or(strategies::Ends{}));
      if (counts) at->second = division_of(*counts);
    } else if (auto* whole = network(part, batch); whole != nullptr && whole->pieces()) {
      at->second = uneven_division(*whole->pieces(), layers, stages);
    }
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
      stage = stage_model(*folded, smaller.part, smaller.setting, training_, programs_, key.cut);
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

Simulation to_simulation(const Estimate& e) {
  Simulation out;
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

}  // namespace tandem::predict
