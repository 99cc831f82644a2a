// Measures how complicated a candidate is. Among plans that are nearly as fast a user wants the
// simplest, which a launcher can run and a reader can follow.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

#include "strategies/setting.h"

namespace tandem::search {

struct Candidate;

// Complexity of a candidate. It is compared in the order of its fields; less is simpler.
// megatron:tp=2,dp=4 has two kinds of parallelism and is simpler than megatron:tp=2,dp=2,pp=2. dp
// is simpler than fsdp, which has a feature. fsdp is simpler than any layouts operator by operator.
struct Complexity {
  enum class CandidateForm : std::uint8_t {
    kStrategy,  // plain strategy: its text is complete
    kInPart,    // plain strategy with some layers recomputed, or other stage sizes
    kLayouts,   // layouts operator by operator
  };
  CandidateForm form = CandidateForm::kLayouts;
  int kinds = 0;             // kinds of parallelism: data, tensor, pipeline, context, expert
  std::size_t rewrites = 0;  // steps of the derivation
  int features = 0;          // sharded states, recomputation, virtual stages, accumulation

  auto operator<=>(const Complexity&) const = default;
};

Complexity compute_complexity(const strategies::Setting& setting);
Complexity compute_complexity(const Candidate& candidate);

}  // namespace tandem::search
