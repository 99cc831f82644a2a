#include "predict/fold/step.h"

#include <algorithm>

#include "predict/collectives.h"
#include "predict/fold/pipeline.h"
#include "predict/task_work.h"
#include "strategies/grid.h"

namespace tandem::predict {

namespace {

using machine::DigitMask;
using strategies::Setting;

// Combines the stages of one strategy into a step.
class AllStages {
 public:
  AllStages(StageCache& cache, const std::vector<OnKind>& on, const Setting& setting,
            const Division& division, std::int64_t batch)
      : machine_(cache.machine()),
        digits_(cache.digits()),
        kinds_(cache.kinds()),
        kinds_of_ranks_(cache.ranks(setting.pp)),
        on_(on),
        stage_(on[kinds_of_ranks_.kinds[0]].lowered->stage),
        division_(division),
        schedules_(cache.schedules()),
        schedule_(stage_.schedule),
        batch_(batch),
        ranks_(setting.pp) {
    schedule_.micro_batches = setting.micro.value_or(1);
    schedule_.stages = setting.pp * setting.interleave;
    if (setting.interleave > 1) schedule_.order = plan::Order::kInterleaved;
    if (ranks_ == 1) return;
    const auto& to_next_rank = cache.get_next_rank_digits(setting.pp);
    compute_transfers(to_next_rank, setting);
    const std::int64_t from = division.stages_after[stage_.tied.piece] % ranks_;
    compute_tied_costs(
        from + 1 == ranks_ ? to_next_rank.back() : find_differing_digits(digits_, from, 0, ranks_),
        cache.training());
  }

  Simulation run() {
    if (schedule_.stages == 1) {
      auto& timed = *on_stage(0).timed;
      const auto time =
          compute_step_time(timed.sections, get_counts(0), timed.passages, schedule_.micro_batches);
      fill_in_times({.end = time, .busy = {time}, .exposed = {0}});
    } else {
      fill_in_times(compute_pipeline_time(schedule_, ranks_, compute_all_stage_times(), transfers_,
                                          tied_.sends, schedules_));
    }
    fill_in_memory();
    fill_in_flops();
    return out_;
  }

 private:
  [[nodiscard]] std::size_t stages() const { return division_.class_of_stage.size(); }
  [[nodiscard]] const RunCounts& get_counts(std::size_t stage) const {
    return division_.classes[division_.class_of_stage[stage]];
  }
  [[nodiscard]] std::size_t get_kind(std::size_t stage) const {
    return kinds_of_ranks_.kinds[stage % kinds_of_ranks_.kinds.size()];
  }
  [[nodiscard]] const OnKind& on_stage(std::size_t stage) const { return on_[get_kind(stage)]; }
  [[nodiscard]] const Footprint& footprint(std::size_t stage) const {
    return on_stage(stage).lowered->stage.footprint;
  }
  // Returns the tensor that the stage sends to the next one.
  [[nodiscard]] const Boundary& boundary(std::size_t stage) const {
    return footprint(stage).get_boundary(division_.ends[stage]);
  }

  // Computes the transfers between stages. Most stages send the same tensor in one of a few ways.
  void compute_transfers(const std::vector<DigitMask>& to_next_rank, const Setting& setting) {
    struct KnownTransfer {
      const Boundary* sent;
      DigitMask across;
      StageTransfer transfer;
    };
    std::vector<KnownTransfer> known;
    transfers_.reserve(stages() - 1);
    std::optional<DigitMask> copies;
    for (std::size_t s = 0; s + 1 < stages(); ++s) {
      const auto& sent = boundary(s);
      const auto across = to_next_rank[s % to_next_rank.size()];
      auto at = std::ranges::find_if(
          known, [&](const KnownTransfer& k) { return k.sent == &sent && k.across == across; });
      if (at == known.end()) {
        if (!copies && (sent.copied || sent.gradient_copied)) {
          copies = strategies::find_tensor_digits(setting, digits_);
        }
        known.push_back({&sent, across, make_transfer(across, sent, copies.value_or(0))});
        at = known.end() - 1;
      }
      transfers_.push_back(at->transfer);
    }
  }

  // Costs of a tied weight, of which the stage that shares it has a copy.
  struct TiedCosts {
    TiedTransfer sends;
    double collect = 0;     // accumulating its gradient over micro-batches where it is not stored
    double accumulate = 0;  // adding the gradients of both uses, which stages do once a step
  };

  [[nodiscard]] double compute_send_seconds(DigitMask across, DigitMask copies, Bytes bytes) const {
    if (bytes == Bytes{} || across == 0) return 0;
    return send_time(machine_, digits_, across, copies, bytes).value;
  }
  [[nodiscard]] StageTransfer make_transfer(DigitMask across, const Boundary& sent,
                                            DigitMask copies) const {
    const auto level = find_outermost_level(digits_, across);
    return {compute_send_seconds(across, sent.copied ? copies : 0, Bytes{sent.activation}),
            compute_send_seconds(across, sent.gradient_copied ? copies : 0, Bytes{sent.activation}),
            machine_.levels[level].by_device || machine_.device.software.waits_for_sends,
            machine_.device.software.send_dispatch().value};
  }

  void compute_tied_costs(DigitMask across, const Training& training) {
    const auto gradient = schedule_.precision.gradient(stage_.dtype);
    const auto bytes = stage_.tied.bytes;
    const auto elements = bytes / get_element_size(stage_.dtype);
    tied_.sends = {division_.stages_after[stage_.tied.piece],
                   compute_send_seconds(across, 0, bytes),
                   compute_send_seconds(across, 0, elements * get_element_size(gradient))};
    // If the stage computes the gradient of a copy, its own tasks accumulate it.
    if (tied_.sends.weight == 0 || schedule_.micro_batches == 1 || stage_.tied.moved) return;
    const auto pass = [&](std::size_t stage, double buffers) {
      const Work work{.flops = {}, .bytes = buffers * bytes};
      return task_time(kinds_.machine(get_kind(stage)).device, work, training.dtype).value;
    };
    tied_.collect = pass(tied_.sends.stage, 2);
    tied_.accumulate = pass(0, 3);
  }

  [[nodiscard]] std::vector<StageTimes> compute_all_stage_times() const {
    const auto classes = division_.classes.size();
    std::vector<std::optional<StageTimes>> known(classes * on_.size());  // by kind and class
    std::vector<StageTimes> out;
    out.reserve(stages());
    for (std::size_t s = 0; s < stages(); ++s) {
      auto& times = known[get_kind(s) * classes + division_.class_of_stage[s]];
      if (!times) {
        const auto& on = on_stage(s);
        times = compute_stage_times(on.timed->sections, get_counts(s), on.timed->passages,
                                    schedule_.micro_batches, on.lowered->beginnings);
      }
      out.push_back(*times);
    }
    out.front().backward -= tied_.accumulate;
    out[tied_.sends.stage].backward += tied_.collect;
    return out;
  }

  void fill_in_times(const PipelineTime& time) {
    const auto& [end, busy, exposed] = time;
    std::size_t busiest = 0;
    for (std::size_t r = 1; r < busy.size(); ++r) {
      if (busy[r] + exposed[r] > busy[busiest] + exposed[busiest]) busiest = r;
    }
    add_serialized(busiest);
    double all = 0;
    double compute = 0;
    for (std::size_t k = 0; k < kKinds; ++k) {
      all += serialized_[k];
      if (computes(k)) compute += serialized_[k];
      if (serialized_[k] > 0) out_.serialized[kind_name(k)] = Seconds{serialized_[k]};
    }
    // While the host is the bottleneck, no communication is exposed.
    const auto shown = std::clamp(busy[busiest] - compute + exposed[busiest], 0.0, all - compute);
    out_.iteration = Seconds{end};
    out_.compute = Seconds{compute};
    out_.exposed_comm = Seconds{shown};
    out_.bubble = Seconds{std::max(0.0, end - compute - shown)};
  }

  // Adds the times of a rank's stages, many of which are of one class.
  void add_serialized(std::size_t rank) {
    std::vector<double> stages_of_class(division_.classes.size());
    for (auto s = rank; s < stages(); s += static_cast<std::size_t>(ranks_)) {
      ++stages_of_class[division_.class_of_stage[s]];
      add_sends(s);
    }
    const auto micro_batches = static_cast<double>(schedule_.micro_batches);
    for (std::size_t c = 0; c < stages_of_class.size(); ++c) {
      if (stages_of_class[c] == 0) continue;
      const auto sums = on_stage(rank).timed->sections.sum_stage(division_.classes[c]);
      for (std::size_t k = 0; k < kKinds; ++k) {
        serialized_[k] += stages_of_class[c] * (sums.each[k] * micro_batches + sums.once[k]);
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
    auto& sends = serialized_[2 + static_cast<std::size_t>(machine::Step::kSend)];
    sends += transfers * micro_batches;
    if (is_first || is_tied) sends += tied_.sends.weight + tied_.sends.gradient;
    serialized_[0] +=
        ((is_tied ? tied_.collect : 0) - (is_first ? tied_.accumulate : 0)) * micro_batches;
  }

  void fill_in_memory() {
    const auto held = compute_held_by_stage();
    // More micro-batches than these are in flight only if all are. The last slots then still come
    // after all sums over micro-batches have begun, and free the buffers of the whole step.
    auto micro_batches = schedule_.micro_batches;
    if (schedule_.order != plan::Order::kGpipe) {
      const bool interleaved = schedule_.order == plan::Order::kInterleaved;
      micro_batches = std::min(micro_batches, interleaved ? 4 * ranks_ : 2 * ranks_ + 1);
    }
    const auto& actions = schedules_.get_repeats(schedule_, ranks_, micro_batches);
    const Peaks peaks(held, micro_batches);
    for (std::size_t g = 0; g < kinds_of_ranks_.of_group.size(); ++g) {
      const auto ranks = select_distinct_ranks(held, kinds_of_ranks_.of_group[g]);
      const auto memory =
          add_fragmentation(peaks.find_fullest(actions, ranks), kinds_.machine(g).device);
      out_.group_memory.push_back(memory);
      if (memory.peak < out_.memory) continue;
      out_.memory = memory.peak;
      out_.persistent = memory.persistent;
    }
  }

  [[nodiscard]] HeldByStage compute_held_by_stage() const {
    HeldByStage out;
    out.class_of_stage.reserve(stages());
    const std::size_t tied = stages() > 1 ? division_.stages_after[stage_.tied.piece] : 0;
    std::vector<std::size_t> known;  // by class, its first stage
    for (std::size_t s = 0; s < stages(); ++s) {
      const bool is_own = s == 0 || s + 1 == stages() || s == tied;
      const auto same = std::ranges::find_if(known, [&](std::size_t other) {
        return !is_own && other != 0 && other != tied && is_equivalent(s, other);
      });
      out.class_of_stage.push_back(static_cast<std::uint16_t>(same - known.begin()));
      if (same != known.end()) continue;
      const auto* before = s > 0 ? &boundary(s - 1) : nullptr;
      const auto* behind = s + 1 < stages() ? &boundary(s) : nullptr;
      known.push_back(s);
      out.classes.push_back(footprint(s).compute_stage_memory(get_counts(s), before, behind));
    }
    if (tied > 0) add_tied_memory(out.classes.front(), out.classes[out.class_of_stage[tied]]);
    return out;
  }

  // Adds the memory of a tied weight. The other stage has a copy of it. The first stage receives
  // its gradient at the end of a backward pass and adds it to its own: in every micro-batch, or
  // once for the sum. The sum is reserved for the whole step if sums of gradients are
  // (lower/lower.h).
  void add_tied_memory(HeldMemory& first, HeldMemory& other) const {
    constexpr auto kGathered = static_cast<std::size_t>(lower::BufferKind::kGathered);
    constexpr auto kGradient = static_cast<std::size_t>(lower::BufferKind::kGradient);
    const auto bytes = stage_.tied.bytes.value;
    const auto of_sum = schedule_.precision.gradient(stage_.dtype);
    const auto gradient = bytes * (get_element_size(of_sum) / get_element_size(stage_.dtype));
    if (!stage_.tied.moved || stage_.tied.inside) other.step[kGathered] += bytes;
    const auto hold_at_end = [&](MemoryChange& backward, double beside) {
      auto end = backward.net;
      end[kGradient] += beside;
      update_most(backward.most, end);
    };
    if (schedule_.reduce_each) {
      for (auto* backward : {&first.first, &first.backward, &first.last}) {
        hold_at_end(*backward, 2 * gradient);
      }
    } else if (has_reserved_gradients()) {
      first.step[kGradient] += gradient;
    } else {
      hold_at_end(first.last, gradient);
    }
    // With several micro-batches, the other stage's gradient is already counted.
    if (!stage_.footprint.several) other.step[kGradient] += gradient;
  }

  // Returns whether sums of gradients are reserved for the whole step.
  [[nodiscard]] bool has_reserved_gradients() const {
    const bool wide = schedule_.precision.gradient(stage_.dtype) != stage_.dtype;
    return (wide || schedule_.whole_gradients) && !machine_.device.software.frees_at_last_use;
  }

  // Returns whether two stages have, receive and send the same. Neither is the first or the last.
  [[nodiscard]] bool is_equivalent(std::size_t stage, std::size_t other) const {
    return division_.class_of_stage[stage] == division_.class_of_stage[other] &&
           get_kind(stage) == get_kind(other) && &boundary(stage) == &boundary(other) &&
           &boundary(stage - 1) == &boundary(other - 1);
  }

  // Returns one rank of each set of `among` that hold the same memory: the earliest, which has most
  // in flight.
  [[nodiscard]] std::vector<std::size_t> select_distinct_ranks(
      const HeldByStage& held, const std::vector<std::size_t>& among) const {
    const auto every = static_cast<std::size_t>(ranks_);
    const auto are_like = [&](std::size_t a, std::size_t b) {
      for (; b < stages(); a += every, b += every) {
        if (held.class_of_stage[a] != held.class_of_stage[b]) return false;
      }
      return true;
    };
    std::vector<std::size_t> out;
    for (const auto r : among) {
      const bool known = std::ranges::any_of(out, [&](std::size_t o) { return are_like(o, r); });
      if (!known) out.push_back(r);
    }
    return out;
  }

  void fill_in_flops() {
    double flops = 0;
    const auto& sections = on_stage(0).timed->sections;
    for (std::size_t r = 0; r < sections.runs(); ++r) {
      std::int64_t times = 0;
      for (const auto c : division_.class_of_stage) times += division_.classes[c][r];
      flops += static_cast<double>(times) * sections.model_flops[r];
    }
    flops *= static_cast<double>(batch_) / static_cast<double>(stage_.batch);
    const auto peak = compute_total_peak(machine_, stage_.dtype).value;
    out_.model_flops = Flops{flops};
    if (out_.iteration > Seconds{}) out_.mfu = flops / peak / out_.iteration.value;
  }

  const machine::Machine& machine_;
  const machine::Digits& digits_;
  const DeviceKinds& kinds_;
  const DeviceKinds::Ranks& kinds_of_ranks_;
  const std::vector<OnKind>& on_;
  const StageModel& stage_;  // of the first rank
  const Division& division_;
  ScheduleCache& schedules_;
  plan::Schedule schedule_;
  std::int64_t batch_;
  std::int64_t ranks_;
  std::vector<StageTransfer> transfers_;  // by stage
  TiedCosts tied_;
  std::array<double, kKinds> serialized_{};  // of the busiest rank, in seconds
  Simulation out_;
};

}  // namespace

Simulation combine_stages(StageCache& cache, const std::vector<OnKind>& on, const Setting& setting,
                          const Division& division, std::int64_t batch) {
  return AllStages(cache, on, setting, division, batch).run();
}

}  // namespace tandem::predict
