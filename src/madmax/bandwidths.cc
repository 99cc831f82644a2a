#include "madmax/bandwidths.h"

namespace tandem::madmax {

Bandwidths compute_bandwidths(const System& system) {
  // A link's bandwidth adds both directions. The devices of a node share its ports.
  const auto intra = system.intra_bandwidth * (system.intra_links * system.intra_utilization / 2);
  const auto inter = system.inter_bandwidth * (system.inter_links * system.inter_utilization / 2 /
                                               system.devices_per_node());
  if (system.nodes == 1) return {{intra, intra}, {intra, intra}, {intra * 2, intra * 2}};
  const double p = system.intra_share;
  const auto mixed = intra * p + inter * (1 - p);
  return {{intra, inter}, {intra, mixed}, {intra * 2, mixed * 2}};
}

int find_place(int level, int levels) { return (level + 2 - levels) % 2; }

Sharing compute_sharing(const LayerStrategy& strategy, const Bandwidths& bandwidths) {
  Sharing out;
  out.levels = strategy.levels;
  out.first = strategy.level[0].degree;
  out.gradient_first = strategy.level[0].method != Method::kTensor;
  out.first_gather = bandwidths.gather[static_cast<std::size_t>(find_place(0, strategy.levels))];
  for (int i = 0; i < strategy.levels; ++i) {
    const auto& [method, degree] = strategy.level[static_cast<std::size_t>(i)];
    const auto at = static_cast<std::size_t>(find_place(i, strategy.levels));
    if (method == Method::kTensor) {
      out.tensor = degree;
      out.tensor_level = i;
      out.exchange = bandwidths.all_to_all[at];
      out.activation = bandwidths.all_reduce[at];
    } else if (method == Method::kShard) {
      out.shard = degree;
      out.gather = bandwidths.gather[at];
    } else {
      out.replicate = degree;
      out.gradient = bandwidths.all_reduce[at];
    }
  }
  return out;
}

}  // namespace tandem::madmax
