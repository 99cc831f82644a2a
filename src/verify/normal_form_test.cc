#include "verify/normal_form.h"

#include <gtest/gtest.h>

#include "rewrite/rule_text.h"
#include "verify/instances.h"
#include "verify/rule_typer.h"

namespace tandem::verify {
namespace {

// Returns how many patterns have equal forms at a generic size, and how many fit.
std::pair<int, int> count_proved(const std::string& line, std::string* reason) {
  const auto rule = rewrite::parse_rule(line)[0];
  int equal = 0;
  int all = 0;
  for (const auto& pattern : find_patterns(rule).all) {
    const auto instance = find_generic_instance(rule, pattern, 5);
    if (!instance || check_fit(rule, *instance) != Fit::kBoth) continue;
    ++all;
    const auto found =
        compare_forms(*type_side(rule.source, *instance), *type_side(rule.target, *instance));
    equal += found.equal ? 1 : 0;
    if (!found.equal) *reason += found.reason + " at " + to_text(rule, *instance) + "\n";
  }
  return {equal, all};
}

const std::vector<std::string>& true_rules() {
  static const std::vector<std::string> rules = {
      "a: (relu ?x) => (relu ?x)",
      "b: (matmul ?x (matmul ?y ?z)) => (matmul (matmul ?x ?y) ?z)",
      "c: (matmul ?x (add ?y ?z)) => (add (matmul ?x ?y) (matmul ?x ?z)) if same_shape(?y, ?z)",
      "d: (add (matmul ?x ?y) (matmul ?z ?w)) => (matmul (concat ?x ?z axis=1) (concat ?y ?w "
      "axis=0)) if rank(?x) == 2 and rank(?y) == 2 and rank(?z) == 2 and rank(?w) == 2 and "
      "dim(?x, 0) == dim(?z, 0) and dim(?y, 1) == dim(?w, 1)",
      "e: (relu (concat ?x ?y axis=?a)) => (concat (relu ?x) (relu ?y) axis=?a)",
      "f: (split (concat ?x ?y axis=?a) axis=?a parts=2) => ?x if dim(?x, ?a) == dim(?y, ?a)",
      "g: (concat (split ?x axis=?a parts=2) (split ?x axis=?a parts=2 part=1) axis=?a) => ?x",
      "h: (transpose (transpose ?x perm=[1, 0]) perm=[1, 0]) => ?x",
      "i: (transpose (matmul ?x ?y) perm=[1, 0]) => (matmul (transpose ?y perm=[1, 0]) (transpose "
      "?x perm=[1, 0])) if rank(?x) == 2 and rank(?y) == 2",
      "j: (matmul ?x (constant shape=[dim(?x, 1), dim(?x, 1)] kind=\"eye\" value=1)) => ?x if "
      "rank(?x) == 2",
      "k: (conv2d ?x (add ?y ?z) padding=[1, 1]) => (add (conv2d ?x ?y padding=[1, 1]) (conv2d ?x "
      "?z padding=[1, 1])) if same_shape(?y, ?z)",
      "l: (add (conv2d ?x ?y padding=[1, 1]) (conv2d ?z ?w padding=[1, 1])) => (conv2d (concat ?x "
      "?z axis=1) (concat ?y ?w axis=1) padding=[1, 1]) if dim(?y, 2) == dim(?w, 2) and dim(?y, 3) "
      "== dim(?w, 3) and dim(?x, 2) == dim(?z, 2) and dim(?x, 3) == dim(?z, 3) and dim(?x, 0) == "
      "dim(?z, 0) and dim(?y, 0) == dim(?w, 0)",
      "m: (concat (conv2d ?x ?y) (conv2d ?x ?z) axis=1) => (conv2d ?x (concat ?y ?z axis=0)) if "
      "dim(?y, 2) == dim(?z, 2) and dim(?y, 3) == dim(?z, 3)",
      "n: (conv2d (pad (pad ?x axis=2 before=1 after=1) axis=3 before=1 after=1) ?w) => (conv2d ?x "
      "?w padding=[1, 1])",
      "o: (conv2d ?x ?w) => (conv2d ?x (pad (pad ?w axis=2 before=1 after=1) axis=3 before=1 "
      "after=1) padding=[1, 1])",
      "p: (concat (avg_pool2d ?x kernel=[3, 3]) (avg_pool2d ?y kernel=[3, 3]) axis=1) => "
      "(avg_pool2d (concat ?x ?y axis=1) kernel=[3, 3])",
      "q: (concat (max_pool2d ?x kernel=[3, 3] padding=[1, 1]) (max_pool2d ?y kernel=[3, 3] "
      "padding=[1, 1]) axis=1) => (max_pool2d (concat ?x ?y axis=1) kernel=[3, 3] padding=[1, 1])",
      "r: (concat (concat ?x ?y axis=1) (concat ?z ?w axis=1) axis=0) => (concat (concat ?x ?z "
      "axis=0) (concat ?y ?w axis=0) axis=1) if dim(?x, 0) == dim(?y, 0) and dim(?x, 1) == dim(?z, "
      "1)",
      "s: (reshape (relu ?x) shape=[-1]) => (relu (reshape ?x shape=[-1]))",
      "t: (linear ?x ?w) => (matmul ?x (transpose ?w perm=[1, 0]))",
      "u: (embedding_bag ?i ?w) => (reduce_sum (embedding ?i ?w) axes=[1]) if rank(?i) == 2",
      "v: (softmax (concat ?x ?y axis=0)) => (concat (softmax ?x) (softmax ?y) axis=0) if rank(?x) "
      "== 2",
      "w: (reduce_sum (concat ?x ?y axis=0) axes=[0]) => (add (reduce_sum ?x axes=[0]) (reduce_sum "
      "?y axes=[0])) if rank(?x) == 2",
      "x: (layer_norm (concat ?x ?y axis=0) ?s ?b) => (concat (layer_norm ?x ?s ?b) (layer_norm ?y "
      "?s ?b) axis=0) if rank(?x) == 2",
      "y: (reshape (reshape ?x shape=[-1]) shape=[dim(?x, 0), dim(?x, 1)]) => ?x if rank(?x) == 2",
      "z: (gelu (transpose ?x perm=[1, 0])) => (transpose (gelu ?x) perm=[1, 0])",
      "a2: (mul (relu ?x) (tanh (relu ?x))) => (mul (relu ?x) (tanh ?x))",
      "b2: (relu (add (relu ?x) ?x)) => (add (relu ?x) (relu ?x))",
      "c2: (relu (sigmoid ?x)) => (sigmoid ?x)",
      "d2: (relu (tanh ?x)) => (tanh (relu ?x))",
      "e2: (relu (mul (constant shape=[?n, ?n] kind=\"eye\" value=1) ?x)) => (mul (constant "
      "shape=[?n, ?n] kind=\"eye\" value=1) (relu ?x))",
      // Expressions that are not negative: squares, and products of such expressions.
      "h2: (linear (relu ?x) (relu ?y) act=relu) => (linear (relu ?x) (relu ?y))",
      "i2: (relu (reduce_sum (mul (mul ?x ?x) (relu ?y)) axes=[0])) => (reduce_sum (mul (mul ?x "
      "?x) (relu ?y)) axes=[0]) if same_shape(?x, ?y)",
      // Windows of windows; the kernel of one of them is a constant.
      "f2: (avg_pool2d (relu (conv2d ?x ?w padding=[0, 1])) kernel=[3, 3] padding=[1, 1]) => "
      "(conv2d (relu (conv2d ?x ?w padding=[0, 1])) (avg_pool2d (pad (pad (reshape (constant "
      "shape=[dim(?w, 0), dim(?w, 0)] kind=\"eye\" value=1) shape=[dim(?w, 0), dim(?w, 0), 1, 1]) "
      "axis=2 before=1 after=1) axis=3 before=1 after=1) kernel=[3, 3] padding=[1, 1]) padding=[1, "
      "1]) if dim(?w, 2) == 1 and dim(?w, 3) == 3",
      // Channels in groups next to a kernel without groups.
      "g2: (conv2d ?x ?w groups=2) => (conv2d (conv2d ?x ?w groups=2) (reshape (constant "
      "shape=[dim(?w, 0), dim(?w, 0)] kind=\"eye\" value=1) shape=[dim(?w, 0), dim(?w, 0), 1, 1]))",
  };
  return rules;
}

TEST(NormalForm, IsEqualForTrueRules) {
  for (const auto& line : true_rules()) {
    std::string reason;
    const auto [equal, all] = count_proved(line, &reason);
    EXPECT_EQ(equal, all) << line << "\n" << reason;
    EXPECT_GT(all, 0) << line;
  }
}

TEST(NormalForm, DiffersForFalseRules) {
  for (const std::string line : {
           "a: (relu (add ?x ?y)) => (add (relu ?x) (relu ?y))",
           "b: (matmul ?x ?y) => (matmul ?y ?x)",
           "c: (split (concat ?x ?y axis=?a) axis=?a parts=2) => ?y if dim(?x, ?a) == dim(?y, ?a)",
           "d: (concat ?x ?y axis=0) => (concat ?y ?x axis=0)",
           "e: (transpose (matmul ?x ?y) perm=[1, 0]) => (matmul (transpose ?x perm=[1, 0]) "
           "(transpose ?y perm=[1, 0]))",
           "f: (max_pool2d ?x kernel=[3, 3] padding=[1, 1]) => (avg_pool2d ?x kernel=[3, 3] "
           "padding=[1, 1])",
           "g: (pad (slice ?x axis=0 begin=1 size=1) axis=0 before=1) => ?x",
           "h: (scale ?x factor=2) => (scale ?x factor=3)",
           "i: (relu (tanh ?x)) => (tanh ?x)",
           "j: (relu (scale ?x factor=-1)) => (scale (relu ?x) factor=-1)",
           "k: (mul (relu ?x) (sigmoid ?x)) => (mul (relu ?x) (relu ?x))",
           "l: (linear (relu ?x) ?y act=relu) => (linear (relu ?x) ?y)",
           "m: (relu (mul (mul ?x ?x) ?y)) => (mul (mul ?x ?x) ?y) if same_shape(?x, ?y)",
       }) {
    std::string reason;
    EXPECT_EQ(count_proved(line, &reason).first, 0) << line;
  }
}

}  // namespace
}  // namespace tandem::verify
