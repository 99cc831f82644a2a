// Support for tests of the engine: sound rules of every form, and random rewrites.
#pragma once

#include <random>
#include <vector>

#include "rewrite/matches.h"
#include "rewrite/rule_text.h"

namespace tandem::rewrite {

inline std::vector<Rule> example_rules() {
  return parse_rules(R"(
add-commutes: (add ?x ?y) => (add ?y ?x)
add-associates: (add ?x (add ?y ?z)) <=> (add (add ?x ?y) ?z) if same_shape(?x, ?y) and same_shape(?y, ?z)
relu-twice: (relu (relu ?x)) => (relu ?x)
relu-beside-concat: (relu ?x), (concat ?x ?y axis=?a) => (relu (identity ?x)),
    (concat (identity ?x) ?y axis=?a)
two-signs: (relu ?x) => (scale (scale (relu ?x) factor=-1) factor=-1)
both-sums: (add ?x ?y), (add ?x ?z) => (sub ?t (sub ?z ?y)), ?t where ?t = (add ?x ?z)
    if same_shape(?y, ?z)
drop-identity: (identity ?x) => ?x
fuse-linear-relu: (relu (linear ?x ?w)) <=> (linear ?x ?w act=relu)
merge-scales: (scale (scale ?x factor=?a) factor=?b) => (scale ?x factor=?a*?b)
share-linear: (linear ?x ?v), (linear ?x ?w) => (slice ?c axis=rank(?x)-1 size=dim(?v, 0)),
    (slice ?c axis=rank(?x)-1 begin=dim(?v, 0) size=dim(?w, 0))
    where ?c = (linear ?x (concat ?v ?w axis=0))
split-relu: (relu ?x) => (combine (relu (partition ?x dim=?i degree=?d)) dim=?i degree=?d)
    choose ?i, ?d
transpose-back: (transpose (transpose ?x perm=[1, 0, 2]) perm=[1, 0, 2]) => ?x
transpose-twice: (relu ?x) => (transpose (transpose (relu ?x) perm=[1, 0, 2]) perm=[1, 0, 2])
    if rank(?x) == 3
)");
}

}  // namespace tandem::rewrite
