// The parallel rules: what may be done with partition, combine, replicate, reduce, unreplicate and
// join. All legal typings of an equality follow from these and the equality itself, because the
// parallelization operators are the identity on meaning: what is legal on both sides, of one type,
// and equal when they are erased is equal.
//
//   by operator and factor   (relu ?x) => (combine (relu (partition ?x dim=?i degree=?d)) ...)
//   by what it is linear in  (matmul (reduce ?x degree=?d) ?y)
//                                => (reduce (matmul ?x (replicate ?y degree=?d)) degree=?d)
//   with replicas, joins     (replicate (op ?x ?y)), (op (join ?x ?y) ...)
//   among themselves         cancellation, fusion, and the order of two
//
// Which factors and operands is read from signatures (ops/signature.h). Degrees are symbols, and so
// are attributes and a dimension that is cut on both sides. That may be too much to say: of a
// softmax any dimension but one can be cut. Then the same is true of the dimensions and attributes
// that the signatures were read for.
#pragma once

#include <vector>

#include "generate/operators.h"
#include "rewrite/rule.h"

namespace tandem::generate {

struct ParallelRule {
  rewrite::Rule rule;
  std::vector<rewrite::Rule> literal;  // with dimensions and attributes of the operator set
};

std::vector<ParallelRule> parallel_rules(const OperatorSet& set);

}  // namespace tandem::generate
