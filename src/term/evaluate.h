// Evaluates a bound term over dense inputs, forward and backward, for any number type.
//
// Slow and obvious: every sum and maximum is a table over its free factors, everything between them
// is computed point by point, and the backward pass pushes each point's adjoint down the same
// tree. This is the reference that kernels, rules and plans are held against.
#pragma once

#include <span>
#include <vector>

#include "tensor/dense.h"
#include "term/bound_term.h"
#include "term/field.h"

namespace tandem::term {

// The part of a factor that one device works on: [offset, offset + local) of `global`.
struct FactorRange {
  std::int64_t local = 1;
  std::int64_t global = 1;
  std::int64_t offset = 0;
};

// The whole of every factor.
std::vector<FactorRange> whole_ranges(const IndexMap& map);

template <class T>
class Evaluation {
 public:
  // `inputs` and `term` must outlive the evaluation. Inputs hold the local shards.
  Evaluation(const BoundTerm& term, std::vector<FactorRange> ranges,
             std::vector<const Dense<T>*> inputs);

  // The term at every local index of `dims`.
  Dense<T> forward(std::span<const FactorId> dims);

  // Adds to *grads[i] the gradient with respect to input i, given that of the output;
  // a null entry is not wanted.
  void backward(std::span<const FactorId> dims, const Dense<T>& output_gradient,
                std::vector<Dense<T>*> grads);

 private:
  // The values (or adjoints) of one sum or maximum at all its free indices.
  struct Table {
    std::vector<FactorId> dims;
    Shape shape;
    std::vector<T> values;
    std::vector<T> adjoints;
  };

  [[nodiscard]] Shape local_shape(std::span<const FactorId> dims) const;
  [[nodiscard]] std::size_t position(const Table& table) const;
  // The place input node `node` reads at the current point, or -1 outside.
  [[nodiscard]] std::int64_t read_position(const BoundNode& node) const;
  T at_point(std::uint32_t node) const;
  void push(std::uint32_t node, T adjoint);
  void fill(std::uint32_t node);
  void push_reduction(std::uint32_t node);
  template <class Visit>
  void for_each_point(std::span<const FactorId> dims, Visit&& visit);

  const BoundTerm& term_;
  std::vector<FactorRange> ranges_;
  std::vector<const Dense<T>*> inputs_;
  std::vector<Dense<T>*> grads_;
  std::vector<Table> tables_;        // by node; empty but for sums and maxima
  std::vector<std::int64_t> point_;  // the current local index of each factor
};

extern template class Evaluation<double>;
extern template class Evaluation<Field>;

}  // namespace tandem::term
