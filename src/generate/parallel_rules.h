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
// Which factors and operands is read from signatures (ops/signature.h). Degrees are symbols.
#pragma once

#include <vector>

#include "generate/operators.h"
#include "rewrite/rule.h"

namespace tandem::generate {

std::vector<rewrite::Rule> parallel_rules(const OperatorSet& set);

}  // namespace tandem::generate
