#include "verify/property_check.h"

#include <gtest/gtest.h>

#include <iostream>
#include <span>
#include <string_view>

#include "rewrite/rule_text.h"
#include "verify/properties.h"

namespace tandem::verify {
namespace {

rewrite::Rule property(const std::string& text) {
  return rewrite::parse_rule("property: " + text)[0];
}

void expect_all_hold(std::span<const rewrite::Rule> properties, const PropertyLimits& limits) {
  for (const auto& check : check_properties(properties, limits)) {
    EXPECT_TRUE(check.holds()) << check.name << ": " << check.instances << " instances, "
                               << check.refuted;
  }
}

TEST(PropertyCheck, ProvesASample) {
  std::vector<rewrite::Rule> some;
  for (std::size_t i = 0; i < all_properties().size(); i += 5) some.push_back(all_properties()[i]);
  expect_all_hold(some, {.instances_of_pattern = 4,
                         .divided_instances = 4,
                         .attribute_values = 3,
                         .instances = 40,
                         .tries = 3000,
                         .patterns = 9});
}

TEST(PropertyCheck, ProvesEachNightly) { expect_all_hold(all_properties(), {}); }

// Axioms that TASO tried and that are wrong as stated, and others without their conditions.
TEST(PropertyCheck, RefutesPropertiesWithoutTheirConditions) {
  const std::string_view wrong[] = {
      // Concatenation associates along one axis only, and then the halves are not the operands.
      "(concat ?x (concat ?y ?z axis=?a) axis=?b) => (concat (concat ?x ?y axis=?b) ?z axis=?a)",
      "(split (concat ?x ?y axis=?a) axis=?a parts=2 part=0) => ?x",
      "(split (concat ?x ?y axis=?a) axis=?a parts=2 part=1) => ?y",
      // Grouped convolution.
      "(concat (conv2d ?x ?v groups=?g) (conv2d ?y ?w groups=?g) axis=1) => (conv2d (concat ?x ?y "
      "axis=1) (concat ?v ?w axis=0) groups=?g*2)",
      "(concat (conv2d ?x ?v groups=?g) (conv2d ?x ?w groups=?g) axis=1) => (conv2d ?x (concat ?v "
      "?w axis=0) groups=?g)",
      "(add (conv2d ?x ?v groups=?g) (conv2d ?y ?w groups=?g)) => (conv2d (concat ?x ?y axis=1) "
      "(concat ?v ?w axis=1) groups=?g)",
      // A larger kernel without more padding; the identity in a grouped convolution.
      "(conv2d ?x (pad ?w axis=2 before=1 after=1) padding=[1, 0]) => (conv2d ?x ?w padding=[1, "
      "0])",
      "(conv2d ?x (pad ?w axis=2 before=1 after=0) padding=[1, 0]) => (conv2d ?x ?w)",
      "(conv2d ?x (constant shape=[?c, 1, 1, 1] value=1) groups=?g) => ?x",
      // Sizes of 1 are broadcast.
      "(matmul ?x (add ?y ?z)) => (add (matmul ?x ?y) (matmul ?x ?z))",
      "(concat (add ?x ?y) (add ?z ?w) axis=?a) => (add (concat ?x ?z axis=?a) (concat ?y ?w "
      "axis=?a))",
      "(concat (matmul ?x ?y) (matmul ?x ?z) axis=?a) => (matmul ?x (concat ?y ?z axis=?a))",
      // Plainly wrong rules.
      "(matmul ?x ?y) => (matmul ?y ?x)",
      "(relu (add ?x ?y)) => (add (relu ?x) (relu ?y))",
      "(max_pool2d (concat ?x ?y axis=?a) kernel=[2, 2]) => (concat (max_pool2d ?x kernel=[2, 2]) "
      "(max_pool2d ?y kernel=[2, 2]) axis=?a)",
      "(reduce (relu (partition ?x dim=?i degree=?d)) degree=?e) => (relu ?x)",
      "(combine (partition ?x dim=?i degree=?d) dim=?j degree=?d) => ?x",
      "(add (replicate ?x degree=?d) (replicate ?y degree=?d)) => (add ?x ?y)",
      "(linear (partition ?x dim=?i degree=?d) (partition ?w dim=1 degree=?d)) => (linear ?x ?w)",
      "(matmul (partition ?x dim=?i degree=?d) (replicate ?y degree=?d)) => (partition (matmul ?x "
      "?y) dim=1 degree=?d)",
  };
  for (const auto text : wrong) {
    const auto check = check_property(property(std::string(text)));
    EXPECT_NE(check.refuted, "") << text << "\n" << check.instances << " instances";
  }
}

TEST(PropertyCheck, ReportsPlaceAndValues) {
  EXPECT_EQ(check_property(property("(split (concat ?x ?y axis=0) axis=0 parts=2) => ?x")).refuted,
            "?x [4, 1, 3], ?y [2, 1, 3]: output 0 is [3, 1, 3] and [4, 1, 3]");
}

TEST(PropertyCheck, NamesRedundantProperties) {
  if (!SmtProver::is_available()) GTEST_SKIP() << "built without Z3";
  const auto properties = rewrite::parse_rules(
      "relu-passes-concat: (relu (concat ?x ?y axis=?a)) <=> (concat (relu ?x) (relu ?y) "
      "axis=?a)\n"
      "three: (concat ?x ?y ?z axis=?a) <=> (concat (concat ?x ?y axis=?a) ?z axis=?a)\n"
      "relu-of-three: (relu (concat ?x ?y ?z axis=?a)) => (concat (relu ?x) (relu ?y) (relu ?z) "
      "axis=?a)\n");
  const auto redundant = find_redundant(properties);
  ASSERT_EQ(redundant.size(), 1u);
  EXPECT_EQ(redundant[0].name, "relu-of-three");
  EXPECT_EQ(
      redundant[0].follows_from,
      (std::vector<std::string>{"relu-passes-concat", "relu-passes-concat-reversed", "three"}));
}

// A `<=>` is listed if either direction follows.
TEST(PropertyCheck, ListsRedundantPropertiesNightly) {
  if (!SmtProver::is_available()) GTEST_SKIP() << "built without Z3";
  for (const auto& [name, from] : find_redundant(all_properties())) {
    std::string text;
    for (const auto& f : from) text += " " + f;
    std::cout << name << " follows from" << text << "\n";
  }
}

}  // namespace
}  // namespace tandem::verify
