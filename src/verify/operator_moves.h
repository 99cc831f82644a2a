// Finds by trying how the sizes of one operator's operands may change together, and how its result
// changes with them. See instances.h.
//
// Example: matmul of [2, 2] and [2, 2] has three moves.
//   inputs  1 0 0 0   0 1 1 0   0 0 0 1
//   output  1 0       0 0       0 1
#pragma once

#include <span>
#include <vector>

#include "verify/null_space.h"
#include "verify/typed_side.h"

namespace tandem::verify {

struct OperatorMoves {
  std::vector<Vector> inputs;  // by move: change of every size, operand after operand
  std::vector<Vector> output;  // by move: change of the result's sizes
};

// A move must also hold far away: a size of 1 may become 2 only because another size is 2.
inline constexpr std::int64_t kFar = 840;  // a multiple of all small degrees

// Returns the moves of an operator that fits these operands. Cached per thread.
const OperatorMoves& operator_moves(const ops::Op& op, std::span<const TypeTable::TypeId> inputs);

// A pattern node whose attributes depend on tensors' sizes, as in shape=[dim(?x, 0), -1]. These
// tensors count as further operands after its own.
struct SizedOperator {
  const rewrite::PatternNode* node = nullptr;
  const Instance* instance = nullptr;
  std::vector<std::uint16_t> measured;  // tensor variables whose sizes are read
};
// Returns the node with its measured tensors; there are none if its attributes read no sizes.
SizedOperator make_sized_operator(const rewrite::PatternNode& node, const Instance& instance);
OperatorMoves operator_moves(const SizedOperator& op, std::span<const TypeTable::TypeId> inputs);

}  // namespace tandem::verify
