#include "search/complexity.h"

#include <algorithm>

#include "search/pool.h"
#include "strategies/families.h"

namespace tandem::search {

using strategies::Family;
using strategies::Setting;

namespace {

int count_kinds(const Setting& setting) {
  using strategies::FamilySplit;
  switch (strategies::get_family(setting.family).split) {
    case FamilySplit::kBatch:
      return 1;
    case FamilySplit::kDegrees: {
      const bool is_tensor = std::ranges::any_of(setting.tp, [](auto n) { return n > 1; });
      const bool is_data = setting.dp.value_or(1) > 1;
      return int{is_data} + int{is_tensor} + int{setting.pp > 1} + int{setting.cp > 1};
    }
    default:
      return 2;  // some layers along the batch, others split
  }
}

}  // namespace

Complexity compute_complexity(const Setting& setting) {
  const bool shards = setting.family == Family::kFsdp || setting.zero.value_or(0) > 0;
  const bool accumulates = setting.pp == 1 && setting.micro.value_or(1) > 1;
  const bool recomputes = setting.recompute != strategies::Recompute::kNone;
  return {.form = Complexity::CandidateForm::kStrategy,
          .kinds = count_kinds(setting),
          .rewrites = 0,
          .features = int{shards} + int{recomputes} + int{setting.interleave > 1} +
                      int{accumulates} + static_cast<int>(setting.layers.size())};
}

Complexity compute_complexity(const Candidate& candidate) {
  Complexity out;
  if (candidate.setting) out = compute_complexity(*candidate.setting);
  if (!candidate.setting) {
    out.kinds = candidate.schedule.stages > 1 ? 1 : 0;
    out.features = candidate.schedule.micro_batches > 1 ? 1 : 0;
  } else if (candidate.is_in_part) {
    out.form = Complexity::CandidateForm::kInPart;
  }
  if (candidate.rewritten) out.rewrites = candidate.rewritten->derivation.size();
  return out;
}

}  // namespace tandem::search
