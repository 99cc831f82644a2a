// Micro-batches as operators: pipeline(dim, count) splits a batch along `dim` into `count` parts
// that pass one after another, and batch(dim, count) puts the parts together again. Types count
// micro-batches like devices, as a mesh axis factor over time
// (docs/internals/decisions/0013-micro-batches-are-a-digit-of-time.md). The two operators
// therefore change types as partition and combine do.
#pragma once

#include "ops/attributes.h"
#include "ops/op.h"

namespace tandem::ops {

struct MicroBatches {
  std::int64_t dim = 0;
  std::int64_t count = 1;
  bool operator==(const MicroBatches&) const = default;
  static constexpr auto fields = std::tuple{AttributeField{"dim", &MicroBatches::dim},
                                            AttributeField{"count", &MicroBatches::count}};
};

extern const OpSpec kBatch;
extern const OpSpec kPipeline;

}  // namespace tandem::ops
