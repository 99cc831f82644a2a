// One iteration of one device as two in-order streams: compute and communication.
//
// An operation starts when its stream is free and its dependency has ended. Nothing else delays it.
// So an iteration is a fold over its layers and needs no task list: every dependency is the end of
// an earlier operation, which the fold still stores.
//
//   compute  | emb | b0 | b1 |        waits         | t0 | t1 |
//   network        |  all-to-all of the embeddings  |
#pragma once

#include <algorithm>
#include <array>

#include "madmax/layer.h"
#include "madmax/result.h"

namespace tandem::madmax {

class Iteration {
 public:
  // Each starts no earlier than `after` and returns its end.
  Seconds compute(Compute kind, Seconds duration, Seconds after = {});
  Seconds communicate(Collective kind, Seconds duration, Seconds after = {});

  // Delays the next layer's compute to `until`.
  void wait(Seconds until) { awaited_ = std::max(awaited_, until); }
  // Delays all later operations until all earlier ones have ended.
  void barrier() { compute_end_ = network_end_ = end(); }

  void forward(const Layer& layer);
  // Runs a layer's backward pass. `gathered` is the time when its weights are available;
  // `synchronised` says whether its gradient is communicated.
  void backward(const Layer& layer, Seconds gathered, bool synchronised);
  // Gathers the weights of a layer with FSDP, once the layer before the last has been computed: the
  // weights of two layers are held at a time. Returns the end.
  Seconds gather(const Layer& layer);

  [[nodiscard]] Seconds compute_end() const { return compute_end_; }
  [[nodiscard]] Seconds network_end() const { return network_end_; }
  [[nodiscard]] Seconds end() const { return std::max(compute_end_, network_end_); }
  [[nodiscard]] const Totals& totals() const { return totals_; }

 private:
  // Computes a layer, with the exchanges of experts before and after.
  void run(const Layer& layer, Seconds duration, Seconds gathered);
  void synchronise(const Layer& layer);

  Seconds compute_end_;
  Seconds network_end_;
  Seconds awaited_;
  std::array<Seconds, 2> layer_ends_ = {};  // ends of the last two layers, the older first
  Totals totals_;
};

}  // namespace tandem::madmax
