// Compares the memory of training with closed forms and figures of papers: ZeRO (Rajbhandari et
// al., arXiv:1910.02054, figure 1) and Megatron (Korthikanti et al., arXiv:2205.05198, table 2 and
// figures 1 and 7).
#include <gtest/gtest.h>

#include <array>
#include <limits>

#include "lower/lower.h"
#include "models/model.h"
#include "predict/memory.h"
#include "strategies/grid.h"

namespace tandem::strategies {
namespace {

using lower::BufferKind;
using lower::Program;
using plan::Optimizer;
using plan::Precision;
using predict::compute_memory;

constexpr Precision kMixed = {.master = true, .wide_gradients = false};
constexpr Precision kMegatron = {.master = true, .wide_gradients = true};

// Returns the program of a strategy. With `frees`, memory is freed after its last use, as in this
// runtime. The systems in the papers hold it for the whole step.
Program make_program(const std::string& model, std::int64_t batch, const std::string& machine,
                     const std::string& strategy, const Precision& precision,
                     Optimizer optimizer = Optimizer::kAdam, DType dtype = DType::kFp16,
                     bool frees = false) {
  const auto graph = models::parse_model(model).build(batch, dtype);
  auto loaded = machine::load_machine(machine);
  loaded.device.software.frees_at_last_use = frees;
  auto made = make_named_strategies(strategy, graph, machine::Digits(loaded)).at(0);
  made.schedule.precision = precision;
  const machine::Digits digits(loaded, made.schedule.micro_batches);
  return lower::lower(plan::parallelize(graph, digits, made.choices, made.schedule), digits,
                      loaded.device.software, optimizer);
}

// --- ZeRO ----------------------------------------------------------------------------------------

constexpr int kLayers = 32;
constexpr double kWidth = 256;
constexpr double kWeight = kWidth * kWidth;        // elements of a layer's weight
constexpr double kParameters = kLayers * kWeight;  // psi
const std::string kMlp = "mlp:layers=32,hidden=256,inputs=256,outputs=256";

struct ZeroCase {
  const char* strategy;
  double whole;  // bytes per parameter that every device has
  double parts;  // bytes per parameter that are sharded over the devices
  bool operator==(const ZeroCase&) const = default;
};
void PrintTo(const ZeroCase& c, std::ostream* out) { *out << c.strategy; }

class Zero : public testing::TestWithParam<ZeroCase> {};

// The rest is activations, and buffers of one layer at a time.
TEST_P(Zero, MatchesTheMemoryOfThePaper) {
  for (const std::int64_t devices : {2, 4, 8}) {
    SCOPED_TRACE(devices);
    const std::int64_t batch = 4 * devices;
    const auto memory = compute_memory(
        make_program(kMlp, batch, fmt::format("local:{}", devices), GetParam().strategy, kMixed));
    const double n = static_cast<double>(devices);
    const double expected = kParameters * (GetParam().whole + GetParam().parts / n);
    // Results of layers are saved for backward, 4 samples per device, besides input and target.
    constexpr double kActivations = (kLayers + 4) * 4 * kWidth * 2;
    constexpr double kOneLayer = 2 * kWeight;
    EXPECT_GE(memory.peak.value, expected);
    EXPECT_LE(memory.peak.value, expected + kActivations + 3 * kOneLayer);
  }
}

// Gradients in fp32 take 2 more bytes in a device's shard. Gradients that are scattered at once are
// whole for one layer at a time, for any number of micro-batches.
TEST(ZeroMemory, HoldsNoUnshardedGradients) {
  constexpr std::int64_t kDevices = 4;
  for (const char* strategy : {"fsdp", "deepspeed:zero=2", "deepspeed:zero=3", "fsdp:micro=2"}) {
    SCOPED_TRACE(strategy);
    const auto peak = [&](const Precision& precision) {
      return compute_memory(make_program(kMlp, 16, "local:4", strategy, precision)).peak.value;
    };
    constexpr double kOneLayer = 4 * kWeight;
    EXPECT_LE(peak(kMegatron), peak(kMixed) + 2 * kParameters / kDevices + 2 * kOneLayer);
  }
}

INSTANTIATE_TEST_SUITE_P(Strategies, Zero,
                         testing::Values(ZeroCase{"dp", 16, 0}, ZeroCase{"dp:micro=2", 16, 0},
                                         ZeroCase{"deepspeed:zero=0", 16, 0},
                                         ZeroCase{"deepspeed:zero=1", 4, 12},
                                         ZeroCase{"deepspeed:zero=1,micro=2", 4, 12},
                                         ZeroCase{"deepspeed:zero=2", 2, 14},
                                         ZeroCase{"deepspeed:zero=2,micro=2", 2, 14},
                                         ZeroCase{"deepspeed:zero=3", 0, 16},
                                         ZeroCase{"deepspeed:zero=3,micro=2", 0, 16},
                                         ZeroCase{"fsdp", 0, 16}));

// Counts the elements that all devices send together.
TEST(ZeroCommunication, EqualsDataParallelismAndHalfMoreFromStage3On) {
  const auto count_sent = [](const std::string& strategy) {
    return count_communicated_elements(make_program(kMlp, 16, "local:4", strategy, kMixed)) / 3;
  };
  EXPECT_EQ(count_sent("dp"), 2 * kParameters);
  EXPECT_EQ(count_sent("deepspeed:zero=1"), 2 * kParameters);
  EXPECT_EQ(count_sent("deepspeed:zero=2"), 2 * kParameters);
  // The first layer's weight is not needed in the backward pass, and not gathered for it.
  EXPECT_EQ(count_sent("deepspeed:zero=3"), 3 * kParameters - kWeight);
  EXPECT_EQ(count_sent("fsdp"), 3 * kParameters - kWeight);
  EXPECT_EQ(count_sent("deepspeed:zero=1,micro=2"), 2 * kParameters);
  EXPECT_EQ(count_sent("deepspeed:zero=2,micro=2"), 3 * kParameters);
  EXPECT_EQ(count_sent("deepspeed:zero=3,micro=2"), 6 * kParameters - 2 * kWeight);
}

// With one micro-batch, gradients are scattered as they are computed, and gathered weights are
// freed after their layers. So there is never more than one whole weight besides its shards. With
// two micro-batches, all accumulated gradients are there, whole (stage 1) or sharded, besides the
// weights both whole and sharded.
TEST(ZeroMemory, FreesEverythingAtItsLastUse) {
  const auto bytes_a_parameter = [](const std::string& strategy) {
    const auto program =
        make_program(kMlp, 8, "local:2", strategy, {}, Optimizer::kSgd, DType::kFp32, true);
    for (const auto& b : program.buffers) {
      EXPECT_FALSE(b.reserved);
      EXPECT_EQ(b.shared, Bytes{});
    }
    const double activations = (kLayers + 4) * 4 * kWidth * 4;
    return (compute_memory(program).peak.value - activations) / kParameters;
  };
  constexpr double kFew = 3 * 4.0 / kLayers;  // a layer's weight and gradients
  EXPECT_NEAR(bytes_a_parameter("deepspeed:zero=1"), 2 + 4, kFew);
  EXPECT_NEAR(bytes_a_parameter("deepspeed:zero=2"), 2 + 4, kFew);
  EXPECT_NEAR(bytes_a_parameter("deepspeed:zero=1,micro=2"), 2 + 4 + 4, kFew);
  EXPECT_NEAR(bytes_a_parameter("deepspeed:zero=2,micro=2"), 2 + 4 + 2, kFew);
  EXPECT_NEAR(bytes_a_parameter("deepspeed:zero=3"), 2 + 2, kFew);
}

// --- Precision and optimizers --------------------------------------------------------------------

// Returns the bytes per parameter that live on between steps.
double persistent(const Precision& precision, Optimizer optimizer, DType dtype) {
  return compute_memory(make_program(kMlp, 4, "local:1", "dp", precision, optimizer, dtype))
             .persistent.value /
         kParameters;
}

TEST(TrainingMemory, PersistsByOptimizerAndPrecision) {
  EXPECT_EQ(persistent({}, Optimizer::kSgd, DType::kFp32), 4);
  EXPECT_EQ(persistent({}, Optimizer::kMomentum, DType::kFp32), 8);
  EXPECT_EQ(persistent({}, Optimizer::kAdam, DType::kFp32), 12);
  EXPECT_EQ(persistent(kMixed, Optimizer::kAdam, DType::kFp32), 12);  // nothing to be mixed
  EXPECT_EQ(persistent({}, Optimizer::kAdam, DType::kBf16), 6);
  EXPECT_EQ(persistent(kMixed, Optimizer::kSgd, DType::kBf16), 6);
  EXPECT_EQ(persistent(kMixed, Optimizer::kMomentum, DType::kBf16), 10);
  EXPECT_EQ(persistent(kMixed, Optimizer::kAdam, DType::kBf16), 14);
}

// Megatron has a separate buffer of fp32 gradients: 18 bytes per parameter from the first task on,
// in one micro-batch or several. They are reduced over devices in place.
TEST(TrainingMemory, TakesEighteenBytesPerParameterInMegatron) {
  for (const char* strategy : {"dp", "dp:micro=2"}) {
    for (const char* machine : {"local:1", "local:2"}) {
      const auto memory = compute_memory(make_program(kMlp, 8, machine, strategy, kMegatron));
      EXPECT_EQ(memory.persistent.value, 14 * kParameters);
      EXPECT_GE(memory.part(BufferKind::kGradient).value, 4 * kParameters);
      EXPECT_LE(memory.peak.value,
                18 * kParameters + (kLayers + 8) * 8 * kWidth * 2 + 2 * 2 * kWeight);
    }
  }
}

TEST(TrainingMemory, SendsGradientsInTheTypeOfAccumulation) {
  const auto dtypes = [](const char* strategy, const Precision& precision) {
    const auto program = make_program(kMlp, 8, "local:2", strategy, precision);
    std::vector<DType> out;
    for (const auto& task : program.tasks) {
      if (task.kind != lower::TaskKind::kMove || !task.backward || task.recomputed) continue;
      const auto dtype = program.buffer(task.reads[0]).dtype;
      if (out.empty() || out.back() != dtype) out.push_back(dtype);
    }
    return out;
  };
  EXPECT_EQ(dtypes("dp", kMixed), std::vector{DType::kFp16});
  EXPECT_EQ(dtypes("dp", kMegatron), std::vector{DType::kFp32});
  EXPECT_EQ(dtypes("dp:micro=2", kMegatron), std::vector{DType::kFp32});
  EXPECT_EQ(dtypes("deepspeed:zero=2,micro=2", kMegatron), std::vector{DType::kFp16});
}

// --- Activations of a transformer's layers -------------------------------------------------------

constexpr double kSequence = 64;
constexpr double kBatch = 2;
constexpr double kHidden = 64;
constexpr double kHeads = 8;

std::string gpt(int layers, const std::string& more = ",dropout=true") {
  return fmt::format("gpt3_175b:layers={},hidden={},heads={},ffn={},vocab=128,seq={}{}", layers,
                     kHidden, kHeads, 4 * kHidden, kSequence, more);
}

// Returns the memory that one more layer saves for backward, in units of s b h bytes.
double compute_saved_per_layer(const std::string& strategy,
                               const std::string& more = ",dropout=true") {
  const auto machine = strategy == "dp" ? "local:1" : "local:4";
  const auto compute_saved = [&](int layers) {
    return compute_memory(make_program(gpt(layers, more), static_cast<std::int64_t>(kBatch),
                                       machine, strategy, kMegatron))
        .saved.value;
  };
  return (compute_saved(5) - compute_saved(4)) / (kSequence * kBatch * kHidden);
}

TEST(Activations, MatchThePaperForALayer) {
  constexpr double kScores = 5 * kHeads * kSequence / kHidden;
  constexpr double t = 4;
  EXPECT_DOUBLE_EQ(compute_saved_per_layer("dp"), 34 + kScores);
  EXPECT_DOUBLE_EQ(compute_saved_per_layer("megatron:tp=4"), 10 + (24 + kScores) / t);
  EXPECT_DOUBLE_EQ(compute_saved_per_layer("megatron:tp=4,sp"), (34 + kScores) / t);
  EXPECT_DOUBLE_EQ(compute_saved_per_layer("megatron:tp=4,recompute=selective"), 10 + 24 / t);
  EXPECT_DOUBLE_EQ(compute_saved_per_layer("megatron:tp=4,sp,recompute=selective"), 34 / t);
  EXPECT_DOUBLE_EQ(compute_saved_per_layer("megatron:tp=4,recompute=full"), 2);
  EXPECT_DOUBLE_EQ(compute_saved_per_layer("megatron:tp=4,sp,recompute=full"), 2 / t);
}

// Without dropout, three things are missing. Attention and the feed-forward block have no masks,
// one byte each. The scores have no mask and no probabilities after dropout, 1 + 2 bytes.
TEST(Activations, ExcludeMasksAndResultWithoutDropout) {
  constexpr double kScores = 2 * kHeads * kSequence / kHidden;
  EXPECT_DOUBLE_EQ(compute_saved_per_layer("dp", ""), 32 + kScores);
  EXPECT_DOUBLE_EQ(compute_saved_per_layer("megatron:tp=4", ""), 8 + (24 + kScores) / 4);
  EXPECT_DOUBLE_EQ(compute_saved_per_layer("megatron:tp=4,sp", ""), (32 + kScores) / 4);
  // Fused attention never materializes the scores.
  EXPECT_DOUBLE_EQ(compute_saved_per_layer("megatron:tp=4,sp", ",attention=fused"), 32.0 / 4);
}

// --- Pipelines -----------------------------------------------------------------------------------

// Returns the activations that each rank of a pipeline holds, in layers of one micro-batch. Only
// layers count.
std::vector<double> compute_saved_by_rank(const std::string& strategy, int ranks, int layers_more) {
  std::vector<double> out;
  const auto compute_saved = [&](int layers) {
    const auto program =
        make_program(gpt(layers), 64, fmt::format("local:{}", ranks), strategy, kMegatron);
    std::vector<double> bytes;
    for (const auto device : program.digits.group(0, find_class_digits(program))) {
      bytes.push_back(compute_memory(program, device).saved.value);
    }
    return bytes;
  };
  const auto few = compute_saved(layers_more);
  const auto many = compute_saved(2 * layers_more);
  const double layer = kSequence * kBatch * kHidden * (34 + 5 * kHeads * kSequence / kHidden);
  for (std::size_t r = 0; r < few.size(); ++r) out.push_back((many[r] - few[r]) / layer);
  return out;
}

TEST(Activations, CoverTheMicroBatchesInFlight) {
  // 32 micro-batches of 2 samples. 8 more layers, 2 per stage: rank r holds pp - r micro-batches.
  EXPECT_EQ(compute_saved_by_rank("megatron:tp=1,pp=4,micro=32", 4, 8),
            (std::vector<double>{2 * 4, 2 * 3, 2 * 2, 2 * 1}));
  // Interleaved with 2 stages per rank, 1 layer each: L (1 + (pp - 1) / (pp v)) on the first rank.
  const auto interleaved = compute_saved_by_rank("megatron:tp=1,pp=4,interleave=2,micro=32", 4, 8);
  EXPECT_DOUBLE_EQ(interleaved[0], 8 * (1 + 3.0 / 8));
}

// --- Published figures ---------------------------------------------------------------------------

struct Published {
  const char* name;
  std::string model;
  std::int64_t batch;
  int nodes;
  std::string pipeline;
  double parameters;   // GiB of parameters and optimizer, figure 1
  double activations;  // GiB, figure 1: without sequence parallelism and recomputation
  double with_both;    // with sequence parallelism and selective recomputation
  // Percent of `activations`, figure 7.
  double sequence, selective, both, full;
};
void PrintTo(const Published& p, std::ostream* out) { *out << p.name; }

class Korthikanti : public testing::TestWithParam<Published> {
 protected:
  static Program program(const std::string& more) {
    const auto& p = GetParam();
    return make_program(p.model, p.batch, fmt::format("dgx_a100:{}", p.nodes),
                        fmt::format("megatron:tp=8{}{}", p.pipeline, more), kMegatron);
  }
  static double compute_saved_gib(const std::string& more) {
    return compute_memory(program(more)).saved.value / kGiB;
  }
  static void expect_near(double actual, double published, const char* what) {
    fmt::print("{} {}: {:.2f}, published {:.2f} ({:+.1f} %)\n", GetParam().name, what, actual,
               published, 100 * (actual / published - 1));
    EXPECT_NEAR(actual, published, 0.08 * published) << what;
  }
  static constexpr double kGiB = 1024.0 * 1024 * 1024;
};

TEST_P(Korthikanti, SavesTheTensorsOfFigure1) {
  const auto program = Korthikanti::program("");
  // A pipeline rank that has only layers: the paper leaves the embedding out.
  const auto ranks = program.digits.group(0, program.schedule.digits);
  const auto memory = compute_memory(program, ranks[ranks.size() / 2]);
  Bytes gradients;
  for (const auto& b : program.buffers) {
    if (b.reserved && holds_shard(b.layout, program.digits, ranks[ranks.size() / 2])) {
      gradients += b.bytes();
    }
  }
  const auto parameters = (memory.persistent + gradients).value / kGiB;
  expect_near(parameters, GetParam().parameters, "parameters and optimizer");
  expect_near(compute_memory(program).saved.value / kGiB, GetParam().activations, "activations");
  expect_near(compute_saved_gib(",sp,recompute=selective"), GetParam().with_both, "with both");
}

TEST_P(Korthikanti, SavesThePartsOfFigure7) {
  const auto& p = GetParam();
  const double all = compute_saved_gib("");
  expect_near(100 * compute_saved_gib(",sp") / all, p.sequence, "% with sequence parallelism");
  expect_near(100 * compute_saved_gib(",recompute=selective") / all, p.selective, "% selective");
  expect_near(100 * compute_saved_gib(",sp,recompute=selective") / all, p.both, "% with both");
  expect_near(100 * compute_saved_gib(",recompute=full") / all, p.full, "% full");
}

// Each member of a family needs at most as much memory as the one before it.
TEST(TrainingMemory, FallsWithStagesRecomputationMicroBatchesAndSlots) {
  using Family = std::vector<std::string>;
  for (const auto& family :
       {Family{"deepspeed:zero=0", "deepspeed:zero=1", "deepspeed:zero=2", "deepspeed:zero=3"},
        Family{"megatron:tp=2,zero=0", "megatron:tp=2,zero=1", "megatron:tp=2,zero=2",
               "megatron:tp=2,zero=3"},
        Family{"megatron:tp=2", "megatron:tp=2,recompute=selective",
               "megatron:tp=2,recompute=full"},
        Family{"megatron:tp=2,micro=1", "megatron:tp=2,micro=2", "megatron:tp=2,micro=8"},
        Family{"megatron:tp=2,pp=2,micro=8,schedule=gpipe", "megatron:tp=2,pp=2,micro=8",
               "megatron:tp=2,pp=2,micro=8,recompute=full"}}) {
    Bytes before{std::numeric_limits<double>::infinity()};
    for (const auto& strategy : family) {
      const auto peak =
          compute_memory(make_program(gpt(4), 64, "dgx_a100:1", strategy, kMegatron)).peak;
      EXPECT_LE(peak, before) << strategy;
      before = peak;
    }
  }
}

std::string format_gpt(int layers, int hidden, int heads) {
  return fmt::format(
      "gpt3_175b:layers={},hidden={},heads={},ffn={},vocab=51200,seq=2048,dropout=true", layers,
      hidden, heads, 4 * hidden);
}

INSTANTIATE_TEST_SUITE_P(
    Models, Korthikanti,
    testing::Values(Published{"22B", format_gpt(48, 6144, 64), 4, 1, "", 45.5625, 59.25, 9.5625,
                              66.84, 49.42, 16.18, 7.64},
                    Published{"175B", format_gpt(96, 12288, 96), 64, 8,
                              ",pp=8,interleave=3,micro=64", 45.5625, 66.84375, 12.3515625, 62.04,
                              56.53, 18.49, 8.71},
                    Published{"1T", format_gpt(128, 25600, 160), 512, 64, ",pp=64,micro=512",
                              32.958984375, 131.25, 26.5625, 58.31, 62.04, 20.27, 9.42}),
    [](const auto& info) { return std::string("P") + info.param.name; });

}  // namespace
}  // namespace tandem::strategies
