// One iteration of one device as two streams in order: compute, and communication.
//
// A piece of work starts when its stream is free and what it waits for has ended; there is nothing
// else. So an iteration is a fold over its layers and needs no list of tasks: what a piece waits
// for is the end of an earlier one, which the fold still holds.
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

  // The next layer's compute waits until then.
  void wait(Seconds until) { awaited_ = std::max(awaited_, until); }
  // Nothing that follows starts before all so far has ended.
  void barrier() { compute_end_ = network_end_ = end(); }

  void forward(const Layer& layer);
  // `gathered` is when the layer's weights are there; `synchronised`: its gradient is communicated.
  void backward(const Layer& layer, Seconds gathered, bool synchronised);
  // FSDP gathers the weights of a layer once the layer before last has been computed, so that those
  // of two layers are held at a time. Returns the end.
  Seconds gather(const Layer& layer);

  [[nodiscard]] Seconds compute_end() const { return compute_end_; }
  [[nodiscard]] Seconds network_end() const { return network_end_; }
  [[nodiscard]] Seconds end() const { return std::max(compute_end_, network_end_); }
  [[nodiscard]] const Totals& totals() const { return totals_; }

 private:
  // Compute with what always stands around it: experts' exchanges before and after.
  void run(const Layer& layer, Seconds duration, Seconds gathered);
  void synchronise(const Layer& layer);

  Seconds compute_end_;
  Seconds network_end_;
  Seconds awaited_;
  std::array<Seconds, 2> layer_ends_ = {};  // of the two layers computed last, the older first
  Totals totals_;
};

}  // namespace tandem::madmax
