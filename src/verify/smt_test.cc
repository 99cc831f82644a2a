#include "verify/smt.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <ctime>
#include <iostream>
#include <numeric>
#include <string_view>
#include <thread>
#include <vector>

#include "base/text.h"
#include "rewrite/rule_text.h"
#include "verify/properties.h"

namespace tandem::verify {
namespace {

using rewrite::Rule;

Rule parse_line(std::string_view text) {
  return rewrite::parse_rule("rule: " + std::string(text))[0];
}

class Smt : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!SmtProver::is_available()) GTEST_SKIP() << "built without Z3";
  }

  [[nodiscard]] static const SmtProver& prover() {
    static const SmtProver prover(all_properties());
    return prover;
  }
  [[nodiscard]] static SmtAnswer prove(std::string_view text,
                                       Seconds limit = SmtProver::kTimeLimit) {
    const auto rule = parse_line(text);
    return prover().prove(rule, find_size_facts(rule, find_patterns(rule)), limit);
  }
};

const std::string_view kTrue[] = {
    // Matmuls.
    "(matmul ?x (matmul ?y (matmul ?z ?w))) => (matmul (matmul (matmul ?x ?y) ?z) ?w)",
    "(matmul (matmul ?x ?y) (matmul ?z ?w)) => (matmul ?x (matmul (matmul ?y ?z) ?w))",
    "(add (matmul ?x ?y) (matmul ?x ?z)) => (matmul ?x (add ?z ?y)) if same_shape(?y, ?z)",
    "(matmul (add ?x ?y) (add ?z ?w)) => (add (add (matmul ?x ?z) (matmul ?x ?w)) (add (matmul ?y "
    "?z) (matmul ?y ?w))) if same_shape(?x, ?y) and same_shape(?z, ?w)",
    "(transpose (matmul (transpose ?x perm=[1, 0]) ?y) perm=[1, 0]) => (matmul (transpose ?y "
    "perm=[1, 0]) ?x)",
    "(matmul ?x ?y), (matmul ?x ?z) => (split ?c axis=1 parts=2 part=0), (split ?c axis=1 parts=2 "
    "part=1) where ?c = (matmul ?x (concat ?y ?z axis=1)) if rank(?x) == 2 and rank(?y) == 2 and "
    "rank(?z) == 2 and dim(?y, 1) == dim(?z, 1)",
    "(matmul (matmul ?x ?y) (constant shape=[?n, ?n] kind=\"eye\" value=1)) => (matmul ?x ?y)",
    "(matmul (scale ?x factor=?f) (scale ?y factor=?g)) => (scale (scale (matmul ?x ?y) factor=?f) "
    "factor=?g)",
    // Elementwise sums and products.
    "(add ?x (add ?y (add ?z ?w))) => (add (add ?w ?y) (add ?z ?x))",
    "(mul (mul ?x ?y) (mul ?z ?w)) => (mul ?w (mul (mul ?y ?z) ?x))",
    "(mul (add ?x ?y) (add ?z ?w)) => (add (add (mul ?x ?z) (mul ?x ?w)) (add (mul ?y ?z) (mul ?y "
    "?w)))",
    "(linear (add (max ?x ?y) (min ?y ?x)) ?w) => (linear (add ?y ?x) ?w)",
    "(mul (min ?x ?y) (max ?x ?y)) => (mul ?x ?y)",
    // Convolutions; the first is Figure 4b.
    "(add (conv2d ?x ?v groups=?g) (conv2d ?x ?w groups=?g)) => (conv2d ?x (add ?v ?w) groups=?g) "
    "if same_shape(?v, ?w)",
    "(relu (add (conv2d ?x ?v) (conv2d ?x ?w))) => (conv2d ?x (add ?v ?w) act=relu) if "
    "same_shape(?v, ?w)",
    "(relu (conv2d ?x ?v)), (relu (conv2d ?x ?w)) => (split ?c axis=1 parts=2 part=0), (split ?c "
    "axis=1 parts=2 part=1) where ?c = (conv2d ?x (concat ?v ?w axis=0) act=relu) if dim(?v, 0) == "
    "dim(?w, 0) and dim(?v, 2) == dim(?w, 2) and dim(?v, 3) == dim(?w, 3)",
    "(conv2d ?x (pad (pad ?w axis=2 before=1 after=1) axis=3 before=1 after=1) padding=[1, 1]) => "
    "(conv2d ?x ?w)",
    "(conv2d ?x (pad ?w axis=3 before=1 after=1) padding=[1, 1] act=relu) => (relu (conv2d ?x ?w "
    "padding=[1, 0]))",
    "(relu (conv2d (scale ?x factor=?f) ?w)) => (conv2d ?x (scale ?w factor=?f) act=relu)",
    // Concatenation.
    "(concat (concat ?x ?y axis=?a) (concat ?z ?w axis=?a) axis=?a) => (concat ?x (concat ?y ?z ?w "
    "axis=?a) axis=?a)",
    "(split (concat (relu ?x) (relu ?y) axis=?a) axis=?a parts=2 part=1) => (relu ?y) if dim(?x, "
    "?a) == dim(?y, ?a)",
    "(relu (concat ?x ?y ?z axis=?a)) => (concat (relu ?x) (relu ?y) (relu ?z) axis=?a)",
    "(concat (add ?x ?y) (add ?y ?x) axis=?a) => (add (concat ?x ?y axis=?a) (concat ?y ?x "
    "axis=?a)) if same_shape(?x, ?y)",
    "(transpose (concat ?x ?y axis=0) perm=[1, 0]), (transpose (add ?x ?y) perm=[1, 0]) => (concat "
    "(transpose ?x perm=[1, 0]) (transpose ?y perm=[1, 0]) axis=1), (add (transpose ?y perm=[1, "
    "0]) (transpose ?x perm=[1, 0])) if rank(?x) == rank(?y)",
    // Fully connected layers.
    "(relu (linear (scale ?x factor=?f) ?w)) => (linear ?x (scale ?w factor=?f) act=relu)",
    "(linear ?x ?v act=gelu), (linear ?x ?w act=gelu) => (slice ?c axis=1 begin=0 size=dim(?v, "
    "0)), (slice ?c axis=1 begin=dim(?v, 0) size=dim(?w, 0)) where ?c = (linear ?x (concat ?v ?w "
    "axis=0) act=gelu) if rank(?x) == 2",
    "(add (linear ?x ?v) (linear ?y ?w)) => (linear (concat ?x ?y axis=1) (concat ?v ?w axis=1)) "
    "if rank(?x) == 2 and rank(?y) == 2 and dim(?x, 0) == dim(?y, 0) and dim(?v, 0) == dim(?w, 0)",
    "(linear (linear ?x ?v) ?w) => (matmul ?x (matmul (transpose ?v perm=[1, 0]) (transpose ?w "
    "perm=[1, 0]))) if rank(?x) == 2",
    // Embeddings.
    "(add (embedding ?i ?v) (embedding ?i ?w)) => (embedding ?i (add ?w ?v)) if same_shape(?v, "
    "?w)",
    // Parallel rules: Figures 11a and 11b, delayed sums.
    "(relu ?x) => (combine (relu (partition ?x dim=?i degree=?d)) dim=?i degree=?d) choose ?i, ?d",
    "(add ?x ?y) => (reduce (join ?y ?x) degree=2) if same_shape(?x, ?y)",
    "(matmul (reduce ?x degree=?d) ?y) => (reduce (matmul ?x (replicate ?y degree=?d)) degree=?d)",
    "(linear ?x ?w) => (reduce (linear (partition ?x dim=?i degree=?d) (partition ?w dim=1 "
    "degree=?d)) degree=?d) choose ?i, ?d if ?i == rank(?x) - 1",
    "(linear ?x ?w act=relu) => (combine (linear (partition ?x dim=?i degree=?d) (replicate ?w "
    "degree=?d) act=relu) dim=?i degree=?d) choose ?i, ?d if ?i < rank(?x) - 1",
    "(conv2d ?x ?w) => (combine (combine (conv2d (partition (partition ?x dim=0 degree=?d) dim=2 "
    "degree=?e) (replicate (replicate ?w degree=?d) degree=?e)) dim=2 degree=?e) dim=0 degree=?d) "
    "choose ?d, ?e",
    "(partition (combine (relu ?x) dim=?i degree=?d) dim=?i degree=?d) => (relu ?x)",
    "(combine (combine ?x dim=?i degree=2) dim=?i degree=3) => (combine ?x dim=?i degree=6)",
    "(add (reduce ?x degree=?d) (reduce ?y degree=?d)) => (reduce (add ?x ?y) degree=?d) if "
    "same_shape(?x, ?y)",
    "(partition (reduce (linear ?x ?w) degree=?d) dim=0 degree=?e) => (reduce (linear (partition "
    "?x dim=0 degree=?e) (replicate ?w degree=?e)) degree=?d) if 2 <= rank(?x)",
    "(embedding ?i ?w) => (reduce (embedding (replicate ?i degree=?d) (partition ?w dim=0 "
    "degree=?d)) degree=?d) choose ?d",
    "(combine (softmax (partition ?x dim=0 degree=?d) axis=1) dim=0 degree=?d) => (softmax ?x "
    "axis=1)",
    // Megatron's MLP, Figure 10: the first weight is column-parallel, the second row-parallel.
    "(linear (gelu (linear ?x ?v)) ?w) => (reduce (linear (gelu (linear (replicate ?x degree=?d) "
    "(partition ?v dim=0 degree=?d))) (partition ?w dim=1 degree=?d)) degree=?d) choose ?d if "
    "rank(?x) == 3",
    "(matmul (relu (matmul ?x ?v)) ?w) => (reduce (matmul (relu (matmul (replicate ?x degree=?d) "
    "(partition ?v dim=1 degree=?d))) (partition ?w dim=0 degree=?d)) degree=?d) choose ?d if "
    "rank(?x) == 2 and rank(?v) == 2 and rank(?w) == 2",
};

TEST_F(Smt, ProvesConsequencesOfTheProperties) {
  for (const auto text : kTrue) {
    const auto answer = prove(text, Seconds{60});  // on a busy machine, too
    EXPECT_TRUE(answer.proved) << text << "\n" << answer.reason;
    EXPECT_FALSE(answer.used.empty()) << text;
  }
}

// Most of these differ from a true rule in one word.
const std::string_view kWrong[] = {
    "(matmul ?x ?y) => (matmul ?y ?x)",
    "(matmul ?x (matmul ?y ?z)) => (matmul (matmul ?x ?z) ?y)",
    "(matmul (add ?x ?y) ?z) => (add (matmul ?x ?z) (matmul ?x ?z)) if same_shape(?x, ?y)",
    "(transpose (matmul ?x ?y) perm=[1, 0]) => (matmul (transpose ?x perm=[1, 0]) (transpose ?y "
    "perm=[1, 0]))",
    "(relu (add ?x ?y)) => (add (relu ?x) (relu ?y))",
    "(relu (matmul ?x ?y)) => (matmul (relu ?x) ?y)",
    "(relu (linear ?x ?w)) => (linear ?x ?w)",
    "(relu (linear ?x ?w)) => (linear ?x ?w act=gelu)",
    "(scale (scale ?x factor=2) factor=3) => (scale ?x factor=5)",
    "(scale (matmul ?x ?y) factor=?f) => (matmul (scale ?x factor=?f) (scale ?y factor=?f))",
    "(concat ?x ?y axis=?a) => (concat ?y ?x axis=?a)",
    "(concat ?x (concat ?y ?z axis=?a) axis=?b) => (concat (concat ?x ?y axis=?b) ?z axis=?a)",
    "(split (concat ?x ?y axis=?a) axis=?a parts=2 part=0) => ?x",
    "(split (concat ?x ?y axis=?a) axis=?a parts=2 part=1) => ?x if dim(?x, ?a) == dim(?y, ?a)",
    "(split (concat ?x ?y axis=?a) axis=?b parts=2 part=0) => ?x if dim(?x, ?a) == dim(?y, ?a)",
    "(slice (concat ?x ?y axis=?a) axis=?a begin=1 size=?n) => ?y if ?n == dim(?y, ?a)",
    "(transpose (concat ?x ?y axis=0) perm=[1, 0]) => (concat (transpose ?x perm=[1, 0]) "
    "(transpose ?y perm=[1, 0]) axis=0)",
    "(conv2d ?x (pad ?w axis=2 before=1 after=1) padding=[1, 1]) => (conv2d ?x ?w padding=[1, 1])",
    "(conv2d ?x (pad ?w axis=2 before=1 after=0) padding=[1, 1]) => (conv2d ?x ?w padding=[0, 1])",
    "(conv2d ?x (concat ?v ?w axis=0) groups=2) => (concat (conv2d ?x ?v groups=2) (conv2d ?x ?w "
    "groups=2) axis=1)",
    "(conv2d ?x (add ?v ?w) act=relu) => (add (conv2d ?x ?v act=relu) (conv2d ?x ?w act=relu)) if "
    "same_shape(?v, ?w)",
    "(avg_pool2d (concat ?x ?y axis=1) kernel=[2, 2]) => (max_pool2d (concat ?x ?y axis=1) "
    "kernel=[2, 2])",
    "(max_pool2d (concat ?x ?y axis=2) kernel=[2, 2]) => (concat (max_pool2d ?x kernel=[2, 2]) "
    "(max_pool2d ?y kernel=[2, 2]) axis=2)",
    "(softmax (concat ?x ?y axis=1) axis=1) => (concat (softmax ?x axis=1) (softmax ?y axis=1) "
    "axis=1)",
    "(mul ?x (constant shape=[1] value=2)) => ?x",
    "(add ?x ?x) => ?x",
    "(combine (partition ?x dim=?i degree=?d) dim=?j degree=?d) => ?x",
    "(combine (partition ?x dim=?i degree=?d) dim=?i degree=?e) => ?x",
    "(reduce (replicate ?x degree=?d) degree=?d) => ?x",
    "(linear ?x ?w act=gelu) => (reduce (linear (partition ?x dim=1 degree=?d) (partition ?w dim=1 "
    "degree=?d) act=gelu) degree=?d) choose ?d if rank(?x) == 2",
    "(linear (gelu (linear ?x ?v)) ?w) => (linear (gelu (reduce (linear (partition ?x dim=1 "
    "degree=?d) (partition ?v dim=1 degree=?d)) degree=?e)) ?w) choose ?d, ?e if rank(?x) == 2",
    "(matmul ?x ?y) => (combine (matmul (partition ?x dim=0 degree=?d) (replicate ?y degree=?d)) "
    "dim=1 degree=?d) choose ?d if rank(?x) == 2 and rank(?y) == 2",
};

TEST_F(Smt, ProvesNoFalseRule) {
  for (const auto text : kWrong) {
    const auto answer = prove(text);
    EXPECT_FALSE(answer.proved) << text << "\n" << join(answer.used, ", ");
    EXPECT_NE(answer.reason, "") << text;
    EXPECT_TRUE(answer.used.empty());
  }
}

TEST_F(Smt, ProvesThatEverySideEqualsItself) {
  for (const auto text : kTrue) {
    auto rule = parse_line(text);
    if (!rule.choices.empty()) continue;
    rule.target = rule.source;
    const auto answer = prover().prove(rule);
    EXPECT_TRUE(answer.proved) << text;
    EXPECT_TRUE(answer.used.empty());
  }
}

TEST_F(Smt, NamesThePropertiesOfAProof) {
  const auto answer = prove(
      "(relu (conv2d ?x (scale ?w factor=?f))) => (conv2d (scale ?x "
      "factor=?f) ?w act=relu)");
  EXPECT_EQ(answer.used,
            (std::vector<std::string>{"relu-fuses-with-conv2d", "scale-moves-to-image-reversed"}));
  EXPECT_FALSE(answer.needs_sizes);
}

TEST_F(Smt, ReportsThatSizesAreNeeded) {
  EXPECT_TRUE(prove("(linear (linear ?x ?v) ?w) => (matmul ?x (matmul (transpose ?v perm=[1, 0]) "
                    "(transpose ?w perm=[1, 0]))) if rank(?x) == 2")
                  .needs_sizes);
}

TEST_F(Smt, StopsAtItsTimeLimit) {
  // Lists sums in every order: far more terms than a millisecond allows.
  std::string sum = "?x0";
  std::string other = "(matmul ?x0 ?x0)";
  for (int i = 1; i < 12; ++i) {
    sum = "(add " + sum + " ?x" + std::to_string(i) + ")";
    other = "(add ?x" + std::to_string(i) + " " + other + ")";
  }
  const auto rule = parse_line(sum + " => " + other);
  const auto answer = prover().prove(rule, {}, Seconds{0.05});
  EXPECT_FALSE(answer.proved);
  EXPECT_NE(answer.reason, "");
  EXPECT_LT(answer.time.value, 1);
}

TEST_F(Smt, FindsNoContradictionInTheProperties) {
  const auto answer = prover().find_contradiction(Seconds{2});
  EXPECT_FALSE(answer.proved) << join(answer.used, ", ");
}

TEST_F(Smt, FindsNoContradictionInThePropertiesNightly) {
  const auto answer = prover().find_contradiction(Seconds{60});
  EXPECT_FALSE(answer.proved) << join(answer.used, ", ");
}

// TASO's trap: halves of a concatenation without their condition, if concatenation associates.
TEST_F(Smt, FindsContradictions) {
  const auto properties = rewrite::parse_rules(
      "associates: (concat ?x (concat ?y ?z axis=?a) axis=?a) => (concat (concat ?x ?y axis=?a) ?z "
      "axis=?a)\n"
      "half: (split (concat ?x ?y axis=?a) axis=?a parts=2 part=0) => ?x\n");
  const auto wrong = parse_line(
      "(split (concat ?x (concat ?y ?z axis=?a) axis=?a) axis=?a parts=2) "
      "=> (concat ?x ?y axis=?a)");
  EXPECT_TRUE(SmtProver(properties).prove(wrong).proved);
  const auto worse = rewrite::parse_rules(
      "first: (max ?x ?y) => ?x\n"
      "second: (max ?x ?y) => ?y\n");
  const auto answer = SmtProver(worse).find_contradiction(Seconds{1});
  EXPECT_TRUE(answer.proved) << answer.reason;
  EXPECT_EQ(answer.used, (std::vector<std::string>{"first", "second"}));
}

volatile std::sig_atomic_t interrupts = 0;

// An interrupt must end the command: Z3, asked by several threads, must not handle it.
TEST_F(Smt, LeavesInterruptsToTheCommand) {
  const auto before = std::signal(SIGINT, [](int) { interrupts = interrupts + 1; });
  std::atomic<bool> done = false;
  std::vector<std::thread> provers;
  for (int t = 0; t < 2; ++t) {
    provers.emplace_back([&] {
      const SmtProver own(all_properties());
      while (!done) (void)own.prove(parse_line(kWrong[0]));
    });
  }
  for (int sent = 1; sent <= 20; ++sent) {
    std::raise(SIGINT);
    EXPECT_EQ(interrupts, sent);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  done = true;
  for (auto& prover : provers) prover.join();
  std::raise(SIGINT);
  EXPECT_EQ(interrupts, 21);
  std::signal(SIGINT, before);
}

// Measures how long proofs take, without expectations.
TEST_F(Smt, MeasuresTimesNightly) {
  std::vector<double> times;
  const auto take = [&](const Rule& rule) {
    const auto facts = find_size_facts(rule, find_patterns(rule));
    const auto begin = std::clock();
    (void)prover().prove(rule, facts);
    times.push_back(1e3 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
  };
  for (const auto text : kTrue) take(parse_line(text));
  for (const auto text : kWrong) take(parse_line(text));
  std::ranges::sort(times);
  const double total = std::accumulate(times.begin(), times.end(), 0.0);
  std::cout << times.size() << " rules: " << total << " ms of CPU, median "
            << times[times.size() / 2] << " ms, largest " << times.back() << " ms\n";
}

}  // namespace
}  // namespace tandem::verify
