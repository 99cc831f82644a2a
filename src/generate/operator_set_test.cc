#include "generate/operator_set.h"

#include <gtest/gtest.h>

#include "base/error_test_support.h"

namespace tandem::generate {
namespace {

TEST(OperatorSet, ParsesText) {
  const auto set = parse_operator_set(R"(
tensors [4, 8] 3
indices [4] 2 below 5
(split ?x axis=0 parts=2), (split ?x axis=0 parts=2 part=1) if rank(?x) == 2
constant n=4: (constant shape=[?n, ?n] kind="eye" value=1)
)");
  ASSERT_EQ(set.variables.size(), 2U);
  EXPECT_EQ(set.variables[0].type.shape, (ParallelShape{4, 8}));
  EXPECT_EQ(set.variables[1].below, 5);
  ASSERT_EQ(set.operations.size(), 3U);  // the constant, and an operation for each output
  EXPECT_EQ(set.operations[0].arity, 0U);
  EXPECT_EQ(set.operations[0].sizes, std::vector<std::int64_t>{4});
  EXPECT_EQ(set.operations[1].line, set.operations[2].line);
  EXPECT_EQ(set.operations[1].conditions.size(), 1U);
}

TEST(OperatorSet, ReportsErrors) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"tensors 4 3", "'4 3' is not a group of variables"},
      {"tensors [4] 0", "'[4] 0' is not a group of variables"},
      {"indices [4] 2", "'[4] 2' is not a group of variables"},
      {"(rellu ?x)", "rellu"},
      {"(concat ?x ?y axis=?a)", "attributes in an operator set must have values"},
      {"constant n: (constant shape=[?n])", "'n' does not set a size"},
      {"constant (constant shape=[?n])", "a size of the constant has no value"},
  };
  for (const auto& [text, expected] : cases) {
    const auto message = get_error([&, text = text] { (void)parse_operator_set(text); });
    EXPECT_NE(message.find(expected), std::string::npos) << message;
  }
  EXPECT_NE(get_error([] { (void)operator_set("tasso"); }).find("unknown operator set 'tasso'"),
            std::string::npos);
}

}  // namespace
}  // namespace tandem::generate
