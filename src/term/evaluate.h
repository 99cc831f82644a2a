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

// A block of a tensor: [offset, offset + size) along every dimension.
struct Box {
  Shape offset;
  Shape size;
  bool operator==(const Box&) const = default;
};

// What a device that works on `ranges` reads of a tensor, clipped to it: its shard where the index
// is exact, a window that may reach into other shards where it is not.
Box box_of(const Dims& dims, std::span<const FactorRange> ranges);

// A block of an input. Reads are at global indices: beyond the whole tensor they are zero, inside
// it they must be in the block.
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

// What random terms depend on beside the index.
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

  // The term at every local index of the output.
  Dense<T> forward(const Dims& output);

  // Adds to *grads[i] the gradient with respect to the block of input i, given that of the output;
  // a null entry is not wanted.
  void backward(const Dims& output, const Dense<T>& output_gradient, std::vector<Dense<T>*> grads);

 private:
  // The values (or adjoints) of one sum or maximum at all its free indices.
  struct Table {
    std::vector<FactorId> factors;
    std::vector<T> values;
    std::vector<T> adjoints;
  };

  [[nodiscard]] std::int64_t global_index(FactorId f) const {
    return ranges_[f].offset + point_[f];
  }
  [[nodiscard]] std::size_t position(const Table& table) const;
  // The place in its block that a read at the current point means, or -1 outside the tensor.
  [[nodiscard]] std::int64_t read_position(const BoundNode& node) const;
  [[nodiscard]] bool is_kept(const BoundNode& node) const;
  [[nodiscard]] bool is_guarded_out(const BoundNode& node) const;
  T at_point(std::uint32_t node) const;
  void push(std::uint32_t node, T adjoint);
  void fill(std::uint32_t node);
  void push_reduction(std::uint32_t node);
  void push_to_maximum(std::uint32_t node, T maximum, T adjoint);
  template <class Visit>
  void for_each_point(std::span<const FactorId> factors, Visit&& visit);

  const BoundTerm& term_;
  std::vector<FactorRange> ranges_;
  std::vector<Operand<T>> inputs_;
  Draw draw_;
  std::vector<Dense<T>*> grads_;
  std::vector<Table> tables_;        // by node; empty but for sums and maxima
  std::vector<std::int64_t> point_;  // the current local index of each factor
};

extern template class Evaluation<double>;
extern template class Evaluation<Field>;

}  // namespace tandem::term
