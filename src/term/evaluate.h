// Evaluates a bound term over dense inputs, forward and backward, for any number type.
//
// The evaluator is slow and simple. Every sum and maximum becomes a table over its free factors.
// Everything between the tables is computed point by point. The backward pass pushes each point's
// adjoint down the same tree. Kernels, rules and plans are checked against this reference.
#pragma once

#include <span>
#include <vector>

#include "tensor/dense.h"
#include "term/bound_term.h"
#include "term/field.h"

namespace tandem::term {

// The range of a factor that one device works on: [offset, offset + local) of `global`.
struct FactorRange {
  std::int64_t local = 1;
  std::int64_t global = 1;
  std::int64_t offset = 0;
};

// Returns the full range of every factor of `map`.
std::vector<FactorRange> make_full_ranges(const IndexMap& map);

// A block of a tensor: [offset, offset + size) along every dimension.
struct Box {
  Shape offset;
  Shape size;
  bool operator==(const Box&) const = default;
};

// Returns the block of a tensor that a device working on `ranges` reads, clipped to the tensor. The
// block is the device's shard if the index is exact. Otherwise it is a window that may reach into
// other shards.
Box compute_box(const Dims& dims, std::span<const FactorRange> ranges);

// A block of an input tensor. Reads use global indices. A read outside the whole tensor returns
// zero; any other read must be in the block.
template <class T>
struct Operand {
  const Dense<T>* values = nullptr;
  Shape offset;
  Shape whole;

  Operand() = default;
  explicit Operand(const Dense<T>& all) : values(&all), offset(all.shape), whole(all.shape) {
    for (auto& o : offset) o = 0;
  }
  Operand(const Dense<T>& block, const Shape& at, const Shape& of)
      : values(&block), offset(at), whole(of) {}
};

// The values, besides the index, that determine random terms.
struct Draw {
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
};

template <class T>
class Evaluation {
 public:
  // `term` and the operands' values must outlive the evaluation.
  Evaluation(const BoundTerm& term, std::vector<FactorRange> ranges, std::vector<Operand<T>> inputs,
             Draw draw = {});

  // Returns the term's value at every local index of `output`.
  Dense<T> forward(const Dims& output);

  // Adds the gradient with respect to the block of input i to *grads[i], given the gradient of the
  // output. Skips inputs whose entry in `grads` is null.
  void backward(const Dims& output, const Dense<T>& output_gradient, std::vector<Dense<T>*> grads);

 private:
  // The values (or adjoints) of one sum or maximum at all its free indices.
  struct ReductionTable {
    std::vector<FactorId> factors;
    std::vector<T> values;
    std::vector<T> adjoints;
  };

  [[nodiscard]] std::int64_t global_index(FactorId f) const {
    return ranges_[f].offset + point_[f];
  }
  [[nodiscard]] std::size_t compute_table_position(const ReductionTable& table) const;
  // Returns the position in its input's block that `node` reads at the current point, or -1 if the
  // read is outside the tensor.
  [[nodiscard]] std::int64_t compute_read_position(const BoundNode& node) const;
  [[nodiscard]] bool is_retained(const BoundNode& node) const;
  [[nodiscard]] bool is_guarded_out(const BoundNode& node) const;
  T evaluate_at_point(std::uint32_t node) const;
  void push(std::uint32_t node, T adjoint);
  void fill_table(std::uint32_t node);
  void push_reduction(std::uint32_t node);
  void push_to_maximum(std::uint32_t node, T maximum, T adjoint);
  template <class Visit>
  void for_each_point(std::span<const FactorId> factors, Visit&& visit);

  const BoundTerm& term_;
  std::vector<FactorRange> ranges_;
  std::vector<Operand<T>> inputs_;
  Draw draw_;
  std::vector<Dense<T>*> grads_;
  std::vector<ReductionTable> tables_;  // indexed by node; empty except for sums and maxima
  std::vector<std::int64_t> point_;     // current local index of each factor
};

extern template class Evaluation<double>;
extern template class Evaluation<Field>;

}  // namespace tandem::term
