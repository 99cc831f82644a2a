// Small versions of Unity's seven networks, a LLaMA- and a Mixtral-shaped one, under every kind of
// plan. In fp64 the losses must be those of the sequential interpreter. In fp32 they must be those
// of one process, as close as that one is to itself with another order of sums.
#include "base/error.h"
#include "graph/text.h"
#include "plan/random_choices_test_support.h"
#include "runtime/train_test_support.h"
#include "search/search.h"

namespace tandem::runtime {
namespace {

struct PlanKind {
  std::string strategy;
  int processes = 2;
};

std::vector<PlanKind> plan_kinds() {
  return {{"dp"},
          {"fsdp"},
          {"deepspeed:zero=2,micro=2"},
          {"megatron:tp=2"},
          {"megatron:tp=2,dp=2", 4},
          {"megatron:tp=1,pp=2,micro=4"},
          {"megatron:tp=1,pp=2,micro=2,dp=2", 4},
          {"expert"},
          {"dlrm_hybrid"}};
}

// Returns nullopt if the strategy does not support the network.
std::optional<plan::Plan> plan_if_any(const PlanKind& kind, const Graph& model,
                                      DType dtype = DType::kFp64) {
  try {
    return plan_by_name(kind.strategy, model, kind.processes, Optimizer::kSgd, dtype);
  } catch (const UserError&) {
    return std::nullopt;
  }
}

const std::vector<std::string>& list_trained_networks() {
  static const std::vector<std::string> kNames = {"resnext50", "inception_v3", "bert_large",
                                                  "dlrm",      "xdl",          "candle_uno",
                                                  "mlp",       "llama2_70b",   "mixtral_8x7b"};
  return kNames;
}

// Checks the losses of every kind of plan that exists for the network.
void expect_every_kind(const std::string& name) {
  SCOPED_TRACE(name);
  const auto model = built_in(name);
  const auto steps = count_steps(name);
  const auto reference = reference_losses(
      model, Optimizer::kSgd, nullptr, false, [](double x) { return x; }, kRate, steps);
  int plans = 0;
  for (const auto& kind : plan_kinds()) {
    SCOPED_TRACE(kind.strategy);
    const auto plan = plan_if_any(kind, model);
    if (!plan) continue;
    ++plans;
    expect_losses(losses(*plan, kind.processes, "", steps), reference);
  }
  fmt::print("{}: {} plans\n", name, plans);
  EXPECT_GE(plans, 5);
}

TEST(TrainNightly, EveryNetworkUnderEveryKindOfPlan) {
  for (const auto& name : list_trained_networks()) expect_every_kind(name);
}

// The other built-in networks.
TEST(TrainNightly, EveryNetwork) {
  for (const auto& [name, small] : models::small_models()) {
    if (std::ranges::find(list_trained_networks(), name) != list_trained_networks().end()) continue;
    SCOPED_TRACE(name);
    const auto model = built_in(name);
    const auto steps = count_steps(name);
    const auto reference = reference_losses(
        model, Optimizer::kSgd, nullptr, false, [](double x) { return x; }, kRate, steps);
    for (const std::string strategy : {"dp", "fsdp", "deepspeed:zero=2,micro=2"}) {
      SCOPED_TRACE(strategy);
      expect_losses(losses(plan_by_name(strategy, model, 2, Optimizer::kSgd), 2, "", steps),
                    reference);
    }
  }
}

// Checks the plan that the search finds if it may cut only these dimensions.
void expect_found_plan(const std::string& name, bool search::Dims::*dim) {
  SCOPED_TRACE(name);
  const auto model = built_in(name);
  search::Options options;
  options.dims = {.data = false,
                  .model = false,
                  .spatial = false,
                  .reduction = false,
                  .head = false,
                  .expert = false,
                  .sequence = false,
                  .pipeline = false};
  options.dims.*dim = true;
  const auto found = search::search(model, machine::load_machine("local:2"), options);
  ASSERT_TRUE(found.best.has_value());
  auto plan = make_plan(model, "local:2", {}, Optimizer::kSgd);
  plan.mapped = found.best->mapped;
  const auto steps = count_steps(name);
  expect_losses(losses(plan, 2, "", steps), reference_losses(
                                                model, Optimizer::kSgd, nullptr, false,
                                                [](double x) { return x; }, kRate, steps));
}

TEST(TrainNightly, FoundPlansOfOneDimension) {
  expect_found_plan("resnext50", &search::Dims::spatial);
  expect_found_plan("inception_v3", &search::Dims::spatial);
  expect_found_plan("mlp", &search::Dims::reduction);
  expect_found_plan("candle_uno", &search::Dims::reduction);
  expect_found_plan("bert_large", &search::Dims::head);
  expect_found_plan("llama2_70b", &search::Dims::sequence);
  expect_found_plan("mixtral_8x7b", &search::Dims::expert);
  expect_found_plan("xdl", &search::Dims::model);
}

// --- Random plans -------------------------------------------------------------------------------

// Checks random plans of an image network. Rows and columns are cut too, so devices exchange halos.
void expect_random_image(int processes, std::uint64_t seed) {
  constexpr std::uint64_t kFew = 3;
  const auto machine = fmt::format("local:{}", processes);
  const machine::Digits digits(machine::load_machine(machine));
  std::mt19937_64 random(seed);
  const auto model = plan::random_image(processes, random, kType);
  SCOPED_TRACE(fmt::format("{} processes, seed {}\n{}", processes, seed, graph::to_text(model)));
  auto plan = make_plan(model, machine, {}, Optimizer::kSgd);
  plan.mapped = plan::parallelize(model, digits, plan::random_choices(model, digits, seed));
  // A plan may cut operators so that only their meaning can be evaluated; a note reports that.
  const auto ours = losses(plan, processes, "--notes no", kFew);
  const auto reference = reference_losses(
      model, Optimizer::kSgd, nullptr, false, [](double x) { return x; }, kRate, kFew);
  ASSERT_EQ(ours.size(), reference.size());
  for (std::size_t i = 0; i < ours.size(); ++i) {
    EXPECT_NEAR(ours[i], reference[i], 1e-9 * std::abs(reference[i])) << "step " << i;
  }
}

void expect_random_images(int processes, std::uint64_t seeds) {
  for (std::uint64_t seed = 0; seed < seeds && !testing::Test::HasFailure(); ++seed) {
    expect_random_image(processes, seed);
  }
}

TEST(TrainMatrix, RandomImages) { expect_random_images(2, 6); }
// The parts of weights have a single channel.
TEST(TrainMatrix, RandomImageOfSingleChannels) { expect_random_image(4, 5); }
TEST(TrainNightly, RandomImages) {
  expect_random_images(2, 60);
  expect_random_images(4, 30);
}

// --- fp32 ---------------------------------------------------------------------------------------

// Writes a directory with an array for each input, with samples in the order of `order`.
void write_samples(const Scratch& directory, const Graph& model,
                   const std::vector<std::size_t>& order) {
  for (auto id : model.ids()) {
    const auto& node = model.node(id);
    if (!graph::is_input(node)) continue;
    const auto values = graph::make_feed_values<double>(model, kSeed, 0)(id);
    const auto& sizes = node.type.shape.sizes;
    const auto width = static_cast<std::size_t>(sizes.count() / sizes[0]);
    std::vector<double> ordered;
    for (const auto sample : order) {
      const auto row = values.data.begin() + static_cast<std::ptrdiff_t>(sample * width);
      ordered.insert(ordered.end(), row, row + static_cast<std::ptrdiff_t>(width));
    }
    const bool whole = node.type.dtype == DType::kInt64 || node.type.dtype == DType::kInt32;
    if (whole) {
      write_array(directory, node.name, sizes,
                  std::vector<std::int64_t>(ordered.begin(), ordered.end()));
    } else {
      write_array(directory, node.name, sizes, ordered);
    }
  }
}

double part_off(const std::vector<double>& a, const std::vector<double>& b) {
  CHECK(a.size() == b.size());
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    worst = std::max(worst, std::abs(a[i] - b[i]) / std::abs(b[i]));
  }
  return worst;
}

// The batch is the whole data set, so another order of samples only changes the order of sums.
void expect_within_spread(const std::string& name, const std::vector<PlanKind>& of_kinds) {
  SCOPED_TRACE(name);
  const auto model = built_in(name, DType::kFp32);
  const auto steps = count_steps(name);
  const auto single = plan_by_name("dp", model, 1, Optimizer::kSgd, DType::kFp32);
  const std::vector<std::vector<std::size_t>> orders = {{0, 1, 2, 3, 4, 5, 6, 7},
                                                        {7, 6, 5, 4, 3, 2, 1, 0},
                                                        {3, 0, 7, 5, 1, 6, 2, 4},
                                                        {4, 5, 6, 7, 0, 1, 2, 3},
                                                        {1, 3, 5, 7, 0, 2, 4, 6}};
  std::vector<std::vector<double>> alone;
  for (const auto& order : orders) {
    const Scratch data("train_order");
    write_samples(data, model, order);
    alone.push_back(losses(single, 1, "--data " + data.file(""), steps));
  }
  double spread = 0;
  for (const auto& curve : alone) spread = std::max(spread, part_off(curve, alone[0]));
  const Scratch data("train_order");
  write_samples(data, model, orders[0]);
  for (const auto& kind : of_kinds) {
    SCOPED_TRACE(kind.strategy);
    const auto plan = plan_if_any(kind, model, DType::kFp32);
    if (!plan) continue;
    const auto off =
        part_off(losses(*plan, kind.processes, "--data " + data.file(""), steps), alone[0]);
    fmt::print("{} {}: {:.1e}, one process by the order of its sums {:.1e}\n", name, kind.strategy,
               off, spread);
    EXPECT_LE(off, 10 * spread);
  }
}

TEST(TrainMatrix, Fp32ErrorsAreThoseOfAnotherOrderOfSums) {
  expect_within_spread("mlp", {{"dp"}, {"megatron:tp=2"}});
}
TEST(TrainNightly, Fp32ErrorsAreThoseOfAnotherOrderOfSums) {
  for (const auto& name : list_trained_networks()) {
    if (count_steps(name) == 50) expect_within_spread(name, plan_kinds());
  }
}

}  // namespace
}  // namespace tandem::runtime
