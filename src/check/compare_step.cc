#include "check/compare_step.h"

#include <fmt/format.h>

#include <cmath>

#include "graph/sequential.h"
#include "lower/task_interpreter.h"

namespace tandem::check {

namespace {

using term::Field;

constexpr std::int64_t kLearningRate = 3;
// The third step is the first whose gradients belong to weights that are neither new nor initial.
constexpr std::int64_t kDelayedSteps = 3;

template <class T>
graph::StepValues<T> make_feed(const graph::Graph& graph) {
  return [&graph](graph::NodeId id, std::int64_t step) {
    return graph::make_feed_values<T>(graph, 0, static_cast<std::uint64_t>(step))(id);
  };
}

double compute_relative_error(const Dense<double>& actual, const Dense<double>& expected) {
  double largest = 0;
  double difference = 0;
  for (std::size_t i = 0; i < expected.data.size(); ++i) {
    largest = std::max(largest, std::abs(expected.data[i]));
    difference = std::max(difference, std::abs(actual.data[i] - expected.data[i]));
  }
  return largest == 0 ? difference : difference / largest;
}

// Calls visit(node, name of the value, actual, expected) for every tensor to compare. `actual` is
// null if the program lacks the tensor. Returns whether all replicas agree.
template <class T, class Visit>
bool for_each_result(const lower::Program& program, Visit&& visit) {
  const auto serial = graph::erase_parallelism(program.pcg);
  const T rate = term::Numbers<T>::from_index(kLearningRate);
  const auto steps = program.schedule.is_delayed() ? kDelayedSteps : 1;
  const auto expected =
      graph::train<T>(serial, make_feed<T>(serial), steps, rate, program.schedule.is_delayed());
  const auto step = lower::assemble_step_result(
      program, lower::run_steps<T>(program, make_feed<T>(program.pcg), steps, rate));
  const auto loss = serial.outputs()[0];
  visit(serial.node(loss).name, "the loss", &step.loss, expected.values[loss.index()]);
  for (auto id : serial.ids()) {
    const auto& node = serial.node(id);
    const auto& gradient = expected.gradients[id.index()];
    if (!is_trained(node) || gradient.data.empty()) continue;
    const auto find = [&](const auto& map) {
      const auto at = map.find(node.name);
      return at == map.end() ? nullptr : &at->second;
    };
    visit(node.name, "the gradient", find(step.gradients), gradient);
    visit(node.name, "the updated weight", find(step.weights), expected.weights[id.index()]);
  }
  return step.replicas_agree;
}

double compute_worst_error(const lower::Program& program) {
  double worst = 0;
  for_each_result<double>(program, [&](const std::string& /*node*/, const char* /*what*/,
                                       const auto* actual, const auto& expected) {
    const bool same_shape = actual != nullptr && actual->shape == expected.shape;
    worst = std::max(worst, same_shape ? compute_relative_error(*actual, expected) : 1);
  });
  return worst;
}

}  // namespace

StepComparison compare_step(const lower::Program& program) {
  StepComparison out;
  const bool replicas_agree = for_each_result<Field>(
      program,
      [&](const std::string& node, const char* what, const auto* actual, const auto& expected) {
        ++out.tensors;
        if (!out.agrees() || (actual != nullptr && *actual == expected)) return;
        out.where = node;
        out.message = fmt::format("{} {}", what,
                                  actual == nullptr ? "is not made" : "is not that of one device");
      });
  if (out.agrees() && !replicas_agree) {
    out.where = program.pcg.node(program.pcg.outputs()[0]).name;
    out.message = "copies of the loss, a gradient or a weight differ";
  }
  if (!out.agrees()) out.worst_error = compute_worst_error(program);
  return out;
}

}  // namespace tandem::check
