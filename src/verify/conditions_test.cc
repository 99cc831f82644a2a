#include "verify/conditions.h"

#include <gtest/gtest.h>

#include "rewrite/rule_text.h"

namespace tandem::verify {
namespace {

Instance make_instance(const std::vector<ParallelShape>& shapes) {
  Instance out;
  for (const auto& shape : shapes) out.tensors.push_back(TensorType{shape});
  return out;
}

std::string find_conditions_text(const std::string& line, const std::vector<Instance>& good,
                                 const std::vector<Instance>& bad) {
  const auto rule = rewrite::parse_rule(line)[0];
  const auto conditions = find_separating_conditions(rule, good, bad);
  if (!conditions) return "none";
  std::string out;
  for (const auto& c : *conditions) {
    out += (out.empty() ? "" : " and ") + rewrite::to_text(rule, c);
  }
  return out;
}

TEST(Conditions, SeparateTrueFromFalseInstances) {
  const std::string add = "t: (add ?x ?y) => (add ?y ?x)";
  EXPECT_EQ(find_conditions_text(add, {make_instance({{2, 3}, {2, 3}}), make_instance({{4}, {4}})},
                                 {make_instance({{2, 3}, {1, 3}}), make_instance({{2, 3}, {3}})}),
            "same_shape(?x, ?y)");
  EXPECT_EQ(
      find_conditions_text(add, {make_instance({{2, 3}, {3}}), make_instance({{2, 3}, {2, 3}})},
                           {make_instance({{3}, {2, 3}}), make_instance({{3}, {3}})}),
      "1 < rank(?x)");
  // No condition separates equal instances.
  EXPECT_EQ(find_conditions_text(add, {make_instance({{2}, {2}})}, {make_instance({{2}, {2}})}),
            "none");
}

}  // namespace
}  // namespace tandem::verify
