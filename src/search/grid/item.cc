#include "search/grid/item.h"

namespace tandem::search {

using strategies::Family;
using strategies::Setting;

Family get_family(const Item& item, const Split& split) {
  if (split.ep > 1) return Family::kEp;
  if (split.tp * split.cp * split.pp > 1) return Family::kMegatron;
  return item.zero == 0 ? Family::kDp : item.zero == 3 ? Family::kFsdp : Family::kDeepspeed;
}

Setting make_setting(const Item& item, const Split& split, const PassKind& kind,
                     strategies::Recompute recompute) {
  Setting out{.family = get_family(item, split)};
  out.recompute = recompute;
  if (item.micro_batches > 1 || split.pp > 1) out.micro = item.micro_batches;
  if (out.family == Family::kEp) out.ep = split.ep;
  if (out.family == Family::kDeepspeed) out.zero = item.zero;
  if (out.family != Family::kMegatron) return out;
  out.tp = {split.tp};
  out.dp = split.dp;
  out.cp = split.cp;
  out.pp = split.pp;
  out.sp = kind.sequence_parallel;
  out.interleave = item.stages_of_rank;
  if (item.zero > 0) out.zero = item.zero;
  return out;
}

}  // namespace tandem::search
