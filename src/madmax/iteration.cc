#include "madmax/iteration.h"

namespace tandem::madmax {

Seconds Iteration::compute(Compute kind, Seconds duration, Seconds after) {
  compute_end_ = std::max(compute_end_, after) + duration;
  totals_.compute[static_cast<std::size_t>(kind)] += duration;
  return compute_end_;
}

Seconds Iteration::communicate(Collective kind, Seconds duration, Seconds after) {
  network_end_ = std::max(network_end_, after) + duration;
  totals_.communication[static_cast<std::size_t>(kind)] += duration;
  return network_end_;
}

Seconds Iteration::gather(const Layer& layer) {
  if (layer.gather == Seconds{}) return {};
  return communicate(Collective::kAllGather, layer.gather, layer_ends_[0]);
}

void Iteration::run(const Layer& layer, Seconds duration, Seconds gathered) {
  const bool has_experts = layer.exchange > Seconds{};
  wait(gathered);
  if (has_experts) wait(communicate(Collective::kAllToAll, layer.exchange, compute_end_));
  compute(Compute::kGemm, duration, awaited_);
  layer_ends_ = {layer_ends_[1], compute_end_};
  if (has_experts) wait(communicate(Collective::kAllToAll, layer.exchange, compute_end_));
}

void Iteration::forward(const Layer& layer) {
  run(layer, layer.compute, gather(layer));
  if (layer.activation > Seconds{}) {
    wait(communicate(Collective::kAllReduce, layer.activation, compute_end_));
  }
}

void Iteration::synchronise(const Layer& layer) {
  if (layer.scatter > Seconds{}) {
    communicate(Collective::kReduceScatter, layer.scatter, compute_end_);
  }
  if (layer.gradient > Seconds{}) {
    communicate(Collective::kAllReduce, layer.gradient, compute_end_);
  }
}

void Iteration::backward(const Layer& layer, Seconds gathered, bool synchronised) {
  run(layer, layer.compute * 2, gathered);
  if (synchronised && layer.gradient_first) synchronise(layer);
  if (layer.activation_back > Seconds{}) {
    const auto end = communicate(Collective::kAllReduce, layer.activation_back, compute_end_);
    if (layer.activation_blocks) wait(end);
  }
  if (synchronised && !layer.gradient_first) synchronise(layer);
}

}  // namespace tandem::madmax
