// What an operator's index text and meaning say once its operands' sizes are known: the factors,
// which of them may be partitioned, and through which operands a partial sum passes.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "ops/op.h"
#include "term/bound_term.h"
#include "term/index_map.h"
#include "term/structure.h"

namespace tandem::ops {

using term::FactorId;
using term::IndexMap;
using term::InputMask;

enum class FactorUse : std::uint8_t {
  kWhole,     // every device needs all of it
  kParallel,  // partitions the output
  kWindowed,  // partitions the output; some operand is read in windows beyond the shard (a halo)
  kReducing,  // contracted: partitioning it leaves partial sums, or partial maxima
};

// The factors of a product of two operands, by where they stand: rows in the first operand and the
// output, columns in the second and the output, depth not in the output, batch in all three.
struct Contraction {
  std::size_t lhs = 0;
  std::size_t rhs = 0;
  term::FactorMask rows = 0;
  term::FactorMask columns = 0;
  term::FactorMask depth = 0;
  term::FactorMask batch = 0;
};

struct Signature {
  IndexMap map;
  term::BoundTerm meaning;
  std::vector<FactorUse> use;              // by factor
  std::vector<InputMask> partial_inputs;   // minimal sets that may be partial together
  Monoid monoid = Monoid::kSum;            // of what partitioning contracted factors leaves
  InputMask added_inputs = 0;              // operands to whose gradient the result's is handed on
  std::optional<Contraction> contraction;  // where the meaning counts the work
  bool elementwise = false;      // reads every operand at the result's own index, or broadcasts it
  InputMask backward_reads = 0;  // operands whose values the backward pass needs
  // The operand's gradient, of the result and the result's gradient: what is needed instead.
  std::optional<term::BoundTerm> gradient_from_result = {};
  Flops flops;  // of one forward evaluation
};

// Of a compute operator. Throws UserError (without a place) when the operands do not fit.
// Interned: made once for an operator and operand sizes, and kept. Thread-safe.
const Signature& signature(const Op& op, std::span<const Shape> inputs);

}  // namespace tandem::ops
