#include "ops/task_grid.h"

#include <algorithm>

#include "base/divisor.h"
#include "ops/trial.h"

namespace tandem::ops {

namespace {

using term::Dims;

bool carries(const TaskGrid& grid, std::size_t input) {
  return ((grid.through_inputs >> input) & 1U) != 0;
}

// A mixed-radix number that is built digit by digit.
struct MixedRadix {
  std::int64_t value = 0;
  void append(std::int64_t digit, std::int64_t radix) { value = value * radix + digit; }
};

bool is_carrier(const Dims& dims, FactorId f) {
  return std::ranges::any_of(dims, [&](const term::Dim& dim) {
    return std::ranges::find(dim.carriers, f) != dim.carriers.end();
  });
}

// Visits the factors that a tensor lacks, contracted ones included.
template <class Visit>
void for_each_lacking(const Signature& s, const Dims& dims, Visit&& visit) {
  for (FactorId f = 0; f < s.map.factors.size(); ++f) {
    if (!is_carrier(dims, f)) visit(f);
  }
}

std::int64_t compute_degree(const TaskGrid& grid, const term::Dim& dim) {
  std::int64_t degree = 1;
  for (auto f : dim.carriers) degree *= grid.degrees[f];
  return degree;
}

ParallelShape compute_shape(const TaskGrid& grid, const Dims& dims) {
  ParallelShape out(term::to_shape(dims));
  for (std::size_t d = 0; d < dims.size(); ++d) out.degrees[d] = compute_degree(grid, dims[d]);
  return out;
}

Shape compute_coordinates(const TaskGrid& grid, const Dims& dims, const TaskPosition& at) {
  Shape out;
  for (const auto& dim : dims) {
    MixedRadix coordinate;
    for (auto f : dim.carriers) coordinate.append(at.factors[f], grid.degrees[f]);
    out.push_back(coordinate.value);
  }
  return out;
}

std::int64_t compute_lacking_degree(const Signature& s, const TaskGrid& grid, const Dims& dims) {
  std::int64_t n = 1;
  for_each_lacking(s, dims, [&](FactorId f) { n *= grid.degrees[f]; });
  return n;
}

std::string join_factor_names(const Signature& s, const term::Dim& dim) {
  std::vector<std::string> out;
  for (auto f : dim.carriers) out.push_back(s.map.factors[f].name);
  return join(out, " ");
}

// Infers the degree of every factor from the operands; operands that share a factor must agree.
class DegreeReader {
 public:
  DegreeReader(const Signature& s, TaskGrid& grid)
      : s_(s), degrees_(grid.degrees), seen_(s.map.factors.size()) {
    degrees_.assign(s.map.factors.size(), 0);
  }

  // Reads the degrees of all inputs. Returns false within a Trial if they do not fit.
  bool read(std::span<const ParallelShape> inputs) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      for (std::size_t d = 0; d < s_.map.inputs[i].size(); ++d) {
        if (!read_dim(s_.map.inputs[i][d], inputs[i].degrees[d], i, d)) return false;
      }
    }
    for (auto& degree : degrees_) {
      if (degree == 0) degree = 1;  // a factor that no operand carries
    }
    return check_factors() && check_output();
  }

 private:
  bool read_dim(const term::Dim& dim, std::int64_t degree, std::size_t input, std::size_t d) {
    auto left = degree;
    for (auto f : dim.carriers) {
      // A window's degree need not divide the factor here; check_factors checks it for all factors.
      const auto size = dim.exact ? s_.map.factors[f].size : left;
      const auto take = size % left == 0 ? left : size;
      if (left % take != 0) break;
      if (!set_or_check_degree(f, take, input)) return false;
      left /= take;
    }
    if (left == 1) return true;
    if (dim.carriers.empty()) {
      return report_misfit(
          [&] {
            return fmt::format("dim {} of input {} must not be sharded, but has degree {}", d,
                               input, degree);
          },
          "insert a combine before it");
    }
    return report_misfit(
        [&] {
          return fmt::format(
              "dim {} of input {} has degree {}, which does not fit its factors ({})", d, input,
              degree, join_factor_names(s_, dim));
        },
        "the degree must use up one factor before it divides the next");
  }

  bool set_or_check_degree(FactorId f, std::int64_t degree, std::size_t input) {
    if (degrees_[f] == 0) {
      degrees_[f] = degree;
      seen_[f] = input;
    } else if (degrees_[f] != degree) {
      return report_misfit([&] {
        return fmt::format("factor '{}' has degree {} in input {}, but {} in input {}",
                           s_.map.factors[f].name, degrees_[f], seen_[f], degree, input);
      });
    }
    return true;
  }

  [[nodiscard]] bool check_factors() const {
    double tasks = 1;
    for (FactorId f = 0; f < degrees_.size(); ++f) {
      const auto& factor = s_.map.factors[f];
      tasks *= static_cast<double>(degrees_[f]);
      if (tasks > 0x1p30) {
        return report_misfit(
            [] { return "the degrees of its factors need more than 2^30 devices"; });
      }
      if (degrees_[f] == 1) continue;
      if (s_.use[f] == FactorUse::kWhole) {
        return report_misfit(
            [&] {
              return fmt::format("factor '{}' must not be sharded, but has degree {}", factor.name,
                                 degrees_[f]);
            },
            "insert a combine before it");
      }
      if (factor.size % degrees_[f] != 0) {
        return report_misfit(
            [&] {
              return fmt::format("factor '{}' is {}, which degree {} does not divide", factor.name,
                                 factor.size, degrees_[f]);
            },
            Trial::is_on() ? "" : make_nearest_degree_hint(factor.size, degrees_[f]));
      }
    }
    return true;
  }

  // Checks that a minor factor is partitioned only if the factors before it are used up.
  [[nodiscard]] bool check_output() const {
    for (const auto& dim : s_.map.output) {
      for (std::size_t c = 1; c < dim.carriers.size(); ++c) {
        const auto before = dim.carriers[c - 1];
        const auto f = dim.carriers[c];
        const auto& major = s_.map.factors[before];
        if (degrees_[f] == 1 || degrees_[before] == major.size) continue;
        return report_misfit([&] {
          return fmt::format(
              "factor '{}' has degree {}, but '{}', which precedes it in the result, has only {} "
              "of {}",
              s_.map.factors[f].name, degrees_[f], major.name, degrees_[before], major.size);
        });
      }
    }
    return true;
  }

  const Signature& s_;
  std::vector<std::int64_t>& degrees_;
  std::vector<std::size_t> seen_;
};

// Sets the operands that are partial, and checks that the operator is jointly linear in them.
bool read_partials(const Signature& s, std::span<const ParallelShape> inputs, TaskGrid& grid) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto partial = inputs[i].partial;
    if (partial == 1) continue;
    if (inputs[i].monoid == Monoid::kMax) {
      return report_misfit(
          [&] {
            return fmt::format("a partial maximum (of {}) cannot pass through input {}", partial,
                               i);
          },
          "insert a reduce before it");
    }
    if (grid.through_inputs != 0 && grid.through != partial) {
      return report_misfit([&] {
        return fmt::format("{} partial sums in input {} conflict with {} in an earlier input",
                           partial, i, grid.through);
      });
    }
    grid.through = partial;
    grid.through_inputs |= InputMask{1} << i;
  }
  if (grid.through_inputs == 0) return true;
  if (std::ranges::find(s.partial_inputs, grid.through_inputs) == s.partial_inputs.end()) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!carries(grid, i)) continue;
      return report_misfit(
          [&] {
            return fmt::format("a partial sum (of {}) cannot pass through input {}", grid.through,
                               i);
          },
          "insert a reduce before it");
    }
  }
  return true;
}

// Sets the number of redundant replicas, on which all operands must agree.
bool read_replicas(const Signature& s, std::span<const ParallelShape> inputs, TaskGrid& grid) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto needed =
        compute_lacking_degree(s, grid, s.map.inputs[i]) * (carries(grid, i) ? 1 : grid.through);
    const auto has = inputs[i].replicas;
    const auto redundant = has / needed;
    if (has % needed != 0) {
      return report_misfit(
          [&] {
            return fmt::format("input {} has {} replicas, but needs a multiple of {}", i, has,
                               needed);
          },
          "replicate it over the factors that it lacks");
    }
    if (i > 0 && redundant != grid.replicas) {
      return report_misfit([&] {
        return fmt::format("input {} implies {} redundant replicas, but input 0 implies {}", i,
                           redundant, grid.replicas);
      });
    }
    grid.replicas = redundant;
  }
  return true;
}

// Sets `grid` from the operands. Returns false within a Trial if there is none.
bool read_grid(const Signature& s, std::span<const ParallelShape> inputs, TaskGrid& grid) {
  return DegreeReader(s, grid).read(inputs) && read_partials(s, inputs, grid) &&
         read_replicas(s, inputs, grid);
}

}  // namespace

std::int64_t TaskGrid::tasks() const {
  std::int64_t n = through * replicas;
  for (auto d : degrees) n *= d;
  return n;
}

ParallelShape compute_input_shape(const Signature& s, const TaskGrid& grid, std::size_t input) {
  const auto& dims = s.map.inputs[input];
  ParallelShape out = compute_shape(grid, dims);
  out.replicas = compute_lacking_degree(s, grid, dims) * grid.replicas;
  (carries(grid, input) ? out.partial : out.replicas) *= grid.through;
  return out;
}

ParallelShape compute_output_shape(const Signature& s, const TaskGrid& grid) {
  ParallelShape out = compute_shape(grid, s.map.output);
  out.partial = compute_lacking_degree(s, grid, s.map.output) * grid.through;
  out.replicas = grid.replicas;
  if (out.partial > 1) out.monoid = s.monoid;
  return out;
}

TaskGrid infer_grid(const Signature& s, std::span<const ParallelShape> inputs) {
  TaskGrid grid;
  CHECK(read_grid(s, inputs, grid));
  return grid;
}

std::optional<TaskGrid> try_infer_grid(const Signature& s, std::span<const ParallelShape> inputs) {
  const Trial trial;
  TaskGrid grid;
  return read_grid(s, inputs, grid) ? std::optional(std::move(grid)) : std::nullopt;
}

TaskPosition compute_position(const TaskGrid& grid, std::int64_t task) {
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

std::vector<term::FactorRange> compute_task_ranges(const Signature& s, const TaskGrid& grid,
                                                   const TaskPosition& at) {
  std::vector<term::FactorRange> out;
  for (std::size_t f = 0; f < grid.degrees.size(); ++f) {
    const auto size = s.map.factors[f].size;
    const auto local = size / grid.degrees[f];
    out.push_back({local, size, at.factors[f] * local});
  }
  return out;
}

ShardIndex find_input_shard(const Signature& s, const TaskGrid& grid, const TaskPosition& at,
                            std::size_t input) {
  const auto& dims = s.map.inputs[input];
  MixedRadix replica;
  for_each_lacking(s, dims, [&](FactorId f) { replica.append(at.factors[f], grid.degrees[f]); });
  if (!carries(grid, input)) replica.append(at.through, grid.through);
  replica.append(at.replica, grid.replicas);
  return {compute_coordinates(grid, dims, at), replica.value,
          carries(grid, input) ? at.through : 0};
}

ShardIndex find_output_shard(const Signature& s, const TaskGrid& grid, const TaskPosition& at) {
  MixedRadix partial;
  for_each_lacking(s, s.map.output,
                   [&](FactorId f) { partial.append(at.factors[f], grid.degrees[f]); });
  partial.append(at.through, grid.through);
  return {compute_coordinates(grid, s.map.output, at), at.replica, partial.value};
}

term::Box compute_shard_box(const ParallelShape& shape, const Shape& coordinates) {
  term::Box box{shape.shard_shape(), shape.shard_shape()};
  for (std::size_t d = 0; d < shape.rank(); ++d) box.offset[d] *= coordinates[d];
  return box;
}

}  // namespace tandem::ops
