// Handwritten plans, run by tandem_worker under mpirun. With any number of processes the losses
// must be those of the sequential interpreter.
#include <algorithm>
#include <array>
#include <bit>

#include "data/dataset.h"
#include "runtime/train_test_support.h"

namespace tandem::runtime {
namespace {

using graph::NodeId;

TEST(Train, MlpDataParallel) { expect_reference_losses(mlp(), kDataParallel); }

// With 12 samples, batches of 8 reach into the next epoch. The network's features are sharded too.
TEST(Train, DataFromAFile) {
  const Scratch scratch("train_data");
  constexpr std::int64_t kSamples = 12;
  std::map<std::string, std::vector<double>> arrays;
  for (const auto& [name, size] : {std::pair("x", 12), std::pair("target", 4)}) {
    auto& array = arrays[name];
    for (std::int64_t i = 0; i < kSamples * size; ++i) {
      array.push_back(std::sin(static_cast<double>(7 * i + size)));
    }
    write_array(scratch, name, {kSamples, size}, array);
  }
  const auto model = mlp();
  const data::Dataset order(scratch.file(""), model, kSeed);
  const auto inputs = [&](const graph::Node& input, std::uint64_t step) {
    const auto& array = arrays.at(input.name);
    const auto& sizes = input.type.shape.sizes;
    Dense<double> out(sizes, std::vector<double>(static_cast<std::size_t>(sizes.count())));
    for (std::int64_t row = 0; row < sizes[0]; ++row) {
      const auto sample = order.sample_at(static_cast<std::int64_t>(step), row, sizes[0]);
      std::copy_n(array.begin() + sample * sizes[1], sizes[1], out.data.begin() + row * sizes[1]);
    }
    return out;
  };
  const auto reference = reference_losses(model, Optimizer::kSgd, inputs);
  const auto more = fmt::format("--data {}", scratch.file(""));
  for (const auto& spread : {kDataParallel, kMegatron}) {
    expect_losses(losses(make_plan(model, "local:2", spread, Optimizer::kSgd), 2, more), reference);
  }
}

TEST(Train, ReportsDataErrors) {
  const Scratch scratch;
  std::ofstream(scratch.file("plan.json"))
      << plan::to_json(make_plan(mlp(), "local:2", kDataParallel, Optimizer::kSgd));
  const auto run =
      start(scratch, 2,
            fmt::format("--plan {} --data {}", scratch.file("plan.json"), scratch.file("no.bin")),
            kTuned);
  EXPECT_EQ(run.status, 1);
  EXPECT_NE((run.out + run.err).find("no.bin"), std::string::npos) << run.out << run.err;
}
TEST(Train, MlpDataParallelAdam) {
  expect_reference_losses(mlp(), kDataParallel, 2, Optimizer::kAdam);
}
TEST(Train, MlpDataParallelMomentum) {
  expect_reference_losses(mlp(), kDataParallel, 2, Optimizer::kMomentum);
}
TEST(Train, MlpColumnThenRowParallel) { expect_reference_losses(mlp(), kMegatron); }

// The weights are sharded over two devices and gathered for each use (ZeRO-3).
TEST(Train, MlpShardedWeights) {
  auto spread = kDataParallel;
  spread["w1"] = {"0"};
  spread["w2"] = {"1"};
  spread["b1"] = {"0"};
  expect_reference_losses(mlp(), spread, 2, Optimizer::kAdam);
}

// The contraction of the second layer is sharded, and its result reduce-scattered over the batch.
TEST(Train, MlpReduceScatter) {
  auto spread = kMegatron;
  spread["loss"] = {"d0"};
  spread["target"] = {"0"};
  expect_reference_losses(mlp(), spread);
}

// An all-to-all reshards from the batch to the features between two layers.
TEST(Train, MlpAllToAll) {
  expect_reference_losses(mlp(), {{"x", {"0"}}, {"h", {"d0"}}, {"y", {"k"}}, {"w2", {"1"}}});
}

// Device 0 alone runs everything after the first layer, and has its weights.
TEST(Train, MlpIdleDevice) {
  expect_reference_losses(
      mlp(), {{"x", {"0"}}, {"h", {"d0"}}, {"y", {"idle"}}, {"loss", {"idle"}}, {"w2", {"."}}});
}

// The first layer runs on device 0; a scatter and a broadcast follow.
TEST(Train, MlpIdleThenSpread) {
  expect_reference_losses(mlp(), {{"x", {"."}},
                                  {"w1", {"."}},
                                  {"b1", {"."}},
                                  {"h", {"idle"}},
                                  {"y", {"d0"}},
                                  {"loss", {"d0"}}});
}

TEST(Train, MlpOneProcess) { expect_reference_losses(mlp(), {}, 1); }
TEST(Train, MlpReplicated) { expect_reference_losses(mlp(), {}); }

// One mesh axis factor is data-parallel; the other is column-parallel, then row-parallel.
TEST(Train, MlpFourDevicesHybrid) {
  expect_reference_losses(mlp(),
                          {{"x", {"0r"}},
                           {"target", {"0r"}},
                           {"w1", {"r0"}},
                           {"b1", {"r0"}},
                           {"w2", {"r1"}},
                           {"h", {"d0", "n"}},
                           {"y", {"d0", "k"}},
                           {"loss", {"d0", "c"}}},
                          4);
}

// Both mesh axis factors shard one dimension, and then another. The batch of 8 is sharded over 4.
TEST(Train, MlpFourDevicesRegrouped) {
  expect_reference_losses(mlp(),
                          {{"x", {"00"}},
                           {"target", {"00"}},
                           {"w1", {"01"}},
                           {"h", {"d0", "d0"}},
                           {"w2", {"11"}},
                           {"y", {"k", "k"}},
                           {"loss", {"c", "d0"}}},
                          4);
}

// --- bf16 ----------------------------------------------------------------------------------------

// Rounds to the nearest bf16, ties to even. bf16 has the exponent of fp32 and 7 of its 23 mantissa
// bits.
double to_bf16(double x) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(x));
  const auto rounded = (bits + 0x7fffU + (bits >> 16U & 1U)) & 0xffff0000U;
  return static_cast<double>(std::bit_cast<float>(rounded));
}

plan::Plan half_plan(const Spread& spread, Optimizer optimizer, plan::Precision precision) {
  auto plan = make_plan(mlp(DType::kBf16), "local:2", spread, optimizer, DType::kBf16);
  plan.mapped.schedule.precision = precision;
  return plan;
}

// Returns the largest difference of two losses, relative to the first loss.
double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  CHECK(a.size() == b.size() && !a.empty());
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(a[i] - b[i]));
  return worst / std::abs(b[0]);
}

// The reference stores only inputs and weights in bf16. Stored activations and gradients differ by
// at most 2^-9 each. The loss is a mean of squares, so it differs by twice that, and 20 steps add
// as much again. Adam divides gradients by their size: a rounding of a small gradient moves a
// weight as far as a large gradient.
double half_tolerance(Optimizer optimizer) {
  return optimizer == Optimizer::kAdam ? 0x1p-5 : 0x1p-7;
}

TEST(Train, HalfWithMasterWeights) {
  const plan::Precision narrow{.master = true, .wide_gradients = false};
  const plan::Precision wide{.master = true, .wide_gradients = true};
  for (auto optimizer : {Optimizer::kSgd, Optimizer::kMomentum, Optimizer::kAdam}) {
    const auto reference = reference_losses(mlp(), optimizer, nullptr, false, to_bf16);
    for (const auto& spread : {Spread{}, kDataParallel, kMegatron}) {
      for (const auto& precision : {narrow, wide}) {
        const auto trained = losses(half_plan(spread, optimizer, precision), 2);
        const auto difference = largest_difference(trained, reference);
        EXPECT_LE(difference, half_tolerance(optimizer));
        fmt::print("largest relative difference of a loss: {:.1e}\n", difference);
      }
    }
  }
}

// Adam's steps are as large as the learning rate, which is less than half of the last bit of most
// weights here. A master weight accumulates them; rounding at every step would lose them.
TEST(Train, HalfNeedsMasterWeights) {
  constexpr double kSmall = 2e-4;
  const auto reference = reference_losses(mlp(), Optimizer::kAdam, nullptr, false, to_bf16, kSmall);
  const auto difference = [&](bool master) {
    const auto plan = half_plan({}, Optimizer::kAdam, {.master = master, .wide_gradients = false});
    return largest_difference(losses(plan, 2, fmt::format("--lr {}", kSmall)), reference);
  };
  const auto with = difference(true);
  const auto without = difference(false);
  fmt::print("from the reference: {:.1e} with a master, {:.1e} without\n", with, without);
  EXPECT_LT(4 * with, without);
}

// Returns a network with two embedding tables, one sharded by rows and one by columns, and a dense
// part.
Graph dlrm() {
  GraphBuilder b("dlrm");
  const auto dense = b.input("dense", {8, 6}, kType);
  const auto target = b.input("target", {8, 2}, kType);
  const auto i0 = b.input("i0", {8, 3}, DType::kInt64, 20);
  const auto i1 = b.input("i1", {8, 1}, DType::kInt32, 10);
  const auto t0 = b.weight("t0", {20, 4}, kType);
  const auto t1 = b.weight("t1", {10, 4}, kType);
  const auto w0 = b.weight("w0", {4, 6}, kType);
  const auto w1 = b.weight("w1", {2, 12}, kType);
  const auto bottom = b.add(ops::kLinear, {dense, w0}, "bottom");
  const auto e0 = b.add(ops::kEmbeddingBag, {i0, t0}, "e0");
  const auto e1 = b.add(ops::kEmbeddingBag, {i1, t1}, "e1");
  const auto all = b.add(ops::make_op(ops::kConcat, ops::Concat{1}), {bottom, e0, e1}, "all");
  const auto top = b.add(ops::kLinear, {all, w1}, "top");
  return b.finish({b.add(ops::kMse, {top, target}, "loss")});
}

const Spread kTablesSplit = {{"dense", {"0"}},   {"target", {"0"}}, {"t0", {"0"}}, {"t1", {"1"}},
                             {"bottom", {"d0"}}, {"e0", {"v"}},     {"e1", {"d"}}, {"all", {"a0"}},
                             {"top", {"d0"}},    {"loss", {"d0"}}};

TEST(Train, DlrmOneProcess) { expect_reference_losses(dlrm(), {}, 1); }
TEST(Train, DlrmTablesSplit) { expect_reference_losses(dlrm(), kTablesSplit); }
TEST(Train, DlrmTablesSplitAdam) {
  expect_reference_losses(dlrm(), kTablesSplit, 2, Optimizer::kAdam);
}
TEST(Train, DlrmDataParallel) {
  expect_reference_losses(dlrm(), {{"dense", {"0"}},
                                   {"target", {"0"}},
                                   {"i0", {"0"}},
                                   {"i1", {"0"}},
                                   {"bottom", {"d0"}},
                                   {"e0", {"d0"}},
                                   {"e1", {"d0"}},
                                   {"all", {"a0"}},
                                   {"top", {"d0"}},
                                   {"loss", {"d0"}}});
}

// The tables are large compared to what is read of them, so devices exchange rows.
TEST(Train, DlrmRowsOfLargeTables) {
  const auto model =
      models::parse_model("dlrm:tables=3,rows=97,dim=4,dense=3,bag=2,bottom=5-4,top=5-2")
          .build(8, kType);
  expect_reference_losses("dp", model, 2);
  expect_reference_losses("dp", model, 2, Optimizer::kAdam);
}

// Windows overlap, reach beyond the neighbors and leave gaps; there is a bias and a residual
// connection.
Graph images() {
  GraphBuilder b("images");
  const auto x = b.input("x", {2, 3, 8, 8}, kType);
  const auto target = b.input("target", {2, 4}, kType);
  const auto w1 = b.weight("w1", {4, 3, 5, 3}, kType);
  const auto b1 = b.weight("b1", {4}, kType);
  const auto w2 = b.weight("w2", {4, 2, 3, 3}, kType);
  const auto w3 = b.weight("w3", {4, 4, 1, 1}, kType);
  const auto conv = [](ops::Conv2d attributes) { return ops::make_op(ops::kConv2d, attributes); };
  const auto relu = ops::Activation::kRelu;
  const auto c1 = b.add(conv({.padding = {2, 1}, .act = relu}), {x, w1, b1}, "c1");
  const auto c2 = b.add(conv({.padding = {1, 1}, .groups = 2}), {c1, w2}, "c2");
  const auto sum = b.add(ops::kAdd, {c1, c2}, "sum");
  const ops::Pool2d pool{.kernel = {3, 3}, .stride = {1, 1}, .padding = {1, 1}};
  const auto p1 = b.add(ops::make_op(ops::kMaxPool2d, pool), {sum}, "p1");
  const auto p2 = b.add(ops::make_op(ops::kAvgPool2d, pool), {p1}, "p2");
  const auto c3 = b.add(conv({.stride = {2, 2}}), {p2, w3}, "c3");
  const auto y = b.add(ops::kGlobalAvgPool, {c3}, "y");
  return b.finish({b.add(ops::kMse, {y, target}, "loss")});
}

// Returns the spread of the image network. `layout` shards the images over the mesh axis factors.
// `windows`, `add` and `global` are the factors that the operators are split by.
Spread image_spread(const std::string& layout, const std::vector<std::string>& windows,
                    const std::vector<std::string>& add, const std::vector<std::string>& global) {
  Spread out{{"x", {layout}}, {"sum", add}, {"y", global}};
  for (const char* name : {"c1", "c2", "p1", "p2", "c3"}) out[name] = windows;
  return out;
}

// A device may have several cores.
TEST(Train, TwoThreadsComputeTheSame) {
  const Scratch scratch("train_threads");
  const auto path = scratch.file("two.machine");
  std::ofstream(path) << "machine two\nusage two:N\ndoc one process with two threads\n"
                         "device core\n  threads 2\n  memory 4 GB\n  bandwidth 9 GB/s\n"
                         "  peak fp64 90 GFLOP/s\n"
                         "level process ?\n  bandwidth 9 GB/s\n  latency 1 us\n";
  const auto plan = make_plan(images(), path + ":1", {}, Optimizer::kSgd);
  const auto run = train_plan(plan, 1, kSteps);
  ASSERT_TRUE(run.is_object());
  EXPECT_EQ(run["threads"], 2);
  expect_losses(run["loss"].get<std::vector<double>>(),
                reference_losses(images(), Optimizer::kSgd));
}

TEST(Train, ImagesOneProcess) { expect_reference_losses(images(), {}, 1); }
TEST(Train, ImagesByRows) {
  expect_reference_losses(images(), image_spread("2", {"y"}, {"d2"}, {"h"}), 2, Optimizer::kAdam);
}
TEST(Train, ImagesByRowsAndColumns) {
  expect_reference_losses(images(), image_spread("23", {"y", "x"}, {"d2", "d3"}, {"h", "w"}), 4);
}
TEST(Train, ImagesBySamplesAndColumns) {
  expect_reference_losses(images(), image_spread("03", {"b", "x"}, {"d0", "d3"}, {"b", "w"}), 4);
}
// Each device has a row or two, so the kernel of 5 rows reaches beyond the neighbors.
TEST(Train, ImagesByRowsOnFour) {
  expect_reference_losses(images(), image_spread("22", {"y", "y"}, {"d2", "d2"}, {"h", "h"}), 4);
}

// Operators are split along rows or columns while those before and after are not. Their windows
// read from replicas or from other devices' samples, and their results are replicated again.
TEST(Train, ImagesByRowsBetweenReplicatedOperators) {
  const auto model = images();
  for (const char* name : {"c1", "c2", "p1", "p2", "c3"}) {
    SCOPED_TRACE(name);
    expect_reference_losses(model, {{name, {"y"}}}, 2);
  }
  const auto by_samples = image_spread("0", {"b"}, {"d0"}, {"b"});
  for (const char* name : {"c2", "c3"}) {
    SCOPED_TRACE(name);
    auto mixed = by_samples;
    mixed[name] = {"x"};
    expect_reference_losses(model, mixed, 2);
  }
}
// Some devices exchange halos, and others have replicas of them.
TEST(Train, ImagesByRowsWithReplicas) {
  const auto model = images();
  expect_reference_losses(
      model, image_spread("2r", {"y", "replica"}, {"d2", "replica"}, {"h", "replica"}), 4);
  expect_reference_losses(model, {{"c2", {"replica", "y"}}, {"c3", {"x", "replica"}}}, 4);
}

// Returns one transformer block with a residual connection.
Graph attention() {
  GraphBuilder b("attention");
  const auto x = b.input("x", {4, 6, 8}, kType);
  const auto target = b.input("target", {4, 6, 8}, kType);
  const auto project = [](const char* index, double scale = 1) {
    return ops::make_op(ops::kContract, ops::Contract{index, scale});
  };
  const auto scale = b.weight("scale", {8}, kType);
  const auto shift = b.weight("shift", {8}, kType);
  const auto n = b.add(ops::kLayerNorm, {x, scale, shift}, "n");
  std::map<std::string, NodeId> head;
  for (const std::string name : {"q", "k", "v"}) {
    const auto w = b.weight("w" + name, {4, 2, 8}, kType);
    head[name] = b.add(project("b s i, h d i -> b h s d"), {n, w}, name);
  }
  const auto wo = b.weight("wo", {8, 4, 2}, kType);
  const auto scores =
      b.add(project("b h s d, b h t d -> b h s t", 0.7), {head["q"], head["k"]}, "scores");
  const auto p = b.add(ops::kSoftmax, {scores}, "p");
  const auto mixed = b.add(project("b h s t, b h t d -> b h s d"), {p, head["v"]}, "mixed");
  const auto out = b.add(project("b h s d, o h d -> b s o"), {mixed, wo}, "out");
  const auto sum = b.add(ops::kAdd, {out, x}, "sum");
  return b.finish({b.add(ops::kMse, {sum, target}, "loss")});
}

// Keys and values go around the ring, and so do their gradients in the backward pass, also with
// micro-batches.
TEST(Train, AttentionByRings) {
  const auto model =
      models::parse_model("gpt2:layers=1,hidden=8,heads=2,ffn=8,vocab=12,seq=8").build(4, kType);
  expect_reference_losses("megatron:tp=1,cp=2,ring", model, 2, Optimizer::kAdam);
  expect_reference_losses("megatron:tp=1,cp=4,ring", model, 4);
  expect_reference_losses("megatron:tp=1,cp=2,dp=1,pp=2,ring,micro=2,recompute=full", model, 4);
}

TEST(Train, AttentionOneProcess) { expect_reference_losses(attention(), {}, 1, Optimizer::kAdam); }
TEST(Train, AttentionByHeads) {
  expect_reference_losses(attention(), {{"wq", {"0"}},
                                        {"wk", {"0"}},
                                        {"wv", {"0"}},
                                        {"wo", {"1"}},
                                        {"q", {"h"}},
                                        {"k", {"h"}},
                                        {"v", {"h"}},
                                        {"scores", {"h"}},
                                        {"p", {"d1"}},
                                        {"mixed", {"h"}},
                                        {"out", {"h"}}});
}

// Queries are sharded along the sequence; keys and values are gathered.
TEST(Train, AttentionBySequence) {
  expect_reference_losses(attention(),
                          {{"x", {"1"}},
                           {"target", {"1"}},
                           {"n", {"d1"}},
                           {"q", {"s"}},
                           {"k", {"s"}},
                           {"v", {"s"}},
                           {"scores", {"s"}},
                           {"p", {"d2"}},
                           {"mixed", {"s"}},
                           {"out", {"s"}},
                           {"sum", {"d1"}},
                           {"loss", {"d1"}}},
                          2, Optimizer::kAdam);
}

// --- Pipelines, overlap and buckets --------------------------------------------------------------

TEST(Train, Pipeline) { expect_reference_losses("megatron:tp=1,pp=2,micro=4", mlp()); }
TEST(Train, PipelineOfFourDevices) {
  expect_reference_losses("megatron:tp=2,pp=2,micro=2,recompute=full", mlp(), 4, Optimizer::kAdam);
}
// Each layer's all-reduce overlaps with the gradients of the layers before it. The first layer has
// none before it.
TEST(Train, GradientSumsOverlapTheBackwardPass) {
  const auto model =
      models::parse_model("mlp:layers=4,hidden=64,inputs=64,outputs=64").build(8, kType);
  const auto run = train_plan(plan_by_name("dp", model, 2, Optimizer::kSgd), 2, 3);
  EXPECT_EQ(run["gradient_collectives"], 4);
  EXPECT_EQ(run["gradient_collectives_beside_backward"], 3);
}
// The times show it too: the first all-reduce starts before most of the backward pass.
TEST(Train, GradientSumsStartBeforeTheBackwardPassEnds) {
  const auto model =
      models::parse_model("mlp:layers=8,hidden=256,inputs=256,outputs=256").build(64, kType);
  const auto run = train_plan(plan_by_name("dp", model, 2, Optimizer::kSgd), 2, kSteps);
  const auto steps = run["step_s"].get<std::vector<double>>();
  const auto begins = run["first_gradient_collective_s_of_steps"].get<std::vector<double>>();
  const auto ends = run["backward_end_s_of_steps"].get<std::vector<double>>();
  ASSERT_EQ(begins.size(), kSteps);
  ASSERT_EQ(ends.size(), kSteps);
  std::size_t early = 0;
  for (std::size_t i = 0; i < kSteps; ++i) {
    EXPECT_GT(begins[i], 0);
    EXPECT_LE(ends[i], steps[i]);
    // Times include both passes, of which the backward pass takes longer. A collective at its very
    // end would be at 1.
    early += begins[i] < 0.9 * ends[i] ? 1 : 0;
  }
  EXPECT_GT(early, kSteps / 2);
}

// Returns the exposed fraction of the step that other programs disturbed least.
double measure_exposed_part(const graph::Graph& model, const std::string& strategy, int processes) {
  const auto run =
      train_plan(plan_by_name(strategy, model, processes, Optimizer::kSgd), processes, kSteps);
  const auto steps = run["step_s"].get<std::vector<double>>();
  const auto exposed = run["exposed_comm_s_of_steps"].get<std::vector<double>>();
  const auto least = std::ranges::min_element(steps) - steps.begin();
  return exposed[static_cast<std::size_t>(least)] / steps[static_cast<std::size_t>(least)];
}

// With one micro-batch, one stage computes while the other waits. There are four equal layers. The
// second stage does 4 matmuls for gradients and 2 forward. The first stage does only 3 for
// gradients, because the gradient of the input is not wanted. The first stage therefore waits for 6
// of 11 parts of the step. If other programs use the CPUs, one stage may be delayed more than the
// other, so the median of several runs counts.
TEST(Train, ReportsStallsAsExposed) {
  const auto model =
      models::parse_model("mlp:layers=4,hidden=768,inputs=768,outputs=768").build(256, kType);
  std::array<double, 5> parts{};
  for (auto& part : parts) {
    part = measure_exposed_part(model, "megatron:tp=1,pp=2,micro=1", 2);
    fmt::print("{:.3f} of a step is exposed\n", part);
  }
  std::ranges::sort(parts);
  EXPECT_NEAR(parts[parts.size() / 2], 6.0 / 11, 0.1);
  EXPECT_LT(measure_exposed_part(model, "dp", 1), 0.01);
}
TEST(Train, InterleavedPipeline) {
  expect_reference_losses(
      "megatron:tp=1,pp=2,interleave=2,micro=4",
      models::parse_model("mlp:layers=4,hidden=8,inputs=6,outputs=4").build(8, kType));
}
// Delayed updates as in PipeDream-2BW.
TEST(Train, DelayedUpdates) {
  const auto model =
      models::parse_model("mlp:layers=4,hidden=8,inputs=6,outputs=4").build(8, kType);
  const auto loaded = machine::load_machine("local:2");
  for (const auto optimizer : {Optimizer::kSgd, Optimizer::kAdam}) {
    const auto made =
        strategies::make_named_strategies("megatron:tp=1,pp=2,micro=2,stale", model,
                                          machine::Digits(loaded), plan::Semantics::kDelayed1)
            .front();
    auto plan = make_plan(model, "local:2", {}, optimizer);
    const machine::Digits digits(loaded, made.schedule.micro_batches);
    plan.mapped = plan::parallelize(model, digits, made.choices, made.schedule);
    expect_losses(losses(plan, 2), reference_losses(model, optimizer, nullptr, true));
  }
}
TEST(Train, MicroBatches) { expect_reference_losses("dp:micro=4,recompute=full", mlp()); }
TEST(Train, ZeroTwo) { expect_reference_losses("deepspeed:zero=2,micro=2", mlp()); }
TEST(Train, FullyShardedAdam) {
  expect_reference_losses("fsdp:micro=2", mlp(), 2, Optimizer::kAdam);
}

// One all-reduce, or one reduce-scatter, sums all gradients or some of them.
TEST(Train, Buckets) { expect_reference_losses("dp:bucket=1GB", mlp()); }
TEST(Train, SmallBuckets) { expect_reference_losses("dp:bucket=500B,micro=2", mlp()); }
TEST(Train, FullyShardedBucketsAdam) {
  expect_reference_losses("fsdp:bucket=1GB", mlp(), 4, Optimizer::kAdam);
}
TEST(Train, BucketsOfEveryMicroBatch) {
  expect_reference_losses("deepspeed:zero=2,micro=2,bucket=1GB", mlp());
}

TEST(Train, LlamaDataParallel) {
  expect_reference_losses("dp", built_in("llama2_70b"), 2, Optimizer::kAdam);
}
TEST(Train, LlamaTensorParallel) {
  expect_reference_losses("megatron:tp=2,sp", built_in("llama2_70b"), 2, Optimizer::kAdam);
}
TEST(Train, LlamaFullySharded) { expect_reference_losses("fsdp", built_in("llama2_70b"), 4); }
TEST(Train, LlamaPipeline) {
  expect_reference_losses("megatron:tp=1,pp=2,micro=4", built_in("llama2_70b"));
}
TEST(Train, MixtralDataParallel) { expect_reference_losses("dp", built_in("mixtral_8x7b")); }
TEST(Train, MixtralTensorParallel) {
  expect_reference_losses("megatron:tp=2,dp=2", built_in("mixtral_8x7b"), 4, Optimizer::kAdam);
}
TEST(Train, MixtralByExperts) {
  const auto model = models::parse_model(
                         "mixtral_8x7b:layers=2,hidden=16,heads=4,kv_heads=2,ffn=12,vocab=11,seq=6,"
                         "experts=4,active_experts=2")
                         .build(8, kType);
  expect_reference_losses("expert", model, 2);
}
// Norm, attention and loss consist of several operators each.
TEST(Train, LlamaOfPlainOperators) {
  const auto model = models::parse_model(
                         "llama2_70b:layers=1,hidden=16,heads=4,kv_heads=2,ffn=12,vocab=11,seq=6,"
                         "attention=plain,norm=plain,loss=plain")
                         .build(8, kType);
  expect_reference_losses("dp", model, 2, Optimizer::kAdam);
}

}  // namespace
}  // namespace tandem::runtime
