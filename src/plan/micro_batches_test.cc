// Tests micro-batches as operators: plan files contain them, and inconsistent ones are rejected.
#include "plan/micro_batches.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "graph/text.h"
#include "ops/registry.h"
#include "plan/random_choices_test_support.h"
#include "rewrite/derivation.h"
#include "rewrite/rule_text.h"

namespace tandem::plan {
namespace {

const Schedule kSchedule{.micro_batches = 4, .stages = 2, .digits = 0b10};

MappedGraph make_pipeline(const graph::Graph& model, std::uint64_t seed) {
  const auto digits = make_digits({2, 2}, 4);
  return parallelize(model, digits, Chooser(model, digits, seed, kSchedule).run(), kSchedule);
}

TEST(MicroBatches, RoundTripRandomPlans) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    if (seed % 3 == 1) continue;  // attention's batch is too small for four micro-batches
    const auto mapped = make_pipeline(random_model(16, seed), seed);
    const auto written = add_pipeline_nodes(mapped);
    SCOPED_TRACE(graph::to_text(written.pcg));
    const auto cut = find_micro_batched(mapped);
    EXPECT_FALSE(cut.empty());
    EXPECT_EQ(written.pcg.size(), mapped.pcg.size() + cut.size());
    EXPECT_EQ(erase_parallelism(written.pcg).identity_hash(),
              erase_parallelism(mapped.pcg).identity_hash());
    const auto back = remove_pipeline_nodes(written);
    EXPECT_EQ(graph::to_text(back.pcg), graph::to_text(mapped.pcg));
    EXPECT_EQ(back.layouts, mapped.layouts);
    EXPECT_EQ(back.stage, mapped.stage);
    EXPECT_EQ(back.recompute, mapped.recompute);
  }
}

TEST(MicroBatches, AreDerivedByTheShippedRule) {
  const auto model = random_model(16, 0);
  const auto cut = find_micro_batched(make_pipeline(model, 0));
  const auto steps = make_pipeline_steps(model, cut);
  ASSERT_EQ(steps.size(), cut.size());
  const auto rules = rewrite::parse_rules(pipeline_rule(), "rules");
  const auto derived = rewrite::replay(model, steps, rewrite::make_rule_finder(rules));
  EXPECT_EQ(derived.identity_hash(), steps.back().after);
  EXPECT_EQ(find_micro_batched(derived).size(), cut.size());
  for (const auto& [name, how] : find_micro_batched(derived)) EXPECT_EQ(how, cut.at(name)) << name;
  EXPECT_EQ(erase_parallelism(derived).identity_hash(), model.identity_hash());
  for (const auto& step : steps) EXPECT_TRUE(is_pipeline_step(step));
}

// Returns the error for the graph with `from` replaced by `to` and `count` micro-batches.
std::string complaint(const std::string& from, const std::string& to, std::int64_t count = 2) {
  std::string text =
      "graph m\n%x = input() shape=[8, 4]\n%x.pipeline = pipeline(%x) count=2\n"
      "%w = weight() shape=[4, 4]*2\n%y = linear(%x.pipeline, %w)\n%t = input() shape=[8, 4]\n"
      "%t.pipeline = pipeline(%t) count=2\n%l = mse(%y, %t.pipeline)\nreturn %l\n";
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  MappedGraph written;
  written.pcg = graph::parse_graph(text);
  written.schedule.micro_batches = count;
  for (auto id : written.pcg.ids()) {
    const auto& node = written.pcg.node(id);
    const auto* whole = node.type.shape.is_undivided() ? "." : "0";
    const auto* layout = is_weight(node) ? "r" : node.op.is(ops::kMse) ? "p" : whole;
    written.layouts.push_back(*machine::parse_layout(layout));
  }
  written.stage.resize(written.pcg.size());
  written.recompute.resize(written.pcg.size());
  try {
    remove_pipeline_nodes(written);
    return "";
  } catch (const UserError& error) {
    return error.where + ": " + error.message;
  }
}

TEST(MicroBatches, AreRefusedIfTheyDisagree) {
  EXPECT_EQ(complaint("mse", "mse"), "");
  EXPECT_EQ(complaint("mse", "mse", 4),
            "%x.pipeline: makes 2 micro-batches, but the schedule has 4");
  EXPECT_EQ(complaint("%x = input() shape=[8, 4]\n%x.pipeline = pipeline(%x) count=2\n",
                      "%x.pipeline = input() shape=[8/2, 4]\n"),
            "%x.pipeline: is read by micro-batch, but has no pipeline node");
  EXPECT_EQ(complaint("pipeline(%x) count=2", "pipeline(%x) count=2\n%u = mse(%x, %x)"),
            "%u: reads %x before it is split into micro-batches");
  EXPECT_EQ(
      complaint("pipeline(%x) count=2", "pipeline(%x) count=2\n%v = batch(%x.pipeline) count=2"),
      "%v: is a batch node, which plans must not have: their layouts imply it");
}

TEST(MicroBatches, AreCountedInTypes) {
  const auto graph = graph::parse_graph(
      "graph m\n%x = input() shape=[8, 4]\n%p = pipeline(%x) count=4\n%b = batch(%p) count=4\n"
      "return %b\n");
  EXPECT_EQ(to_text(graph.node(graph::NodeId(1)).type.shape), "[8/4, 4]");
  EXPECT_EQ(to_text(graph.node(graph::NodeId(2)).type.shape), "[8, 4]");
}

}  // namespace
}  // namespace tandem::plan
