#include "predict/fold/stage_cache.h"

#include <algorithm>
#include <bit>

#include "base/hash.h"
#include "machine/part.h"
#include "strategies/grid.h"
#include "strategies/pipeline.h"
#include "strategies/stages.h"

namespace tandem::predict {

namespace {

using machine::DigitMask;
using strategies::Setting;

// Returns whether data-parallel devices differ only in gradient synchronization. This does not hold
// if weights are sharded over them.
bool is_data_parallel(const Setting& s) {
  return s.family == strategies::Family::kMegatron && s.dp.value_or(1) > 1 &&
         s.zero.value_or(0) == 0;
}

// A setting with fewer data-parallel devices, but at least two: each device does the same work as
// before.
struct Smaller {
  Setting setting;
  machine::Machine part;
  std::int64_t batch = 0;
};
Smaller shrink_data_parallelism(const Setting& setting, const machine::Machine& part,
                                std::int64_t batch) {
  const machine::Digits digits(part);
  const auto data = find_data_digits(setting, digits);
  if (is_data_parallel(setting) && data != 0) {
    const auto innermost = std::bit_floor(data);
    if (auto smaller = make_part_without(part, digits, data & ~innermost)) {
      auto out = setting;
      out.dp = digits.group_size(innermost);
      return {out, std::move(*smaller), batch / *setting.dp * *out.dp};
    }
  }
  return {setting, part, batch};
}

}  // namespace

DigitMask find_differing_digits(const machine::Digits& digits, std::int64_t from, std::int64_t to,
                                std::int64_t ranks) {
  const auto of_ranks = strategies::find_rank_digits(digits, ranks).value();
  DigitMask out = 0;
  for (std::size_t i = 0; i < digits.count(); ++i) {
    if (!machine::has_digit(of_ranks, i)) continue;
    const bool differ =
        digits.coordinate_of_rank(from, of_ranks, i) != digits.coordinate_of_rank(to, of_ranks, i);
    if (differ) out |= machine::bit(i);
  }
  return out;
}

std::size_t StageCache::StageKeyHash::operator()(const StageKey& stage) const {
  const auto& s = stage.setting;
  Hash h = static_cast<Hash>(s.family);
  for (auto n : {stage.batch, stage.part, s.dp.value_or(-1), s.zero.value_or(-1), s.ep.value_or(-1),
                 s.micro.value_or(-1), s.cp, std::int64_t{s.sp},
                 static_cast<std::int64_t>(stage.cut), static_cast<std::int64_t>(stage.kind)}) {
    h = hash_combine(h, static_cast<Hash>(n));
  }
  for (auto n : s.tp) h = hash_combine(h, static_cast<Hash>(n));
  return hash_combine(h, static_cast<Hash>(s.recompute));
}

const std::vector<DigitMask>& StageCache::get_next_rank_digits(std::int64_t ranks) {
  const auto [at, is_new] = to_next_rank_.try_emplace(ranks);
  if (is_new) {
    for (std::int64_t r = 0; r < ranks; ++r) {
      at->second.push_back(find_differing_digits(digits_, r, (r + 1) % ranks, ranks));
    }
  }
  return at->second;
}

const machine::Machine* StageCache::get_part(std::int64_t ranks, std::size_t kind) {
  const auto [at, is_new] = parts_.try_emplace({ranks, kind});
  if (is_new) {
    const auto digits = strategies::find_rank_digits(digits_, ranks);
    if (digits) at->second = make_part_without(kinds_.machine(kind), digits_, *digits);
  }
  return at->second ? &*at->second : nullptr;
}

const Division* StageCache::get_division(std::int64_t ranks, std::int64_t stages_of_rank,
                                         const std::optional<strategies::Ends>& ends,
                                         std::int64_t batch) {
  const auto& speeds = this->ranks(ranks).speeds;
  const bool are_equal = std::ranges::all_of(speeds, [&](double s) { return s == speeds[0]; });
  const auto stages = ranks * stages_of_rank;
  const auto [at, is_new] = divisions_.try_emplace({batch, stages, are_equal ? 0 : ranks, ends});
  if (is_new && model_.settings.has("layers")) {
    const auto layers = model_.settings.size("layers");
    if (ends || (layers % stages == 0 && are_equal)) {
      const auto counts =
          strategies::divide_layers(layers, stages, ends.value_or(strategies::Ends{}));
      if (counts) at->second = make_division(*counts);
    } else if (auto* whole = get_network(*get_part(ranks, 0), batch);
               whole != nullptr && whole->pieces()) {
      std::vector<double> of_stages;
      for (std::int64_t s = 0; s < stages; ++s) {
        of_stages.push_back(speeds[static_cast<std::size_t>(s % ranks)] / speeds[0]);
      }
      at->second = make_uneven_division(*whole->pieces(), layers, of_stages);
    }
  }
  return at->second ? &*at->second : nullptr;
}

FoldedNetwork* StageCache::get_network(const machine::Machine& part, std::int64_t batch) {
  std::vector<std::int64_t> shape;
  for (const auto& level : part.levels) shape.push_back(level.count);
  const auto [folded, is_new] = folded_.try_emplace(batch);
  if (is_new) folded->second = fold(model_, batch, training_.dtype);
  if (!folded->second) return nullptr;
  return &networks_.try_emplace({batch, shape}, *folded->second, part).first->second;
}

LoweredStage* StageCache::get_lowered(const StageKey& key, const machine::Machine& part) {
  auto on_any = key;
  if (is_data_parallel(key.setting)) {
    if (key.batch % *key.setting.dp != 0) return nullptr;
    on_any.setting.dp = 2;  // any number above 1
    on_any.batch /= *key.setting.dp;
    on_any.part = std::min<std::int64_t>(key.part, 2);  // any number above 1
  }
  const auto [at, is_new] = lowered_.try_emplace(std::move(on_any));
  if (is_new) {
    const auto smaller = shrink_data_parallelism(key.setting, part, key.batch);
    auto* folded = get_network(smaller.part, smaller.batch);
    std::optional<StageModel> stage;
    if (folded != nullptr) {
      stage = make_stage_model(*folded, smaller.part, smaller.setting, training_,
                               programs_[key.kind], key.cut, key.part > 1);
    }
    if (stage) {
      const auto time = stage->schedule.micro_batches;
      const auto data = find_data_digits(smaller.setting, folded->digits()) << (time > 1 ? 1U : 0U);
      const auto* pieces = key.cut == Cut::kInPieces ? &*folded->pieces() : nullptr;
      at->second.emplace(machine::Digits(smaller.part, time), data, find_whole_runs(pieces),
                         std::move(*stage));
    }
  }
  return at->second ? &*at->second : nullptr;
}

TimedStage* StageCache::get_timed(const StageKey& key, LoweredStage& lowered,
                                  const machine::Machine& part) {
  const auto time = lowered.stage.schedule.micro_batches;
  const auto [at, is_new] = timed_.try_emplace(key);
  if (is_new) {
    std::optional<Sections> sections;
    if (!is_data_parallel(key.setting)) {
      sections = lowered.stage.sections;
    } else {
      const auto data = find_data_digits(key.setting, machine::Digits(part))
                        << (time > 1 ? 1U : 0U);
      sections = retime_collectives(lowered.stage, lowered.data, lowered.digits, part,
                                    machine::Digits(part, time), data);
    }
    if (sections) at->second.emplace(std::move(*sections), lowered);
  }
  return at->second ? &*at->second : nullptr;
}

}  // namespace tandem::predict
