// How complicated a candidate is: of plans that are nearly as fast a user wants the simplest, which
// a launcher can run and a reader can follow.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

#include "strategies/setting.h"

namespace tandem::search {

struct Candidate;

// Compared in the order of its fields; less is simpler. megatron:tp=2,dp=4 has two kinds of
// parallelism and is simpler than megatron:tp=2,dp=2,pp=2; dp is simpler than fsdp, which has a
// feature, and that is simpler than any layouts operator by operator.
struct Complexity {
  enum class Form : std::uint8_t {
    kStrategy,  // a plain one: its text says all
    kInPart,    // a plain one that recomputes some layers, or with stages of other sizes
    kLayouts,   // operator by operator
  };
  Form form = Form::kLayouts;
  int kinds = 0;             // of parallelism: data, tensor, pipeline, context, expert
  std::size_t rewrites = 0;  // steps of its derivation
  int features = 0;          // sharded states, recomputation, virtual stages, accumulation

  auto operator<=>(const Complexity&) const = default;
};

Complexity complexity_of(const strategies::Setting& setting);
Complexity complexity_of(const Candidate& candidate);

}  // namespace tandem::search
