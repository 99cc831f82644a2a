#include "verify/verdict.h"

#include <gtest/gtest.h>

#include "rewrite/rule_text.h"

namespace tandem::verify {
namespace {

Rule parse_line(const std::string& line) { return rewrite::parse_rule(line)[0]; }

TEST(Verdict, MatchesKnownAnswers) {
  const std::vector<std::pair<std::string, Status>> cases = {
      {"a: (add ?x ?y) => (add ?y ?x)", Status::kProved},
      {"b: (matmul ?x (matmul ?y ?z)) => (matmul (matmul ?x ?y) ?z)", Status::kProved},
      {"c: (matmul ?x ?y) => (matmul ?y ?x)", Status::kRefuted},
      {"d: (transpose (add ?x ?y) perm=[1, 0]) => (add (transpose ?x perm=[1, 0]) (transpose ?y "
       "perm=[1, 0]))",
       Status::kProvedIf},
      {"e: (split (concat ?x ?y axis=?a) axis=?a parts=2) => ?x", Status::kProvedIf},
      {"f: (exp (add ?x ?y)) => (mul (exp ?x) (exp ?y))", Status::kUnproved},
      {"g: (relu (add ?x ?y)) => (add (relu ?x) (relu ?y))", Status::kRefuted},
      {"h: (relu ?x) => (combine (relu (partition ?x dim=?i degree=?d)) dim=?i degree=?d) "
       "choose ?i, ?d if divides(?d, dim(?x, ?i) / degree(?x, ?i))",
       Status::kProved},
      {"i: (add ?x ?y) => (reduce (join ?x ?y) degree=2) if same_shape(?x, ?y)", Status::kProved},
      {"j: (avg_pool2d ?x kernel=[3, 3]) => (conv2d ?x (constant shape=[dim(?x, 1), 1, 3, 3] "
       "kind=\"fill\" value=0.1111111111111111) groups=dim(?x, 1))",
       Status::kProved},
      // Equal in the field only because of the value that a sigmoid of 0 has there.
      {"k: (relu (sigmoid (pad ?x axis=0 before=1 after=1))) => (pad (relu (sigmoid ?x)) axis=0 "
       "before=1 after=1)",
       Status::kRefuted},
      {"l: (mul (relu ?x) (relu ?x)) => (mul (relu ?x) ?x)", Status::kProved},
      // A kernel of 1 x 3 next to a padded one: no two sizes are equal.
      {"m: (conv2d ?x (add ?v ?w) padding=[0, 1]) => (add (conv2d ?x ?v padding=[0, 1]) (conv2d "
       "?x ?w padding=[0, 1])) if dim(?v, 2) == 1 and dim(?v, 3) == 3 and same_shape(?v, ?w)",
       Status::kProved},
      {"n: (conv2d ?x (concat ?y (pad (pad ?z axis=2 before=1 after=1) axis=3 before=1 after=1)) "
       "padding=[1, 1]) => (concat (conv2d ?x ?y padding=[1, 1]) (conv2d ?x ?z) axis=1)",
       Status::kProved},
      // Only Z3 proves this one, with laws that ignore an attribute without effect.
      {"o: (max_pool2d (relu ?x) kernel=?k stride=?s padding=?p) => (relu (max_pool2d ?x kernel=?k "
       "stride=?s padding=?p count_padding=false))",
       Status::kProved},
      // If all elements but one are 0, the largest is their sum, unless that one is negative.
      {"p: (sigmoid (reduce_sum (mul (constant shape=[?n, ?n] kind=\"eye\" value=1) ?x) axes=[0])) "
       "=> (reduce_max (mul (constant shape=[?n, ?n] kind=\"eye\" value=1) (sigmoid ?x)) axes=[0]) "
       "if rank(?x) == 1",
       Status::kProved},
      {"q: (tanh (reduce_sum (mul (constant shape=[?n, ?n] kind=\"eye\" value=1) ?x) axes=[0])) "
       "=> (reduce_max (mul (constant shape=[?n, ?n] kind=\"eye\" value=1) (tanh ?x)) axes=[0]) "
       "if rank(?x) == 1",
       Status::kProvedIf},
      // An image of one pixel meets only the middle of a padded kernel. One index is 1 by its range
      // and equals the other by an equation.
      {"middle: (mul (constant shape=[3, 3] value=1) (pad (pad ?x axis=0 before=1 after=1) axis=1 "
       "before=1 after=1)) => (mul (constant shape=[3, 3] kind=\"eye\" value=1) (pad (pad ?x "
       "axis=0 "
       "before=1 after=1) axis=1 before=1 after=1)) if rank(?x) == 2 and dim(?x, 0) == 1 and "
       "dim(?x, 1) == 1",
       Status::kProved},
      // x . x + x[i] (x . 1) is below 0 for some vectors of ten or more numbers, few of them
      // negative. No operator moves the sizes that equal the constant's.
      {"rows: (matmul (layer_norm (constant shape=[?m, ?n] value=1) ?x ?x) (linear (constant "
       "shape=[?p, ?p] kind=\"eye\" value=1) (layer_norm (constant shape=[?m, ?n] value=1) ?x ?x) "
       "?x)) => (linear (layer_norm (constant shape=[?m, ?m] value=1) ?x ?x) (linear (constant "
       "shape=[?m, ?m] kind=\"eye\" value=1) (layer_norm (constant shape=[?m, ?m] value=1) ?x ?x) "
       "?x) act=relu)",
       Status::kRefuted},
      // True for up to five rows; only the constant's shape says how many there are.
      {"few: (matmul ?x (constant shape=[?n, ?m] value=1)) => (matmul ?x (constant shape=[?n, ?m] "
       "value=(1 + ((?n - 1) * ((?n - 2) * ((?n - 3) * ((?n - 4) * (?n - 5))))))))",
       Status::kRefuted},
      // Division by 0 gives no number in the target, but the source has one.
      {"s: (relu ?x) => (add (relu ?x) (div (sub ?x ?x) (sub ?x ?x)))", Status::kRefuted},
      {"t: (div ?x ?x) => (constant value=1)", Status::kRefuted},
      // Instances with tensors of one element all have the same size.
      {"u: (mul (relu (mul ?x ?y)) (constant shape=[?n, 1] value=1)) => (mul (relu (mul ?x ?y)) "
       "(constant shape=[?n, 1] value=2)) if rank(?x) == 1 and dim(?x, 0) == 1 and "
       "same_shape(?x, ?y)",
       Status::kRefuted},
      // Squares are not negative, and neither are squares of sums.
      {"v: (linear (square ?x) (square ?x)) => (linear (square ?x) (square ?x) act=relu)",
       Status::kProved},
      {"w: (mul (linear ?x ?y) (linear ?x ?y)) => (relu (mul (linear ?x ?y) (linear ?x ?y)))",
       Status::kProved},
      // Squares that were multiplied out; the gelu of a matrix is a sum of two terms.
      {"x: (square (sub ?x ?y)) => (relu (add (sub (square ?x) (mul ?x ?y)) (sub (square ?y) "
       "(mul ?y ?x)))) if same_shape(?x, ?y)",
       Status::kProved},
      {"y: (add (square ?x) (mul ?x ?y)) => (relu (add (square ?x) (mul ?x ?y)))",
       Status::kRefuted},
      {"z: (matmul (square (gelu ?x)) (square (gelu ?y))) => (relu (matmul (square (gelu ?x)) "
       "(square (gelu ?y))))",
       Status::kProved},
      // A relu of products of equal relus, whose rows are all equal.
      {"r: (matmul (matmul (constant shape=[?m, ?n] value=1) ?x) (linear (constant shape=[?k, ?k] "
       "kind=\"eye\" value=1) (matmul (constant shape=[?m, ?n] value=1) ?x) act=relu)) => (linear "
       "(relu (matmul (constant shape=[?m, ?n] value=1) ?x)) (relu (matmul (constant "
       "shape=[?m, ?n] value=1) ?x)) act=relu)",
       Status::kProved},
      // All embedding tables have four rows; an index beyond them refutes the rule.
      {"s: (matmul (embedding ?x (constant shape=[?m, ?n] value=1)) (matmul (constant shape=[?m, "
       "?n] "
       "value=1) (embedding ?y (constant shape=[?m, ?n] value=1)))) => (linear (embedding ?x "
       "(constant shape=[?m, ?m] value=1)) (linear (embedding ?y (constant shape=[?m, ?m] "
       "value=1)) "
       "(constant shape=[?m, ?m] value=1)) act=relu) if rank(?y) == 1",
       Status::kRefuted},
      // Three tensors of one shape deviate from the plain one together: [2, 2, 1, 1].
      {"conv: (conv2d (conv2d ?x ?v) ?w) => (conv2d (conv2d ?x ?w) ?v) if same_shape(?x, ?v) and "
       "same_shape(?x, ?w)",
       Status::kProvedIf},
  };
  for (const auto& [line, expected] : cases) {
    const auto verdict = verify(parse_line(line));
    EXPECT_EQ(name(verdict.proof.status), name(expected))
        << line << "\ncondition: " << verdict.proof.condition
        << "\ncounterexample: " << verdict.counterexample << "\nreason: " << verdict.reason;
    if (std::getenv("TANDEM_SHOW") != nullptr)
      fmt::print("{}\n   {} {} | {} | {} | {} patterns {} instances\n", line,
                 name(verdict.proof.status), verdict.proof.condition, verdict.counterexample,
                 verdict.reason, verdict.patterns, verdict.instances);
  }
}

// An open degree must divide the size; a condition that it is 1 would be no answer.
TEST(Verdict, FindsConditionsOfChosenDegrees) {
  const auto condition = [](const std::string& line) {
    return verify(parse_line(line)).proof.condition;
  };
  EXPECT_EQ(condition("a: (relu ?x) => (combine (relu (partition ?x dim=?i degree=?d)) dim=?i "
                      "degree=?d) choose ?i, ?d"),
            "divides(?d, dim(?x, ?i) / degree(?x, ?i)) and 0 < ?d");
  EXPECT_EQ(condition("b: (matmul ?x ?y) => (reduce (matmul (partition ?x dim=1 degree=?d) "
                      "(partition ?y dim=0 degree=?d)) degree=?d) choose ?d"),
            "rank(?x) == 2 and rank(?y) == 2 and divides(?d, dim(?x, 1) / degree(?x, 1)) and 0 < "
            "?d");
}

// Degrees that a rule names need not be powers of 2.
TEST(Verdict, CoversOddDegrees) {
  const auto of = [](const std::string& line) {
    const auto proof = verify(parse_line(line)).proof;
    return std::string(name(proof.status)) + " " + proof.condition;
  };
  EXPECT_EQ(of("a: (partition (combine ?x dim=1 degree=3) dim=1 degree=3) => ?x"), "proved ");
  EXPECT_EQ(of("b: (reduce (matmul ?x (replicate ?w degree=5)) degree=5) => "
               "(matmul (reduce ?x degree=5) ?w) if partial(?x) == 5"),
            "proved ");
  EXPECT_EQ(of("c: (relu ?x) => (combine (relu (partition ?x dim=0 degree=3)) dim=0 degree=3)"),
            "proved_if divides(3, dim(?x, 0) / degree(?x, 0))");
  EXPECT_EQ(of("d: (linear ?x ?w) => (reduce (linear (partition ?x dim=1 degree=7) (partition ?w "
               "dim=1 degree=7)) degree=7) if rank(?x) == 2"),
            "proved_if divides(7, dim(?x, 1) / degree(?x, 1))");
  EXPECT_EQ(of("e: (relu (reduce ?x degree=3)) => (reduce (relu ?x) degree=3)"), "refuted ");
  EXPECT_EQ(of("f: (combine (partition ?x dim=0 degree=3) dim=0 degree=6) => ?x"), "refuted ");
}

}  // namespace
}  // namespace tandem::verify
