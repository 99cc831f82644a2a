#include "report/node_facts.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "report/explained_test_support.h"
#include "report/tensor_names.h"

namespace tandem::report {
namespace {

const char* const kColumns = "mlp:layers=2,hidden=64,inputs=64,outputs=64";

NodeFacts find_facts(const ExplainedPlan& e, const std::string& name) {
  return collect_node_facts(e.view(), find_node(e.program.pcg, name, "plan.json"));
}

std::string transfers_text(const NodeFacts& facts) {
  std::vector<std::string> out;
  for (const auto& t : facts.transfers) {
    out.push_back(fmt::format("{} {} ({})", t.backward ? "backward" : "forward", t.what, t.of));
  }
  return join(out, ", ");
}

TEST(NodeFacts, DescribeColumnThenRowParallelLayers) {
  const auto e = explain_plan(kColumns, "local:2", 8, "megatron:tp=2");
  const auto columns = find_facts(e, "linear1");
  ASSERT_EQ(columns.levels.size(), 1U);
  EXPECT_EQ(columns.levels[0].text(),
            "2 processes: n (dimension 0 of w1) split 2 ways, which shards dimension 1 of the "
            "result");
  EXPECT_EQ(columns.index, "... k, n k -> ... n");
  EXPECT_TRUE(columns.transfers.empty());
  const auto rows = find_facts(e, "linear2");
  EXPECT_EQ(rows.levels[0].text(),
            "2 processes: k (dimension 1 of relu1, dimension 1 of w2) split 2 ways, which makes "
            "the result 2 partial sums");
  EXPECT_EQ(transfers_text(rows),
            "forward all_reduce of linear2 (the result), "
            "backward all_reduce of the gradient of linear2 (the result)");
  ASSERT_EQ(rows.backward_operands.size(), 2U);
  EXPECT_EQ(rows.backward_operands[0].name, "relu1");
  EXPECT_EQ(rows.backward_operands[1].name, "w2");
  const auto weight = find_facts(e, "w2");
  EXPECT_EQ(weight.levels[0].text(), "2 processes: dimension 1 sharded 2 ways");
  EXPECT_EQ(weight.state.value, 2 * 64 * 32 * 4);
  ASSERT_TRUE(weight.update.has_value());
}

// The roofline of a run gives the same time as the simulator.
TEST(NodeFacts, UseTheSimulatedTimeInTheRoofline) {
  for (const char* strategy : {"dp", "megatron:tp=2", "dp:recompute=full"}) {
    const auto e = explain_plan("gpt2:layers=2,hidden=32,heads=4,ffn=64,vocab=32,seq=8", "summit:1",
                                96, strategy);
    int passes = 0;
    for (auto id : e.program.pcg.ids()) {
      const auto facts = collect_node_facts(e.view(), id);
      for (const auto* pass : {&facts.forward, &facts.backward, &facts.recompute}) {
        if (!*pass || !(*pass)->roofline || (*pass)->time.times == 0) continue;
        const auto& r = *(*pass)->roofline;
        const auto expected = std::max(r.compute, r.memory) + r.launch;
        EXPECT_NEAR((*pass)->time.serialized.value, expected.value, 1e-9 * expected.value)
            << facts.name;
        ++passes;
      }
    }
    EXPECT_GT(passes, 20);
  }
}

}  // namespace
}  // namespace tandem::report
