// Micro-batches as operators: pipeline(dim, count) passes on one of `count` parts along `dim` after
// the other, batch(dim, count) puts the parts together again. Micro-batches are a digit of time
// (docs/decisions/0013-micro-batches-are-a-digit-of-time.md), so types count them like devices:
// what they do to types is what partition and combine do.
#pragma once

#include "ops/attributes.h"
#include "ops/op.h"

namespace tandem::ops {

struct MicroBatches {
  std::int64_t dim = 0;
  std::int64_t count = 1;
  bool operator==(const MicroBatches&) const = default;
  static constexpr auto fields =
      std::tuple{Field{"dim", &MicroBatches::dim}, Field{"count", &MicroBatches::count}};
};

extern const OpSpec kBatch;
extern const OpSpec kPipeline;

}  // namespace tandem::ops
