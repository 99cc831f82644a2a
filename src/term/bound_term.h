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
  FactorId factor = 0;            // kIndex
  double constant = 0;            // kConstant
  std::size_t input = 0;          // kInput
  std::vector<FactorId> at = {};  // kInput: the factor of each dimension
  std::size_t shifted = 0;        // kInput: the dimension whose index is lowered
  std::int64_t shift = 0;         // kInput: by how much
  std::uint32_t a = 0, b = 0;     // children
  FactorMask over = 0;            // kSum, kMax: the factors bound here; kExtent: those measured
  FactorMask free = 0;            // factors the value depends on
};

struct BoundTerm {
  std::vector<BoundNode> nodes;  // the root is last
};

BoundTerm bind(const Term& term, const IndexMap& map);

}  // namespace tandem::term
