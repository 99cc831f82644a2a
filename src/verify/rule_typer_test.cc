#include "verify/rule_typer.h"

#include <gtest/gtest.h>

#include "rewrite/rule_text.h"
#include "verify/instances.h"
#include "verify/random_instances.h"

namespace tandem::verify {
namespace {

// Rules whose operators have symbols, sizes of tensors, degrees and conditions.
constexpr std::string_view kRules[] = {
    "(relu (linear ?x ?w)) => (linear ?x ?w act=relu)",
    "(matmul (concat ?x ?y axis=?a) ?z) => (concat (matmul ?x ?z) (matmul ?y ?z) axis=?a) if "
    "rank(?x) == 2 and ?a == 0",
    "(slice (concat ?x ?y axis=?a) axis=?a begin=dim(?x, ?a) size=dim(?y, ?a)) => ?y",
    "(add (split ?x axis=?a parts=2) (split ?x axis=?a parts=2 part=1)) => (add (split ?x axis=?a "
    "parts=2 part=1) (split ?x axis=?a parts=2))",
    "(partition (relu ?x) dim=?a degree=?d) => (relu (partition ?x dim=?a degree=?d))",
};

// Types one instance without reuse.
Fit plain_fit(const Rule& rule, const Instance& instance) {
  const auto source = type_side(rule.source, instance);
  if (!source) return Fit::kNotEvenSource;
  const auto target = type_side(rule.target, instance);
  if (!target) return Fit::kSourceOnly;
  for (std::size_t i = 0; i < source->outputs.size(); ++i) {
    const auto& from = source->nodes[source->outputs[i]].type;
    if (from != target->nodes[target->outputs[i]].type) return Fit::kSourceOnly;
  }
  return Fit::kBoth;
}

bool plainly_occurs(const Rule& rule, const Instance& instance) {
  std::vector<const TensorType*> tensors;
  for (const auto& t : instance.tensors) tensors.push_back(&t);
  return type_side(rule.source, instance) &&
         std::ranges::all_of(rule.conditions, [&](const auto& condition) {
           return rewrite::holds(condition, {tensors, instance.symbols});
         });
}

// Reuse from one instance does not change the result of the next, whether that fits or not.
TEST(RuleTyper, AgreesWithTypingASingleInstance) {
  for (const auto text : kRules) {
    const auto rule = rewrite::parse_rule("typed: " + std::string(text))[0];
    const auto bases = find_patterns(rule).bases;
    ASSERT_FALSE(bases.empty()) << text;
    auto instances = draw_instances(rule, bases, 300, 1);
    // Mixes the sizes of one instance with the symbols of another; most of these do not fit.
    const auto count = instances.size();
    for (std::size_t i = 0; i < count; ++i) {
      auto mixed = instances[i];
      mixed.tensors.back() = instances[(i * 7 + 3) % count].tensors.back();
      if (!mixed.symbols.empty()) mixed.symbols[0] = instances[(i * 5 + 1) % count].symbols[0];
      instances.push_back(std::move(mixed));
    }
    RuleTyper typer(rule);
    int misfits = 0;
    for (std::size_t i = 0; i < instances.size(); ++i) {
      const auto& at = instances[i * 37 % instances.size()];
      const auto fit = plain_fit(rule, at);
      EXPECT_EQ(typer.check_fit(at), fit) << to_text(rule, at);
      EXPECT_EQ(typer.occurs(at), plainly_occurs(rule, at)) << to_text(rule, at);
      if (fit == Fit::kNotEvenSource) ++misfits;
    }
    EXPECT_GT(misfits, rule.tensors.size() > 1 ? 10 : -1) << text;
  }
}

}  // namespace
}  // namespace tandem::verify
