// The properties of an operator that follow from its index text and meaning once its operands'
// sizes are known. A signature says what the factors are, which of them may be partitioned, and
// through which operands a partial sum passes.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "ops/op.h"
#include "term/bound_term.h"
#include "term/index_map.h"
#include "term/term_analysis.h"

namespace tandem::ops {

using term::FactorId;
using term::IndexMap;
using term::InputMask;

// Ways in which a factor may be partitioned.
enum class FactorUse : std::uint8_t {
  kWhole,     // not partitioned; every device needs all of it
  kParallel,  // partitions the output
  kWindowed,  // partitions the output; devices read windows beyond their shards (halos)
  kReducing,  // contracted: partitioning it leaves partial sums, or partial maxima
};

// The factors of a matmul of two operands, by the tensors that contain them. `rows` are in the
// first operand and the output, `columns` in the second and the output. `depth` factors are not in
// the output, and `batch` factors are in all three.
struct Contraction {
  std::size_t lhs = 0;
  std::size_t rhs = 0;
  term::FactorMask rows = 0;
  term::FactorMask columns = 0;
  term::FactorMask depth = 0;
  term::FactorMask batch = 0;
};

// The properties of one operator for given operand sizes.
struct Signature {
  IndexMap map;
  term::BoundTerm meaning;
  std::vector<FactorUse> use;             // by factor
  std::vector<InputMask> partial_inputs;  // minimal sets of inputs that may be partial together
  Monoid monoid = Monoid::kSum;  // how to combine the parts of a partitioned contracted factor
  InputMask added_inputs = 0;    // operands whose gradient is the result's gradient, passed on
  std::optional<Contraction> contraction;  // only if the work is counted from the meaning
  // Whether the operator reads every operand at the result's own index, or broadcasts it.
  bool elementwise = false;
  InputMask backward_reads = 0;  // operands whose values the backward pass needs
  // Gradient of the operand, computed from the result and the result's gradient instead.
  std::optional<term::BoundTerm> gradient_from_result = {};
  Flops flops;  // work of one forward evaluation
};

// Returns the signature of the compute operator `op` for operands of these sizes. Throws UserError
// without a location if the operands do not fit. The signature is computed once for each operator
// and operand sizes, and cached. Thread-safe.
const Signature& get_signature(const Op& op, std::span<const Shape> inputs);

}  // namespace tandem::ops
