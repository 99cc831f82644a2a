// How the sizes of one operator's operands may change together, and how its result changes with
// them, found by trying. See instances.h.
#pragma once

#include <span>
#include <vector>

#include "verify/null_space.h"
#include "verify/typed_side.h"

namespace tandem::verify {

struct OperatorMoves {
  std::vector<Vector> inputs;  // by move: the change of every size, operand after operand
  std::vector<Vector> output;  // by move: that of the result's sizes
};

// A move must hold far away, too: a size of 1 may become 2 where that is what the other is.
inline constexpr std::int64_t kFar = 840;  // a multiple of all small degrees

// Of an operator that fits these operands. Remembered, per thread.
const OperatorMoves& operator_moves(const ops::Op& op, std::span<const TypeTable::TypeId> inputs);

// Of a pattern node whose attributes are computed of tensors' sizes, as in shape=[dim(?x, 0), -1]:
// those tensors count as operands behind its own.
struct SizedOperator {
  const rewrite::PatternNode* node = nullptr;
  const Instance* instance = nullptr;
  std::vector<std::uint16_t> measured;  // the tensor variables
};
// Measures nothing where the attributes do not.
SizedOperator sized_operator(const rewrite::PatternNode& node, const Instance& instance);
OperatorMoves operator_moves(const SizedOperator& op, std::span<const TypeTable::TypeId> inputs);

}  // namespace tandem::verify
