// What the generator makes graphs of: tensors of given types, constants, and operators with their
// attributes. All of it is text (operators.cc, or a user's file), a line each, so that a new
// operator joins by a line:
//
//   tensors [4, 4] 4                    four variables of that shape
//   indices [3] 2 below 5               two of whole numbers under 5
//   constant n=4: (constant shape=[?n, ?n] kind="eye" value=1)
//   (conv2d ?x ?w padding=[1, 1]) if dim(?w, 2) == 3 and dim(?w, 3) == 3
//   (split ?x axis=0 parts=2), (split ?x axis=0 parts=2 part=1)
//
// A line of operators is a pattern in the language of rules, of any number of nodes, and counts as
// one operator. With several outputs each of them is an operation of its own; where a graph has two
// of them on one operand they are counted once.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "rewrite/rule.h"
#include "tensor/tensor_type.h"

namespace tandem::generate {

struct VariableGroup {
  TensorType type;
  std::size_t count = 1;
  std::int64_t below = 0;  // of indices
};

// One output of a line.
struct Operation {
  rewrite::Side pattern;  // one output; operands are its variables 0, 1, ...
  std::size_t arity = 0;  // 0: a constant
  std::size_t line = 0;   // operations of one line on the same operands are one operator
  std::vector<rewrite::Expression> conditions = {};  // on the operands' types
  // Of a constant: the pattern with symbols for sizes, and which sizes they stand for above.
  rewrite::Side general = {};
  std::vector<std::string> symbols = {};
  std::vector<std::int64_t> sizes = {};
};

struct OperatorSet {
  std::vector<VariableGroup> variables;
  std::vector<Operation> operations;  // constants first
};

// Throws UserError("rule") naming the line.
OperatorSet parse_operator_set(std::string_view text);

// "taso": that generator's operators. "all": these and the rest of a network's, the default.
OperatorSet operator_set(std::string_view name);

}  // namespace tandem::generate
