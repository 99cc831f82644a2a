// Support for tests of training: the reports of a plan's processes, and the losses of a reference
// that uses no tensors, kernels or plans.
#pragma once

#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "graph/sequential.h"
#include "models/model.h"
#include "models/small_models_test_support.h"
#include "runtime/worker_test_support.h"
#include "strategies/grid.h"

namespace tandem::runtime {

inline constexpr std::uint64_t kSteps = 20;
inline constexpr std::uint64_t kSeed = 3;
inline constexpr double kRate = 0.05;

// Returns the JSON document of a run without notes, or null if the run failed.
inline nlohmann::json train_plan(const plan::Plan& plan, int processes, std::uint64_t steps,
                                 const std::string& more = "") {
  const Scratch scratch;
  std::ofstream(scratch.file("plan.json")) << plan::to_json(plan);
  const auto run = start(scratch, processes,
                         fmt::format("--plan {} --steps {} --seed {} --lr {} {}",
                                     scratch.file("plan.json"), steps, kSeed, kRate, more),
                         kTuned);
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(run.err, "");
  auto json = nlohmann::json::parse(run.out, nullptr, false);
  if (!json.is_object()) {
    ADD_FAILURE() << "not JSON: " << run.out;
    return {};
  }
  EXPECT_EQ(json["devices"], processes);
  EXPECT_EQ(json["step_s"].size(), steps);
  EXPECT_EQ(json["peak_rss_bytes"].size(), static_cast<std::size_t>(processes));
  return json;
}

inline std::vector<double> losses(const plan::Plan& plan, int processes,
                                  const std::string& more = "", std::uint64_t steps = kSteps) {
  const auto json = train_plan(plan, processes, steps, more);
  return json.is_object() ? json["loss"].get<std::vector<double>>() : std::vector<double>();
}

// Returns the values of an input at a step, in place of those of graph::Feed.
using Inputs = std::function<Dense<double>(const graph::Node&, std::uint64_t step)>;

// Rounds a number to the type in which it is stored.
using Rounding = double (*)(double);

// Returns the losses of one process without tensors, kernels or plans. It uses the sequential
// interpreter's gradients and applies the optimizer element by element. `delayed` means W(t+1) =
// W(t) - the update by the gradient at W(t-1). `rounding` applies to inputs, and to weights when
// they are read; the weights that are updated are not rounded.
inline std::vector<double> reference_losses(
    const Graph& model, Optimizer optimizer, const Inputs& inputs = nullptr, bool delayed = false,
    Rounding rounding = [](double x) { return x; }, double rate = kRate,
    std::uint64_t steps = kSteps) {
  struct Moments {
    std::vector<double> velocity, mean, square;
  };
  std::map<graph::NodeId, Dense<double>> weights;
  std::map<graph::NodeId, Dense<double>> before;
  std::map<graph::NodeId, Moments> moments;
  std::vector<double> out;
  for (std::uint64_t step = 0; step < steps; ++step) {
    const auto fed = graph::make_feed_values<double>(model, kSeed, step);
    const auto exact = [&](graph::NodeId id) {
      if (inputs && graph::is_input(model.node(id))) return inputs(model.node(id), step);
      if (!graph::is_weight(model.node(id))) return fed(id);
      const auto& newest = weights.try_emplace(id, fed(id)).first->second;
      return delayed ? before.try_emplace(id, newest).first->second : newest;
    };
    const auto sources = [&](graph::NodeId id) {
      auto values = exact(id);
      for (auto& x : values.data) x = rounding(x);
      return values;
    };
    const auto values = graph::run_forward<double>(model, sources);
    const auto gradients =
        graph::run_backward(model, values, graph::make_loss_gradient<double>(model));
    out.push_back(values[model.outputs()[0].index()].data[0]);
    before = weights;
    for (auto& [id, weight] : weights) {
      const auto& g = gradients[id.index()].data;
      auto& [velocity, mean, square] = moments[id];
      velocity.resize(g.size());
      mean.resize(g.size());
      square.resize(g.size());
      for (std::size_t i = 0; i < g.size(); ++i) {
        velocity[i] = 0.9 * velocity[i] + g[i];
        mean[i] = 0.9 * mean[i] + 0.1 * g[i];
        square[i] = 0.999 * square[i] + 0.001 * g[i] * g[i];
        const double t = static_cast<double>(step + 1);
        const double m = mean[i] / (1 - std::pow(0.9, t));
        const double v = square[i] / (1 - std::pow(0.999, t));
        const double by_adam = m / (std::sqrt(v) + 1e-8);
        weight.data[i] -= rate * (optimizer == Optimizer::kSgd        ? g[i]
                                  : optimizer == Optimizer::kMomentum ? velocity[i]
                                                                      : by_adam);
      }
    }
  }
  return out;
}

inline void expect_losses(const std::vector<double>& together,
                          const std::vector<double>& reference) {
  ASSERT_EQ(together.size(), reference.size());
  EXPECT_GT(std::abs(reference[0] - reference.back()), 1e-3);
  double worst = 0;
  for (std::size_t i = 0; i < reference.size(); ++i) {
    worst = std::max(worst, std::abs(together[i] - reference[i]) / std::abs(reference[i]));
  }
  EXPECT_LE(worst, 1e-9);
  fmt::print("largest relative difference of a loss: {:.1e}\n", worst);
}

inline void expect_losses_of_plan(const Graph& model, const plan::Plan& plan, int processes) {
  expect_losses(losses(plan, processes), reference_losses(model, plan.optimizer));
}

inline void expect_reference_losses(const Graph& model, const Spread& spread, int processes = 2,
                                    Optimizer optimizer = Optimizer::kSgd) {
  const auto machine = fmt::format("local:{}", processes);
  expect_losses_of_plan(model, make_plan(model, machine, spread, optimizer), processes);
}

// Returns the plan of a strategy by its name, with the first of its settings.
inline plan::Plan plan_by_name(const std::string& strategy, const Graph& model, int processes,
                               Optimizer optimizer, DType dtype = DType::kFp64) {
  const auto machine = fmt::format("local:{}", processes);
  const auto loaded = machine::load_machine(machine);
  const auto made =
      strategies::make_named_strategies(strategy, model, machine::Digits(loaded)).front();
  auto plan = make_plan(model, machine, {}, optimizer, dtype);
  const machine::Digits digits(loaded, made.schedule.micro_batches);
  plan.mapped = plan::parallelize(model, digits, made.choices, made.schedule);
  return plan;
}

// Checks the losses of a strategy by its name, such as one with micro-batches, pipelines or
// recomputation.
inline void expect_reference_losses(const std::string& strategy, const Graph& model,
                                    int processes = 2, Optimizer optimizer = Optimizer::kSgd) {
  expect_losses_of_plan(model, plan_by_name(strategy, model, processes, optimizer), processes);
}

// Returns a small version of a built-in network. All of its operators have kernels of their own;
// otherwise the run would print a note.
inline Graph built_in(const std::string& model, DType type = DType::kFp64) {
  const auto& small = models::small_models().at(model);
  const std::string groups = small.others.contains("bn_group") ? ",bn_group=2" : "";
  return models::parse_model(fmt::format("{}:{}{}", model, small.settings, groups)).build(8, type);
}

// Returns how many steps to compare. Small convolutional networks that are normalized over two
// samples of few elements are chaotic. Differences of 1e-16 grow a hundredfold in every step, even
// in one process. Only their first steps count.
inline std::uint64_t count_steps(const std::string& model) {
  constexpr std::uint64_t kSteady = 50;
  constexpr std::uint64_t kChaotic = 3;
  return models::small_models().at(model).others.contains("bn_group") ? kChaotic : kSteady;
}

}  // namespace tandem::runtime
