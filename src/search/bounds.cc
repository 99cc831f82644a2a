#include "search/bounds.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "base/check.h"
#include "machine/submachine.h"
#include "predict/cost_model.h"
#include "predict/kernels.h"
#include "search/pool.h"
#include "strategies/problem.h"

namespace tandem::search {

namespace {

// Allows for the rounding of floating point sums in another order.
constexpr double kRounding = 1 - 1e-6;

bool should_check_bounds() {
  static const bool out = std::getenv("TANDEM_CHECK_BOUNDS") != nullptr;
  return out;
}

// One device of one kind, and the number of devices of that kind.
struct DeviceKind {
  machine::Machine device;
  double count;
};

std::vector<DeviceKind> list_device_kinds(const machine::Machine& machine) {
  std::vector<DeviceKind> out;
  for (auto& device : machine::split_by_device_kind(machine)) {
    const bool is_mixed = !machine.groups.empty();
    const auto devices =
        is_mixed ? machine.groups[out.size()].units * machine.devices_below(0) : machine.devices();
    for (auto& level : device.levels) level.count = 1;
    out.push_back({std::move(device), static_cast<double>(devices)});
  }
  return out;
}

// Returns forward and backward compute times, by operator.
std::vector<double> compute_times(const graph::Graph& graph, const machine::Machine& device,
                                  const Options& options) {
  const machine::Digits digits(device);
  const strategies::Problem problem(graph, digits);
  const predict::CostModel costs(device, digits, options.optimizer, options.precision);
  const auto roles = predict::find_kernel_roles(graph, device.device.software);
  const auto has_gradient = graph::mark_gradient_nodes(graph);
  std::vector<double> out;
  for (auto id : graph.ids()) {
    const auto& node = graph.node(id);
    if (node.op.role() != ops::Role::kCompute) continue;
    std::vector<TensorType> types;
    ops::InputMask differentiated = 0;
    const auto inputs = graph.inputs(id);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      types.push_back(graph.node(inputs[i]).type);
      if (has_gradient[inputs[i].index()]) differentiated |= ops::InputMask{1} << i;
    }
    const auto& signature = problem.nodes[id.index()].signature;
    out.push_back(costs
                      .operator_cost(node.op, signature, types, node.type, {}, differentiated,
                                     get_role(roles, id))
                      .compute.value);
  }
  return out;
}

}  // namespace

std::optional<Bound> find_largest_bound(const std::vector<Bound>& bounds, Seconds fastest) {
  std::optional<Bound> out;
  for (auto bound : bounds) {
    if (bound.has_plan) bound.time = std::min(bound.time, fastest);
    if (kRounding * bound.time > fastest) continue;
    if (!out || bound.time > out->time) out = bound;
  }
  return out;
}

// Counts a kind of device by its speed: if all operators take at least `s` times as long as on the
// fastest kind, a device counts as 1 / s.
Seconds bound_compute_time(const graph::Graph& graph, const machine::Machine& machine,
                           const Options& options) {
  const auto kinds = list_device_kinds(machine);
  std::vector<std::vector<double>> times;
  times.reserve(kinds.size());
  for (const auto& kind : kinds) times.push_back(compute_times(graph, kind.device, options));
  auto fastest = times[0];
  for (const auto& own : times) {
    for (std::size_t i = 0; i < own.size(); ++i) fastest[i] = std::min(fastest[i], own[i]);
  }
  double all = 0;
  for (auto time : fastest) all += time;
  double devices = 0;
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    double slower = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < fastest.size(); ++i) {
      if (fastest[i] > 0) slower = std::min(slower, times[k][i] / fastest[i]);
    }
    devices += kinds[k].count / (all > 0 ? slower : 1);
  }
  return Seconds{all / devices};
}

void record_largest_bound(CandidatePool& pool, std::vector<Bound> bounds) {
  auto& result = pool.result();
  if (!result.best) return;
  const auto& machine = pool.machine();
  auto compute = bound_compute_time(pool.model(), machine, pool.options());
  auto rewritten = pool.used_rewrites();
  if (const auto& best = result.best->rewritten) rewritten.push_back(best);
  for (const auto& made : rewritten) {
    compute = std::min(compute, bound_compute_time(made->graph, machine, pool.options()));
  }
  check_bound(std::min(pool.least_time(), result.fastest), compute, "the fastest candidate");
  bounds.push_back({compute, "all candidates (compute only)"});
  const auto largest = find_largest_bound(bounds, result.fastest);
  if (!largest) return;
  result.lower_bound = largest->time;
  result.bound_scope = largest->scope;
}

void check_bound(Seconds time, Seconds bound, const std::string& of) {
  if (should_check_bounds()) CHECK(time >= kRounding * bound, of, time.value, bound.value);
}

void check_bound(Bytes memory, Bytes bound, const std::string& of) {
  if (should_check_bounds()) CHECK(memory >= kRounding * bound, of, memory.value, bound.value);
}

}  // namespace tandem::search
