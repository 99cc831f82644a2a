// A term bound to an index map: names became factor numbers, the tree became a flat array with
// children before parents and shared subterms stored once. Evaluators walk this.
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
  std::vector<Affine> at = {};      // kInput, kInside: the index of each dimension
  std::vector<FactorId> dims = {};  // kIndex: the factor; kKeep: those of the global index
  std::uint32_t a = 0, b = 0;       // children
  FactorMask over = 0;              // kSum, kMax: the factors bound here; kExtent: those measured
  FactorMask free = 0;              // factors the value depends on

  // Whether the node has children a, and b.
  [[nodiscard]] bool has_a() const { return kind >= Kind::kAdd; }
  [[nodiscard]] bool has_b() const {
    return (kind >= Kind::kAdd && kind <= Kind::kLess) || (kind == Kind::kMax && has_guard);
  }
};

struct BoundTerm {
  std::vector<BoundNode> nodes;  // the root is last
};

BoundTerm bind(const Term& term, const IndexMap& map);

}  // namespace tandem::term
