#include "rewrite/deriver.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "graph/text.h"
#include "rewrite/collection.h"
#include "rewrite/rule_text.h"

namespace tandem::rewrite {
namespace {

std::vector<Rule> rules() {
  return add_reversals(parse_rules(R"(
relu-of-combine: (relu (combine ?x dim=?i degree=?d)) => (combine (relu ?x) dim=?i degree=?d)
linear-columns: (linear ?x ?w) => (combine (linear (replicate ?x degree=?d) (partition ?w dim=0 degree=?d))
    dim=rank(?x)-1 degree=?d) choose ?d
linear-depth: (linear ?x ?w) => (reduce (linear (partition ?x dim=rank(?x)-1 degree=?d)
    (partition ?w dim=1 degree=?d)) degree=?d) choose ?d
cancel: (partition (combine ?x dim=?i degree=?d) dim=?i degree=?d) => ?x
)"));
}

// Figure 10 of Unity (OSDI'22): Megatron's MLP from the plain MLP.
TEST(Derive, FindsTheMegatronMlp) {
  const std::string head =
      "graph mlp\n%x = input() shape=[8, 16]\n%v = weight() shape=[32, 16]\n%w = weight() "
      "shape=[16, 32]\n";
  const auto plain = graph::parse_graph(
      head + "%h = linear(%x, %v)\n%r = relu(%h)\n%y = linear(%r, %w)\nreturn %y\n");
  const auto megatron = graph::parse_graph(head +
                                           "%xr = replicate(%x) degree=4\n%vp = partition(%v) "
                                           "dim=0 degree=4\n%wp = partition(%w) dim=1 degree=4\n"
                                           "%h = linear(%xr, %vp)\n%r = relu(%h)\n%y = linear(%r, "
                                           "%wp)\n%z = reduce(%y) degree=4\nreturn %z\n");
  const auto set = rules();
  const auto there = Deriver(set).derive(plain, megatron);
  ASSERT_TRUE(there.is_found);
  EXPECT_TRUE(there.back.empty());
  EXPECT_EQ(there.steps.size(), 4U) << to_text(there.steps);
  EXPECT_EQ(replay(plain, there.steps, make_rule_finder(set)).identity_hash(),
            megatron.identity_hash());
}

TEST(Derive, ReversesChosenValues) {
  const std::string head = "graph g\n%x = input() shape=[8, 6]\n";
  const auto split = graph::parse_graph(head +
                                        "%p = partition(%x) dim=0 degree=2\n%r = relu(%p)\n%c = "
                                        "combine(%r) dim=0 degree=2\nreturn %c\n");
  const auto whole = graph::parse_graph(head + "%r = relu(%x)\nreturn %r\n");
  const auto set =
      add_reversals(parse_rule("split: (relu ?x) => (combine (relu (partition ?x dim=?i "
                               "degree=?d)) dim=?i degree=?d) choose ?i, ?d"));
  ASSERT_EQ(set.size(), 2U);
  const auto back = Deriver(set).derive(split, whole);
  ASSERT_EQ(back.steps.size(), 1U);
  EXPECT_EQ(back.steps[0].rule, "split-reversed");
  EXPECT_TRUE(back.steps[0].choices.empty());
}

TEST(Derive, ReportsThatNothingWasFound) {
  const auto a = graph::parse_graph("graph a\n%x = input() shape=[4]\n%y = relu(%x)\nreturn %y\n");
  const auto b = graph::parse_graph("graph a\n%x = input() shape=[4]\n%y = tanh(%x)\nreturn %y\n");
  const auto none = Deriver(parse_rule("twice: (relu (relu ?x)) => (relu ?x)")).derive(a, b);
  EXPECT_FALSE(none.is_found);
  EXPECT_TRUE(none.is_complete);
  const auto endless = Deriver(parse_rule("more: (relu ?x) => (relu (relu ?x))"))
                           .derive(a, b, {.graphs = 50, .steps = 100});
  EXPECT_FALSE(endless.is_found);
  EXPECT_FALSE(endless.is_complete);
  EXPECT_EQ(endless.graphs, 50U);
  const auto same = Deriver({}).derive(a, a);
  EXPECT_TRUE(same.is_found);
  EXPECT_EQ(same.length(), 0U);
}

// Two relus equal one relu of a concatenation. No rule creates the concatenation, because a slice
// of a concatenation does not determine the other part. From the other end, two rules remove it.
TEST(Derive, MeetsInTheMiddle) {
  const std::string head = "graph g\n%x = input() shape=[8, 6]\n%y = input() shape=[8, 6]\n";
  const auto two =
      graph::parse_graph(head + "%r = relu(%x)\n%s = relu(%y)\n%rr = tanh(%r)\nreturn %rr, %s\n");
  const auto one = graph::parse_graph(
      head +
      "%c = concat(%x, %y) axis=0\n%r = relu(%c)\n%a = slice(%r) axis=0 begin=0 size=8\n"
      "%b = slice(%r) axis=0 begin=8 size=8\n%aa = tanh(%a)\nreturn %aa, %b\n");
  const auto set = add_reversals(parse_rules(R"(
relu-of-concat: (relu (concat ?x ?y axis=?a)) => (concat (relu ?x) (relu ?y) axis=?a)
first: (slice (concat ?x ?y axis=?a) axis=?a begin=0 size=dim(?x, ?a)) => ?x
second: (slice (concat ?x ?y axis=?a) axis=?a begin=dim(?x, ?a) size=dim(?y, ?a)) => ?y
)"));
  const auto found = Deriver(set).derive(two, one);
  ASSERT_TRUE(found.is_found);
  EXPECT_TRUE(found.steps.empty());
  EXPECT_EQ(found.back.size(), 3U) << to_text(found.back);
  EXPECT_EQ(replay(one, found.back, make_rule_finder(set)).identity_hash(), two.identity_hash());
  const auto turned = Deriver(set).derive(one, two);
  EXPECT_EQ(turned.steps.size(), 3U) << to_text(turned.steps);
  EXPECT_TRUE(turned.back.empty());
}

// One side adds the halves of the rows, then those of the columns, and concatenates the result with
// itself. The other does so in another order. The derivation has sixteen steps, most of which
// reduce no difference. The rule is from FlexFlow's collection.
TEST(Derive, ContinuesWithoutProgress) {
  const std::string head = "graph g\n%x = input() shape=[8/2, 12/2]\n";
  const auto sum_of_halves = [](const std::string& out, const std::string& in, int dim) {
    return fmt::format(
        "%c{0} = combine(%{1}) dim={2} degree=2\n%p{0} = split(%c{0}) axis={2} parts=2\n"
        "%q{0} = split(%c{0}) axis={2} parts=2 part=1\n%{0} = add(%p{0}, %q{0})\n",
        out, in, dim);
  };
  const auto twice = [](const std::string& out, const std::string& in) {
    return fmt::format("%k = concat(%{1}, %{1}) axis=1\n%{0} = partition(%k) dim=1 degree=2\n", out,
                       in);
  };
  const auto from =
      graph::parse_graph(head + sum_of_halves("a", "x", 0) + sum_of_halves("b", "a", 1) +
                         twice("y", "b") + "return %y\n");
  const auto to = graph::parse_graph(head + sum_of_halves("a", "x", 1) + twice("b", "a") +
                                     sum_of_halves("y", "b", 0) + "return %y\n");
  const auto rules = add_reversals(list_usable_rules());
  const auto found = Deriver(rules).derive(from, to, {.graphs = 100'000});
  ASSERT_TRUE(found.is_found);
  EXPECT_EQ(replay(from, found.steps, make_rule_finder(rules)).identity_hash(),
            replay(to, found.back, make_rule_finder(rules)).identity_hash());
}

}  // namespace
}  // namespace tandem::rewrite
