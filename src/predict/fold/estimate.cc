#include <algorithm>

#include "predict/estimator.h"
#include "predict/fold/pass_bound.h"
#include "predict/fold/step.h"

namespace tandem::predict {

namespace {

using strategies::Setting;

// Up to this number of layers, lowering the whole network takes little time.
constexpr std::int64_t kFew = 6;

// Returns whether Streams has room for each level, compute and the host.
bool has_room_for(const machine::Machine& machine) {
  return machine.levels.size() + 2 <= Streams::kMost;
}

// Returns the setting with one stage and at most two micro-batches.
Setting reduce_to_one_stage(const Setting& setting) {
  auto out = setting;
  out.pp = 1;
  out.interleave = 1;
  out.ends.reset();
  if (setting.micro) out.micro = std::min<std::int64_t>(*setting.micro, 2);
  return out;
}

// Returns the key of the stage that represents a setting's pipeline, for a step with `batch`
// samples. Returns nullopt if micro-batches would differ in size.
std::optional<StageKey> make_stage_key(const Setting& setting, std::int64_t batch, Cut cut,
                                       std::size_t kind) {
  const auto micro = setting.micro.value_or(1);
  if (batch % micro != 0) return std::nullopt;
  auto inner = reduce_to_one_stage(setting);
  const auto inner_batch = batch / micro * inner.micro.value_or(1);
  return StageKey{std::move(inner), inner_batch, setting.pp, cut, kind};
}

// Returns whether folding pays off. With few layers, the ends of the pipeline and the reduction of
// sharded gradients are a large part of the step. Stages overlap them with other work. Lowering all
// of a few layers takes little time.
bool is_worth_folding(const models::ConfiguredModel& model, const Setting& setting) {
  const bool has_layers = model.settings.has("layers");
  return has_layers && model.settings.size("layers") > kFew && setting.zero.value_or(0) < 2;
}

// Returns the longest time that a layer takes to update its weights. In the estimate they all wait
// for the last of the layer's gradients.
double find_longest_update(const Sections& sections) {
  return std::ranges::max(sections.sums, {}, &Sums::updates).updates;
}

bool shares_links(const machine::Machine& machine) {
  return std::ranges::any_of(machine.levels, [](const auto& level) { return level.shared; });
}

// Returns whether the estimate leaves out a large part of the step. It leaves out effects at the
// ends of a pipeline and of a step. These matter if there are few layers, or if a tied weight is a
// large part of the network. If communication slows down compute and much of it is exposed, a
// layer's updates wait for one another. If gradients arrive late, the updates of the last layer are
// a part of the step. If devices wait for the host in one pass and the host is ahead in the other,
// the step settles only after several layers.
bool leaves_out_much(const StageCache& cache, const Setting& setting, const OnKind& on,
                     const Simulation& step) {
  constexpr std::int64_t kFewLayers = 40;
  constexpr double kShared = 0.01;
  const auto& software = cache.machine().device.software;
  const bool slows_down = software.interference > 0;
  const auto exposed = step.exposed_comm / step.iteration;
  const auto layers = cache.model().settings.size("layers");
  constexpr double kLate = 0.01;
  constexpr double kLong = 0.015;
  const auto update = find_longest_update(on.timed->sections);
  if (exposed > kLate && update > kLong * step.iteration.value) return true;
  if (setting.pp == 1) {
    constexpr double kMuchExposed = 0.1;
    const bool gathers = setting.family == strategies::Family::kFsdp || setting.zero == 3;
    const bool has_host = software.dispatch > Seconds{};
    const bool may_be_off = (has_host && layers <= kFew) || (slows_down && !gathers);
    return may_be_off && exposed > kMuchExposed;
  }
  constexpr double kExposed = 0.05;
  // Sends between stages wait for collectives on the same links.
  const bool waits = slows_down || shares_links(cache.machine());
  return layers <= kFewLayers || on.lowered->stage.tied.part > kShared ||
         (waits && exposed > kExposed);
}

// Returns whether the estimate may be off by more than 1 %.
bool is_rough(const StageCache& cache, const OnKind& on, const Setting& setting,
              const Division& division, const Simulation& step) {
  const auto& machine = cache.machine();
  const bool is_mixed = !machine.groups.empty();
  if (leaves_out_much(cache, setting, on, step)) return true;
  if (setting.pp == 1) return is_mixed;
  // If stages end inside layers, late starts and host delays interact. If devices are of several
  // kinds, a stage need not wait for the slowest one everywhere.
  const bool in_pieces = division.is_in_pieces();
  const bool in_unequal_parts = setting.ends && setting.interleave > 1;
  const bool waits_for_hosts = machine.device.software.dispatch > Seconds{};
  if ((in_pieces || in_unequal_parts) && waits_for_hosts) return true;
  if (in_pieces && (setting.recompute != strategies::Recompute::kNone || is_mixed)) return true;
  if (!is_worth_folding(cache.model(), setting)) return true;
  // If two stages of the first rank use a tied weight, its gradient is summed elsewhere. If the
  // tied weight is sharded, it is gathered and reduced in special ways.
  constexpr double kMuch = 0.02;
  const auto& tied = on.lowered->stage.tied;
  const auto tied_to = division.stages_after[tied.piece];
  const bool is_in_first_rank = tied_to > 0 && tied_to % setting.pp == 0;
  return (setting.zero.value_or(0) > 0 && tied.part > kMuch) ||
         (tied.bytes > Bytes{} && is_in_first_rank);
}

// Returns Estimate::choose_error_bound. A rough estimate mostly leaves out the ends of a pipeline's
// schedule. With ZeRO-2 and -3 a tied weight is sent for every micro-batch, and sends on shared
// links wait for it.
double choose_error_bound(const StageCache& cache, const OnKind& on, const Setting& setting,
                          const Division& division, const Simulation& step) {
  if (!is_rough(cache, on, setting, division, step)) return Estimate::kNear;
  constexpr double kRough = 0.15;
  constexpr double kShared = 0.3;  // shared links or a shared weight
  constexpr double kUnknown = 0.8;
  const bool shares_weight = setting.pp > 1 && on.lowered->stage.tied.part > 0;
  const bool shares = shares_links(cache.machine());
  if (!shares_weight) return shares ? kShared : kRough;
  return setting.zero.value_or(0) < 2 && !shares ? kShared : kUnknown;
}

}  // namespace

Estimator::Estimator(const models::ConfiguredModel& model, const machine::Machine& machine,
                     const Training& training)
    : cache_(std::make_unique<StageCache>(model, machine, training)) {}
Estimator::~Estimator() = default;

std::optional<Estimate> Estimator::estimate(const Setting& setting, std::int64_t batch) {
  const bool has_ranks = cache_->get_part(setting.pp, 0) != nullptr;
  if (setting.stale || !has_ranks || !has_room_for(cache_->machine())) return std::nullopt;
  // A bucket holds gradients of several layers, and the grouping differs from layer to layer.
  if (setting.bucket > Bytes{}) return std::nullopt;
  if (setting.interleave > 1 && setting.micro.value_or(1) % setting.pp != 0) return std::nullopt;

  const auto* division = cache_->get_division(setting.pp, setting.interleave, setting.ends, batch);
  if (division == nullptr) return std::nullopt;
  const bool in_pieces = division->is_in_pieces();
  const auto& ranks = cache_->ranks(setting.pp);
  std::vector<OnKind> on(cache_->kinds().count());
  for (const auto kind : ranks.kinds) {
    if (on[kind].lowered != nullptr) continue;
    const auto key = make_stage_key(setting, batch, in_pieces ? Cut::kInPieces : Cut::kWhole, kind);
    const auto& part = *cache_->get_part(setting.pp, kind);
    auto* lowered = key ? cache_->get_lowered(*key, part) : nullptr;
    auto* timed = lowered != nullptr ? cache_->get_timed(*key, *lowered, part) : nullptr;
    if (timed == nullptr) return std::nullopt;
    on[kind] = {lowered, timed};
  }
  Estimate out{combine_stages(*cache_, on, setting, *division, batch)};
  out.error_bound = choose_error_bound(*cache_, on[ranks.kinds[0]], setting, *division, out.step);
  return out;
}

std::optional<MicroBatchBound> Estimator::bound_pass(const Setting& setting, std::int64_t batch,
                                                     bool in_pieces) {
  if (cache_->get_part(setting.pp, 0) == nullptr || !has_room_for(cache_->machine())) {
    return std::nullopt;
  }
  std::vector<LoweredStage*> on;
  for (std::size_t kind = 0; kind < cache_->kinds().count(); ++kind) {
    auto key = make_stage_key(setting, batch, in_pieces ? Cut::kInPieces : Cut::kWhole, kind);
    if (!key) return std::nullopt;
    key->setting.zero.reset();
    on.push_back(cache_->get_lowered(*key, *cache_->get_part(setting.pp, kind)));
    if (on.back() == nullptr) return std::nullopt;
  }
  return compute_micro_batch_bound(on, cache_->kinds(), cache_->machine().levels.size());
}

std::optional<PipelineDivision> Estimator::divide(std::int64_t ranks, std::int64_t stages_of_rank,
                                                  std::int64_t micro_batches, std::int64_t batch) {
  const auto* part = cache_->get_part(ranks, 0);
  if (part == nullptr) return std::nullopt;
  const auto* division = cache_->get_division(ranks, stages_of_rank, {}, batch);
  if (division == nullptr) return std::nullopt;
  PipelineDivision out{.is_in_pieces = division->is_in_pieces(),
                       .classes = division->classes,
                       .class_of_stage = division->class_of_stage,
                       .kind_of_rank = cache_->ranks(ranks).kinds,
                       .layers = {}};
  const auto* pieces = out.is_in_pieces ? &*cache_->get_network(*part, batch)->pieces() : nullptr;
  const auto whole = find_whole_runs(pieces)[static_cast<std::size_t>(Section::kMiddle)];
  for (const auto& counts : out.classes) out.layers.push_back(counts[whole]);
  plan::Schedule schedule;
  schedule.stages = ranks * stages_of_rank;
  if (stages_of_rank > 1) schedule.order = plan::Order::kInterleaved;
  schedule.micro_batches = micro_batches;
  for (const auto& action : lower::list_actions(schedule, ranks, 0)) {
    if (action.phase != lower::Phase::kForward) break;
    out.in_flight += out.layers[out.class_of_stage[action.stage]];
  }
  return out;
}

}  // namespace tandem::predict
