#include "predict/fold/stage_model.h"

#include <set>

#include "lower/lower.h"
#include "lower/resize_program.h"
#include "plan/parallelize.h"
#include "predict/collectives.h"
#include "predict/folded.h"
#include "strategies/grid.h"
#include "strategies/recomputation.h"

namespace tandem::predict {

namespace {

// Returns the part of the first section's weights that the last one reads, relative to all weights
// of `layers` layers.
double compute_shared_part(const graph::Graph& pcg, const std::vector<SectionPlace>& of_node,
                           std::int64_t layers) {
  std::set<std::size_t> shared;
  double all = 0;
  double read_twice = 0;
  const auto size_of = [&](graph::NodeId id) {
    return static_cast<double>(pcg.node(id).type.shape.sizes.count());
  };
  for (auto id : pcg.ids()) {
    const auto section = of_node[id.index()].section;
    if (is_weight(pcg.node(id))) {
      const auto times = section == Section::kMiddle ? layers - 2 : 1;
      all += static_cast<double>(times) * size_of(id);
    }
    if (is_parallel(pcg.node(id)) || section != Section::kAfter) continue;
    for (auto input : pcg.inputs(id)) {
      input = find_chain_start(pcg, input);
      const bool is_first = of_node[input.index()].section == Section::kBefore;
      if (!is_weight(pcg.node(input)) || !is_first) continue;
      if (shared.insert(input.index()).second) read_twice += size_of(input);
    }
  }
  return all == 0 ? 0 : read_twice / all;
}

StageModel::TiedWeights find_tied_weights(const lower::Program& program,
                                          const std::vector<SectionPlace>& of_node,
                                          const std::vector<SectionPlace>& place_of_task,
                                          std::int64_t layers) {
  StageModel::TiedWeights out;
  std::set<std::size_t> tied;
  for (std::size_t t = 0; t < program.tasks.size(); ++t) {
    const auto& task = program.tasks[t];
    if (place_of_task[t].section != Section::kAfter) continue;
    for (auto b : task.reads) {
      if (b == lower::Program::kNone) continue;
      const auto& read = program.buffer(b);
      const auto weight = find_chain_start(program.pcg, read.node);
      if (of_node[weight.index()].section != Section::kBefore) continue;
      // The first section may gather the weight for both.
      const bool gathered = read.kind == lower::BufferKind::kGathered;
      if (!gathered && read.kind != lower::BufferKind::kWeight) continue;
      if (tied.empty()) out.piece = place_of_task[t].piece;
      if (gathered || task.kind == lower::TaskKind::kMove) {
        out.moved = true;
        out.inside = program.buffer(gathered ? b : task.writes[0]).shared > Bytes{};
      }
      tied.insert(program.tensor[weight.index()].index());
    }
  }
  for (auto b : tied) out.bytes += program.buffers[b].bytes();
  out.part = compute_shared_part(program.pcg, of_node, layers);
  return out;
}

// Marks the nodes of a PCG that are recomputed: nodes of the model in `of_model`, and the
// parallelization operators behind them.
void mark_recomputed(const std::vector<bool>& of_model, plan::MappedGraph& mapped) {
  std::size_t next = 0;
  for (auto id : mapped.pcg.ids()) {
    const bool again = is_parallel(mapped.pcg.node(id))
                           ? mapped.recompute[mapped.pcg.inputs(id)[0].index()]
                           : of_model[next++];
    mapped.recompute[id.index()] = mapped.recompute[id.index()] || again;
  }
}

bool are_same(const machine::Digits& a, const machine::Digits& b) {
  if (a.count() != b.count() || a.micro_batches() != b.micro_batches()) return false;
  for (std::size_t i = 0; i < a.count(); ++i) {
    if (a[i].level != b[i].level || a[i].size != b[i].size) return false;
  }
  return true;
}

// Maps the digits of one part of a machine to those of another part, which has other data-parallel
// digits. All other digits are the same on both parts, in order.
class DigitMap {
 public:
  // Returns the map from digits `from`, with those of data parallelism in `data`, to digits `to`
  // with `to_data`. Returns nullopt if other digits differ.
  static std::optional<DigitMap> match(const machine::Digits& from, machine::DigitMask data,
                                       const machine::Digits& to, machine::DigitMask to_data) {
    DigitMap out;
    out.data_ = data;
    out.to_data_ = to_data;
    out.place_.resize(from.count());
    std::size_t next = 0;
    for (std::size_t i = 0; i < from.count(); ++i) {
      if (machine::has_digit(data, i)) continue;
      while (next < to.count() && machine::has_digit(to_data, next)) ++next;
      if (next == to.count() || to[next].size != from[i].size || to[next].level != from[i].level) {
        return std::nullopt;
      }
      out.place_[i] = next++;
    }
    return out;
  }

  // Returns the mask on the other part. A mask with any digit of data parallelism has all of them
  // there.
  [[nodiscard]] machine::DigitMask map(machine::DigitMask digits) const {
    machine::DigitMask out = (digits & data_) != 0 ? to_data_ : 0;
    for (std::size_t i = 0; i < place_.size(); ++i) {
      if (machine::has_digit(digits & ~data_, i)) out |= machine::bit(place_[i]);
    }
    return out;
  }

 private:
  DigitMap() = default;

  machine::DigitMask data_ = 0;
  machine::DigitMask to_data_ = 0;
  std::vector<std::size_t> place_;  // by digit outside data parallelism
};

// Cache of the times of collectives on a part of a machine. Equal layers have the same collectives.
class CollectiveTimes {
 public:
  CollectiveTimes(const machine::Machine& part, const machine::Digits& digits)
      : part_(part), digits_(digits) {}

  // Returns the time of `c` over `digits` of the part, which `c.digits` determine. Keeps a pointer
  // to `c`.
  double compute_time(const TimedCollective& c, machine::DigitMask digits) {
    for (const auto& [other, time] : known_) {
      if (are_equal(*other, c)) return time;
    }
    const auto time = c.joined ? bandwidth_time(part_, digits_, c.kind, digits, c.bytes).value
                               : collective_time(part_, digits_, c.kind, digits, c.bytes).value;
    known_.emplace_back(&c, time);
    return time;
  }

 private:
  static bool are_equal(const TimedCollective& a, const TimedCollective& b) {
    return a.kind == b.kind && a.digits == b.digits && a.joined == b.joined && a.bytes == b.bytes;
  }

  const machine::Machine& part_;
  const machine::Digits& digits_;
  std::vector<std::pair<const TimedCollective*, double>> known_;
};

}  // namespace

const FoldedNetwork::MappedStrategy& FoldedNetwork::find_mapped_strategy(
    const strategies::Setting& setting, const machine::Machine& part) {
  const auto known = std::ranges::find(mapped_strategies_, setting, &MappedStrategy::setting);
  if (known != mapped_strategies_.end()) return *known;
  auto& out = mapped_strategies_.emplace_back(MappedStrategy{setting, std::nullopt});
  const auto made = strategies::make_strategy(setting, problem_);
  if (const auto* strategy = std::get_if<strategies::Strategy>(&made)) {
    const machine::Digits with_time(part, strategy->schedule.micro_batches);
    out.mapped = plan::parallelize(folded_.graph, with_time, strategy->choices, strategy->schedule);
  }
  return out;
}

std::optional<plan::MappedGraph> FoldedNetwork::map_strategy(const strategies::Setting& setting,
                                                             const machine::Machine& part) {
  auto without = setting;
  without.recompute = strategies::Recompute::kNone;
  auto out = find_mapped_strategy(without, part).mapped;
  if (out) mark_recomputed(strategies::find_recomputed(setting.recompute, problem_), *out);
  return out;
}

const std::optional<Pieces>& FoldedNetwork::pieces() {
  if (!pieces_) pieces_ = cut_into_pieces(problem_);
  return *pieces_;
}

ProgramCache::LoweredProgram& ProgramCache::get_program(const strategies::Setting& setting,
                                                        plan::MappedGraph mapped,
                                                        const machine::Digits& digits,
                                                        const machine::Software& software,
                                                        plan::Optimizer optimizer) {
  for (auto& known : known_) {
    if (known.setting != setting || !are_same(known.program.digits, digits)) continue;
    if (known.program.optimizer != optimizer) continue;
    if (!lower::resize_program(known.program, known.mapped, mapped)) continue;
    known.mapped = std::move(mapped);
    return known;
  }
  if (known_.size() == kMost) known_.pop_front();
  auto program = lower::lower_unchecked(mapped, digits, software, optimizer);
  return known_.emplace_back(LoweredProgram{setting, std::move(mapped), std::move(program), {}});
}

std::optional<StageModel> make_stage_model(FoldedNetwork& network, const machine::Machine& part,
                                           const strategies::Setting& setting,
                                           const Training& training, ProgramCache& programs,
                                           Cut cut, bool is_pipelined) {
  const Pieces* pieces = nullptr;
  if (cut == Cut::kInPieces) {
    if (!network.pieces()) return std::nullopt;
    pieces = &*network.pieces();
  }
  auto mapped = network.map_strategy(setting, part);
  if (!mapped) return std::nullopt;
  auto& schedule = mapped->schedule;
  schedule.precision = training.precision;
  const machine::Digits with_time(part, schedule.micro_batches);
  auto& lowered = programs.get_program(setting, std::move(*mapped), with_time, part.device.software,
                                       training.optimizer);
  const auto& program = lowered.program;
  auto& places = lowered.cuts[static_cast<std::size_t>(cut)];
  if (places.of_node.empty()) {
    places.of_node = find_places(program.pcg, pieces);
    places.of_task = find_task_places(program, places.of_node, cut);
  }
  const auto runs = pieces != nullptr ? list_runs(*pieces) : whole_sections();
  const bool again = places.sections && places.sections->streams == 1 + part.levels.size();
  auto sections = again ? retime_sections(*places.sections, program, part, programs.operations())
                        : time_sections(program, part, places.of_task, runs, programs.operations());
  if (!again) places.sections = sections;
  return StageModel{
      .layers = network.folded().layers,
      .batch = network.folded().batch,
      .schedule = program.schedule,
      .sections = std::move(sections),
      .footprint = compute_footprint(program, places.of_node, places.of_task, runs, is_pipelined),
      .dtype = find_compute_dtype(program.pcg),
      .tied = find_tied_weights(program, places.of_node, places.of_task, network.folded().layers)};
}

std::optional<Sections> retime_collectives(const StageModel& stage, machine::DigitMask data,
                                           const machine::Digits& from,
                                           const machine::Machine& part, const machine::Digits& to,
                                           machine::DigitMask to_data) {
  const auto to_other = DigitMap::match(from, data, to, to_data);
  if (!to_other) return std::nullopt;
  auto out = stage.sections;
  CollectiveTimes times(part, to);
  for (const auto& c : out.collectives) {
    const auto shared = c.digits & data;
    if (shared != 0 && shared != data) return std::nullopt;
    if (is_halo(c.kind)) {
      if (shared != 0) return std::nullopt;
      continue;
    }
    const auto digits = to_other->map(c.digits);
    auto& task = out.parts[c.part][c.run].tasks[c.task];
    task.duration = times.compute_time(c, digits);
    const auto level = find_outermost_level(to, digits);
    task.stream = part.levels[level].by_device ? 0 : static_cast<std::uint16_t>(1 + level);
  }
  out.sum_up();
  return out;
}

}  // namespace tandem::predict
