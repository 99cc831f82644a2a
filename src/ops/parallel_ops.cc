// The parallelization operators. They do not change the meaning of a tensor, only its layout. Each
// one's backward is the other operator of its pair, on the gradient's dual type.
//
//   partition(dim, d)  [n]     -> [n/d]     combine(dim, d)  [n/d]   -> [n]
//   replicate(d)       [n]     -> [n]*d     reduce(d)        [n]+d   -> [n]   (adds the summands)
//                                           unreplicate(d)   [n]*d   -> [n]   (keeps replica 0)
//
//   send()             [n]     -> [n]       the same shards on other devices; its own pair
//   pipeline(dim, n)   [m]     -> [m/n]     batch(dim, n)    [m/n]   -> [m]   micro-batches
//
// Each operator except send adds or removes the minor digit of the degree that it changes.
#include "base/divisor.h"
#include "ops/attributes.h"
#include "ops/micro_batches.h"
#include "ops/rank_error.h"
#include "ops/registry.h"

namespace tandem::ops {

namespace {

void check_degree(const NoAttributes& /*none*/) {}
void check_degree(std::string_view what, std::int64_t degree) {
  constexpr std::int64_t kLargest = std::int64_t{1} << 30U;
  if (degree >= 1 && degree <= kLargest) return;
  throw RankError("graph", "", fmt::format("{} {} is not in 1..2^30", what, degree));
}
void check_degree(const MicroBatches& a) { check_degree("count", a.count); }
void check_degree(const auto& a) { check_degree("degree", a.degree); }

template <class Attributes>
OpDefinition<Attributes> define_parallel(const std::string& name, const std::string& doc,
                                         ParallelShape (*change)(const Attributes&,
                                                                 ParallelShape)) {
  return {
      .name = name,
      .doc = doc,
      .index = "... -> ...",
      .role = Role::kParallel,
      .type =
          [change](const Attributes& a, std::span<const TensorType> in) {
            if (in.size() != 1) {
              throw UserError("graph", "", fmt::format("takes 1 input, but has {}", in.size()));
            }
            check_degree(a);
            return TensorType{change(a, in[0].shape), in[0].dtype, in[0].density};
          },
  };
}

void check_dim(const DimDegree& a, const ParallelShape& shape) {
  if (a.dim >= 0 && a.dim < static_cast<std::int64_t>(shape.rank())) return;
  throw RankError(
      "graph", "",
      fmt::format("dim {} is out of range for a tensor of rank {}", a.dim, shape.rank()));
}

ParallelShape partition(const DimDegree& a, ParallelShape shape) {
  check_dim(a, shape);
  const auto d = static_cast<std::size_t>(a.dim);
  const auto shard = shape.shard_shape()[d];
  if (shard % a.degree != 0) {
    throw UserError("graph", "",
                    fmt::format("dim {} has {} elements per shard, which degree {} does not divide",
                                a.dim, shard, a.degree),
                    make_nearest_degree_hint(shard, a.degree));
  }
  shape.degrees[d] *= a.degree;
  return shape;
}

ParallelShape combine(const DimDegree& a, ParallelShape shape) {
  check_dim(a, shape);
  const auto d = static_cast<std::size_t>(a.dim);
  if (shape.degrees[d] % a.degree != 0) {
    throw UserError("graph", "",
                    fmt::format("dim {} has degree {}, which is not divisible by {}", a.dim,
                                shape.degrees[d], a.degree));
  }
  shape.degrees[d] /= a.degree;
  return shape;
}

ParallelShape replicate(const Degree& a, ParallelShape shape) {
  shape.replicas *= a.degree;
  return shape;
}

// Returns `count` / `degree`, the number of replicas or partial sums that remain.
std::int64_t divide_count(std::int64_t count, std::int64_t degree, std::string_view what) {
  if (count % degree == 0) return count / degree;
  throw UserError(
      "graph", "",
      fmt::format("the tensor has {} {}, which is not divisible by {}", count, what, degree));
}

ParallelShape reduce(const Degree& a, ParallelShape shape) {
  shape.partial = divide_count(shape.partial, a.degree, "partial sums");
  if (shape.partial == 1) shape.monoid = Monoid::kSum;
  return shape;
}

ParallelShape unreplicate(const Degree& a, ParallelShape shape) {
  shape.replicas = divide_count(shape.replicas, a.degree, "replicas");
  return shape;
}

ParallelShape pipeline(const MicroBatches& a, ParallelShape shape) {
  return partition({a.dim, a.count}, shape);
}

ParallelShape batch(const MicroBatches& a, ParallelShape shape) {
  return combine({a.dim, a.count}, shape);
}

ParallelShape send(const NoAttributes& /*none*/, ParallelShape shape) { return shape; }

}  // namespace

const OpSpec kBatch = define_op(
    define_parallel<MicroBatches>("batch", "combines `count` micro-batches along `dim`", batch));
const OpSpec kPipeline = define_op(define_parallel<MicroBatches>(
    "pipeline", "splits along `dim` into `count` micro-batches, processed one after another",
    pipeline));
const OpSpec kPartition = define_op(define_parallel<DimDegree>(
    "partition", "splits every shard into `degree` shards along `dim`", partition));
const OpSpec kCombine = define_op(define_parallel<DimDegree>(
    "combine", "combines `degree` neighbouring shards along `dim`", combine));
const OpSpec kReplicate =
    define_op(define_parallel<Degree>("replicate", "replicates on `degree` devices", replicate));
const OpSpec kReduce =
    define_op(define_parallel<Degree>("reduce", "sums `degree` partial sums", reduce));
const OpSpec kSend =
    define_op(define_parallel<NoAttributes>("send", "moves the shards to other devices", send));
const OpSpec kUnreplicate = define_op(
    define_parallel<Degree>("unreplicate", "keeps the first of `degree` replicas", unreplicate));

}  // namespace tandem::ops
