// Results of MAD-Max's public model for one iteration.
#pragma once

#include <array>
#include <cstddef>

#include "base/units.h"

namespace tandem::madmax {

enum class Compute { kGemm, kEmbedding };
enum class Collective { kAllToAll, kAllReduce, kAllGather, kReduceScatter };

// Time of each kind of work without overlap.
struct Totals {
  std::array<Seconds, 2> compute = {};
  std::array<Seconds, 4> communication = {};

  [[nodiscard]] Seconds get_time(Compute kind) const {
    return compute[static_cast<std::size_t>(kind)];
  }
  [[nodiscard]] Seconds get_time(Collective kind) const {
    return communication[static_cast<std::size_t>(kind)];
  }
};

struct IterationResult {
  double global_batch = 0;
  Seconds iteration = {};
  Totals totals = {};
  Bytes weights = {};  // per device, without gradients, optimizer state and activations

  [[nodiscard]] double throughput() const;  // samples per second
  [[nodiscard]] Seconds compute() const;
  [[nodiscard]] Seconds communication() const;
  [[nodiscard]] Seconds serialized() const { return compute() + communication(); }
  [[nodiscard]] Seconds overlapped() const { return serialized() - iteration; }
  // Communication that is not overlapped with compute, and its share of all communication.
  [[nodiscard]] Seconds exposed() const;
  [[nodiscard]] double exposed_share() const;
};

}  // namespace tandem::madmax
