// Operator sets: the parts from which the generator makes graphs. A set has tensors of given types,
// constants, and operators with their attributes. It is text (operator_set.cc, or a user's file)
// with one line for each part, so that a new operator needs only a line:
//
//   tensors [4, 4] 4                    four variables of that shape
//   indices [3] 2 below 5               two variables of integers below 5
//   constant n=4: (constant shape=[?n, ?n] kind="eye" value=1)
//   (conv2d ?x ?w padding=[1, 1]) if dim(?w, 2) == 3 and dim(?w, 3) == 3
//   (split ?x axis=0 parts=2), (split ?x axis=0 parts=2 part=1)
//
// An operator line is a pattern in the language of rules. It may have any number of nodes, and
// counts as one operator. Each of several outputs is an operation of its own. Two outputs of a line
// on the same operands count once in a graph.
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
  std::int64_t below = 0;  // exclusive bound of indices; 0 for others
};

// One output of a line.
struct GeneratorOperation {
  rewrite::Side pattern;  // its variables 0, 1, ... are the operands
  std::size_t arity = 0;  // 0: a constant
  std::size_t line = 0;   // operations of one line on the same operands are one operator
  std::vector<rewrite::Expression> conditions = {};  // on the operands' types
  // For a constant: the pattern with symbols for sizes, the symbols, and their sizes in `pattern`.
  rewrite::Side general = {};
  std::vector<std::string> symbols = {};
  std::vector<std::int64_t> sizes = {};
};

struct OperatorSet {
  std::vector<VariableGroup> variables;
  std::vector<GeneratorOperation> operations;  // constants first
};

// Returns the operator set of `text`. Throws UserError("rule") that names the line.
OperatorSet parse_operator_set(std::string_view text);

// Returns a built-in set. "taso": the operators of TASO's generator. "all", the default: these and
// the other operators of networks.
OperatorSet operator_set(std::string_view name);

}  // namespace tandem::generate
