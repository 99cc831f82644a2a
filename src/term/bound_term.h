// A term bound to an index map, in the form that evaluators walk. Names are replaced by factor
// numbers. The tree becomes a flat array with children before parents, and shared subterms are
// stored once.
#pragma once

#include <cstdint>
#include <vector>

#include "term/index_map.h"
#include "term/term.h"

namespace tandem::term {

using FactorMask = std::uint64_t;
constexpr FactorMask bit(FactorId f) { return FactorMask{1} << f; }

struct BoundNode {
  Kind kind = Kind::kConstant;
  Function function = Function::kRelu;
  bool has_gradient = false;        // kMax
  bool has_guard = false;           // kMax: child b
  double constant = 0;              // kConstant, kKeep
  std::size_t input = 0;            // kInput, kInside
  std::int64_t origin = 0;          // kKeep
  std::vector<Affine> at = {};      // kInput, kInside: the index along each dimension
  std::vector<FactorId> dims = {};  // kIndex: the factor; kKeep: the factors of the global index
  std::uint32_t a = 0, b = 0;       // children, as positions in BoundTerm::nodes
  FactorMask over = 0;  // kSum, kMax: the reduced factors; kExtent: the measured factors
  FactorMask free = 0;  // factors that the value depends on

  // Returns whether the node has child `a`, or child `b`.
  [[nodiscard]] bool has_a() const { return kind >= Kind::kAdd; }
  [[nodiscard]] bool has_b() const {
    return (kind >= Kind::kAdd && kind <= Kind::kLess) || (kind == Kind::kMax && has_guard);
  }
};

struct BoundTerm {
  std::vector<BoundNode> nodes;  // children before parents; the root is last
};

// Binds `term` to the factors and input dimensions of `map`.
BoundTerm bind(const Term& term, const IndexMap& map);

}  // namespace tandem::term
