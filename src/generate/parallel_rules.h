// The parallel rules: equalities of partition, combine, replicate, reduce, unreplicate and join.
// With these, an equality implies all its legal sharded versions, because parallelization operators
// are the identity on meaning. Two sides are equal if both are legal, have one type, and are equal
// without these operators.
//
//   by operator and factor   (relu ?x) => (combine (relu (partition ?x dim=?i degree=?d)) ...)
//   by linear operands       (matmul (reduce ?x degree=?d) ?y)
//                                => (reduce (matmul ?x (replicate ?y degree=?d)) degree=?d)
//   with replicas, joins     (replicate (op ?x ?y)), (op (join ?x ?y) ...)
//   among themselves         cancellation, fusion, and the order of two
//
// Signatures (ops/signature.h) give the factors and operands. Degrees, attributes, and a dimension
// that is sharded on both sides are symbols. Such a rule may be too general: a softmax can be
// sharded along any dimension but one. Such a rule therefore also exists with the dimensions and
// attributes of the signatures.
#pragma once

#include <vector>

#include "generate/operator_set.h"
#include "rewrite/rule.h"

namespace tandem::generate {

struct ParallelRule {
  rewrite::Rule rule;
  std::vector<rewrite::Rule> literal;  // with dimensions and attributes of the operator set
};

// Returns the parallel rules of the operators in `set`.
std::vector<ParallelRule> make_parallel_rules(const OperatorSet& set);

}  // namespace tandem::generate
