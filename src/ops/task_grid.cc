#include "ops/task_grid.h"

#include <algorithm>

namespace tandem::ops {

namespace {

[[noreturn]] void illegal(std::string message, std::string hint = "") {
  throw UserError("graph", "", std::move(message), std::move(hint));
}

bool carries(const TaskGrid& grid, std::size_t input) {
  return ((grid.through_inputs >> input) & 1U) != 0;
}

// Builds a mixed-radix number digit by digit.
struct MixedRadix {
  std::int64_t value = 0;
  void append(std::int64_t digit, std::int64_t radix) { value = value * radix + digit; }
};

// The factors that a tensor lacks, contracted ones included.
template <class Visit>
void for_each_lacking(const Signature& s, const std::vector<FactorId>& dims, Visit&& visit) {
  for (FactorId f = 0; f < s.map.factors.size(); ++f) {
    if (std::ranges::find(dims, f) == dims.end()) visit(f);
  }
}

ParallelShape shape_of(const Signature& s, const TaskGrid& grid,
                       const std::vector<FactorId>& dims) {
  ParallelShape out(s.map.shape_of(dims));
  for (std::size_t d = 0; d < dims.size(); ++d) out.degrees[d] = grid.degrees[dims[d]];
  return out;
}

Shape coordinates(const std::vector<FactorId>& dims, const TaskPosition& at) {
  Shape out;
  for (auto f : dims) out.push_back(at.factors[f]);
  return out;
}

std::int64_t lacking_degree(const Signature& s, const TaskGrid& grid,
                            const std::vector<FactorId>& dims) {
  std::int64_t n = 1;
  for_each_lacking(s, dims, [&](FactorId f) { n *= grid.degrees[f]; });
  return n;
}

// Reads the degree of every factor off the operands; operands that share one must agree.
void read_degrees(const Signature& s, std::span<const ParallelShape> inputs, TaskGrid& grid) {
  grid.degrees.assign(s.map.factors.size(), 0);
  std::vector<std::size_t> seen(s.map.factors.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    for (std::size_t d = 0; d < s.map.inputs[i].size(); ++d) {
      const auto f = s.map.inputs[i][d];
      const auto degree = inputs[i].degrees[d];
      if (grid.degrees[f] == 0) {
        grid.degrees[f] = degree;
        seen[f] = i;
      } else if (grid.degrees[f] != degree) {
        illegal(fmt::format("factor '{}' has degree {} in input {} and {} in input {}",
                            s.map.factors[f].name, grid.degrees[f], seen[f], degree, i));
      }
    }
  }
  double tasks = 1;
  for (FactorId f = 0; f < grid.degrees.size(); ++f) {
    if (grid.degrees[f] == 0) grid.degrees[f] = 1;  // made by the operator itself (concat's axis)
    tasks *= static_cast<double>(grid.degrees[f]);
    if (tasks > 0x1p30) illegal("the degrees of its factors need more than 2^30 devices");
    if (grid.degrees[f] != 1 && s.use[f] == FactorUse::kWhole) {
      illegal(fmt::format("factor '{}' must be whole and has degree {}", s.map.factors[f].name,
                          grid.degrees[f]),
              "combine it first");
    }
  }
}

// Which operands are partial, and whether the operator is linear in them together.
void read_partials(const Signature& s, std::span<const ParallelShape> inputs, TaskGrid& grid) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto partial = inputs[i].partial;
    if (partial == 1) continue;
    if (grid.through_inputs != 0 && grid.through != partial) {
      illegal(fmt::format("{} partial sums in input {} meet {} in an earlier input", partial, i,
                          grid.through));
    }
    grid.through = partial;
    grid.through_inputs |= InputMask{1} << i;
  }
  if (grid.through_inputs == 0) return;
  if (std::ranges::find(s.partial_inputs, grid.through_inputs) == s.partial_inputs.end()) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!carries(grid, i)) continue;
      illegal(fmt::format("a partial sum (of {}) cannot pass through input {}", grid.through, i),
              "reduce it first");
    }
  }
}

void read_replicas(const Signature& s, std::span<const ParallelShape> inputs, TaskGrid& grid) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto needed =
        lacking_degree(s, grid, s.map.inputs[i]) * (carries(grid, i) ? 1 : grid.through);
    const auto has = inputs[i].replicas;
    const auto redundant = has / needed;
    if (has % needed != 0) {
      illegal(fmt::format("input {} has {} replicas and needs a multiple of {}", i, has, needed),
              "the factors it lacks are partitioned");
    }
    if (i > 0 && redundant != grid.replicas) {
      illegal(fmt::format("input {} means {} redundant replicas and input 0 means {}", i, redundant,
                          grid.replicas));
    }
    grid.replicas = redundant;
  }
}

}  // namespace

std::int64_t TaskGrid::tasks() const {
  std::int64_t n = through * replicas;
  for (auto d : degrees) n *= d;
  return n;
}

ParallelShape input_shape(const Signature& s, const TaskGrid& grid, std::size_t input) {
  const auto& dims = s.map.inputs[input];
  ParallelShape out = shape_of(s, grid, dims);
  out.replicas = lacking_degree(s, grid, dims) * grid.replicas;
  (carries(grid, input) ? out.partial : out.replicas) *= grid.through;
  return out;
}

ParallelShape output_shape(const Signature& s, const TaskGrid& grid) {
  ParallelShape out = shape_of(s, grid, s.map.outputs[0]);
  out.partial = lacking_degree(s, grid, s.map.outputs[0]) * grid.through;
  out.replicas = grid.replicas;
  return out;
}

TaskGrid infer_grid(const Signature& s, std::span<const ParallelShape> inputs) {
  TaskGrid grid;
  read_degrees(s, inputs, grid);
  read_partials(s, inputs, grid);
  read_replicas(s, inputs, grid);
  return grid;
}

TaskPosition position_of(const TaskGrid& grid, std::int64_t task) {
  TaskPosition at;
  at.replica = task % grid.replicas;
  task /= grid.replicas;
  at.through = task % grid.through;
  task /= grid.through;
  at.factors.resize(grid.degrees.size());
  for (std::size_t f = grid.degrees.size(); f-- > 0;) {
    at.factors[f] = task % grid.degrees[f];
    task /= grid.degrees[f];
  }
  return at;
}

ShardIndex input_shard(const Signature& s, const TaskGrid& grid, const TaskPosition& at,
                       std::size_t input) {
  const auto& dims = s.map.inputs[input];
  MixedRadix replica;
  for_each_lacking(s, dims, [&](FactorId f) { replica.append(at.factors[f], grid.degrees[f]); });
  if (!carries(grid, input)) replica.append(at.through, grid.through);
  replica.append(at.replica, grid.replicas);
  return {coordinates(dims, at), replica.value, carries(grid, input) ? at.through : 0};
}

ShardIndex output_shard(const Signature& s, const TaskGrid& grid, const TaskPosition& at) {
  MixedRadix partial;
  for_each_lacking(s, s.map.outputs[0],
                   [&](FactorId f) { partial.append(at.factors[f], grid.degrees[f]); });
  partial.append(at.through, grid.through);
  return {coordinates(s.map.outputs[0], at), at.replica, partial.value};
}

}  // namespace tandem::ops
