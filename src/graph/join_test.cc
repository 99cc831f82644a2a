// Tests join: the types it takes, and that adding by partial sums is adding.
#include <gtest/gtest.h>

#include "graph/one_device_test_support.h"
#include "graph/text.h"
#include "ops/attributes.h"
#include "ops/registry.h"

namespace tandem::graph {
namespace {

using term::Field;

std::string get_error(const std::string& text) {
  try {
    parse_graph(text);
  } catch (const UserError& e) {
    return e.message + (e.hint.empty() ? "" : " (" + e.hint + ")");
  }
  return "accepted";
}

// The operands are partial sums already, or cut, or replicated; two and three are joined.
TEST(Join, EqualsTheSumOfItsOperands) {
  std::uint64_t cases = 0;
  for (const auto* type :
       {"[6, 4]", "[6/2, 4]", "[6/3, 4/2]", "[6, 4]*2", "[6/2, 4]+3", "[6, 4/2]*2+3"}) {
    for (const std::size_t operands : {2U, 3U}) {
      GraphBuilder b("g");
      std::vector<NodeId> inputs;
      for (std::size_t i = 0; i < operands; ++i) {
        const auto shape = parse_parallel_shape(type).value();
        inputs.push_back(b.weight(fmt::format("x{}", i), shape, DType::kFp32));
      }
      inputs.back() = inputs.front();  // one operand twice
      const auto joined = b.add(ops::make_op(ops::kJoin, ops::NoAttributes{}), inputs, "s");
      const auto graph = b.finish({joined});
      SCOPED_TRACE(to_text(graph));
      expect_equals_one_device<Field>(graph, ++cases);
    }
  }
}

TEST(Join, ErasesToAdditions) {
  const auto pcg = parse_graph(
      "graph g\n%x = weight() shape=[4]\n%y = weight() shape=[4]\n%z = weight() shape=[4]\n"
      "%s = join(%x, %y, %z) : [4]+3 fp32\n%r = reduce(%s) degree=3 : [4] fp32\nreturn %r\n");
  EXPECT_EQ(to_text(erase_parallelism(pcg)),
            "graph g\n%x = weight() shape=[4]\n%y = weight() shape=[4]\n%z = weight() "
            "shape=[4]\n%s.1 = add(%x, %y) : [4] fp32\n%s = add(%s.1, %z) : [4] fp32\n"
            "return %s\n");
}

TEST(Join, Errors) {
  const auto join = [](const char* x, const char* y, const char* operands = "%x, %y") {
    return get_error(
        fmt::format("graph g\n%x = weight() {}\n%y = input() {}\n%s = join({})\n"
                    "return %s\n",
                    x, y, operands));
  };
  EXPECT_EQ(join("shape=[4]", "shape=[4]"), "accepted");
  EXPECT_EQ(join("shape=[4]", "shape=[4]", "%x"), "join %s: takes at least 2 inputs, but has 1");
  EXPECT_EQ(join("shape=[4]", "shape=[4/2]"),
            "join %s: input 1 is [4/2] fp32, but input 0 is [4] fp32 (all joined tensors must have "
            "the same type)");
  EXPECT_EQ(join("shape=[4]", "shape=[4] dtype=int64 below=2"),
            "join %s: input 1 is int64, but must be a real type");
  EXPECT_EQ(join("shape=[4]^2", "shape=[4]^2"),
            "join %s: partial maxima cannot be joined (reduce them first)");
}

}  // namespace
}  // namespace tandem::graph
