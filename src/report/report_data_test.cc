// Compares the document of a plan's page with the plan.
#include "report/report_data.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "graph/text.h"
#include "plan/parallelize.h"
#include "report/explained_test_support.h"
#include "report/node_rules.h"
#include "report/report_page.h"
#include "rewrite/derivation.h"
#include "rewrite/matches.h"
#include "rewrite/rule_text.h"

namespace tandem::report {
namespace {

using Json = nlohmann::ordered_json;

Json make_data(const ExplainedPlan& e, std::size_t most_spans = kMostReportedSpans) {
  const auto view = e.view();
  return report_data({.view = view, .title = "a plan", .headline = {{"model", "m"}}}, most_spans);
}

// Checks that each column has an entry per node, and that numbers refer to existing texts and
// nodes.
void expect_whole(const Json& graph) {
  const auto nodes = graph.at("name").size();
  for (const auto* key : {"op", "inputs", "source", "type", "how_of", "layout", "stage", "bytes"}) {
    EXPECT_EQ(graph.at(key).size(), nodes) << key;
  }
  for (std::size_t n = 0; n < nodes; ++n) {
    EXPECT_LT(graph["op"][n].get<std::size_t>(), graph["ops"].size());
    EXPECT_LT(graph["type"][n].get<std::size_t>(), graph["types"].size());
    EXPECT_LT(graph["how_of"][n].get<std::size_t>(), graph["how"].size());
    EXPECT_LT(graph["layout"][n].get<std::size_t>(), graph["layouts"].size());
    for (const auto& input : graph["inputs"][n]) EXPECT_LT(input.get<std::size_t>(), n);
  }
  for (const auto& move : graph.at("moves")) {
    EXPECT_LT(move[0].get<std::size_t>(), nodes);
    const auto operands = graph["inputs"][move[0].get<std::size_t>()].size();
    EXPECT_LT(move[1].get<std::int64_t>(), static_cast<std::int64_t>(operands));
  }
}

// Checks that the tasks of a stream are in order without overlap, and that all are the
// simulation's.
void expect_timeline(const Json& timeline, const ExplainedPlan& e) {
  std::size_t spans = 0;
  std::int64_t computing = 0;
  for (const auto& device_class : timeline.at("classes")) {
    for (const auto& stream : device_class.at("streams")) {
      std::int64_t end = 0;
      for (std::size_t i = 0; i < stream["task"].size(); ++i) {
        const auto start = stream["start"][i].get<std::int64_t>();
        EXPECT_GE(start, end - 1);
        end = start + stream["duration"][i].get<std::int64_t>();
        EXPECT_LT(stream["task"][i].get<std::size_t>(), timeline["tasks"]["what"].size());
        ++spans;
        const bool busiest = device_class["number"] == timeline["busiest"];
        if (busiest && stream["computes"].get<bool>())
          computing += stream["duration"][i].get<std::int64_t>();
      }
    }
  }
  EXPECT_EQ(spans, e.simulation.timeline.size());
  EXPECT_NEAR(static_cast<double>(computing) * 1e-9, e.simulation.compute.value,
              1e-9 * static_cast<double>(spans));
}

double highest(const Json& memory) {
  double out = 0;
  for (std::size_t i = 0; i < memory["at"].size(); ++i) {
    double sum = 0;
    for (const auto* kind : {"weights", "optimizer_state", "gradients", "activations", "inputs"}) {
      sum += memory[kind][i].get<double>();
    }
    out = std::max(out, sum);
  }
  return out;
}

TEST(ReportData, DescribesThePlan) {
  const auto e = explain_plan("gpt2:layers=4,hidden=32,heads=4,ffn=64,vocab=32,seq=8", "dgx_a100:2",
                              32, "megatron:tp=2,dp=8");
  const auto data = make_data(e);
  expect_whole(data.at("graph"));
  expect_timeline(data.at("timeline"), e);
  // The layers are equivalent, and only one of them has facts.
  const auto& blocks = data["graph"]["blocks"];
  ASSERT_FALSE(blocks.empty());
  EXPECT_GE(blocks[0]["count"].get<int>(), 3);
  EXPECT_LT(data["graph"]["facts"].size(), data["graph"]["name"].size());
  std::set<std::string> kinds;
  for (const auto& move : data["graph"]["moves"]) kinds.insert(move[2].get<std::string>());
  EXPECT_TRUE(kinds.contains("all_reduce"));
  EXPECT_NEAR(highest(data["timeline"]["classes"][0]["memory"]), e.simulation.memory.value, 5);
  EXPECT_EQ(data["machine"]["devices"], 16);
  EXPECT_TRUE(data["before"].is_null());
  EXPECT_TRUE(data["search"].is_null());
}

TEST(ReportData, DistinguishesTheStagesOfAPipeline) {
  const auto e = explain_plan("mlp:layers=8,hidden=8,inputs=8,outputs=8", "dgx_a100:2", 64,
                              "megatron:tp=1,pp=4,micro=4");
  const auto data = make_data(e);
  expect_whole(data.at("graph"));
  expect_timeline(data.at("timeline"), e);
  EXPECT_EQ(data["timeline"]["classes"].size(), 4U);
  const auto& classes = data["machine"]["classes"];
  ASSERT_EQ(classes.size(), 4U);
  for (const auto& c : classes) {
    const auto sum =
        c["compute_s"].get<double>() + c["exposed_s"].get<double>() + c["idle_s"].get<double>();
    EXPECT_NEAR(sum, e.simulation.iteration.value, 1e-9);
  }
  // The digits of classes give the number of classes, and nodes have their stage.
  std::int64_t product = 1;
  for (const auto& d : data["machine"]["class_digits"]) {
    product *= data["machine"]["digits"][d.get<std::size_t>()]["size"].get<std::int64_t>();
  }
  EXPECT_EQ(product, 4);
  std::set<int> stages;
  for (const auto& stage : data["graph"]["stage"]) stages.insert(stage.get<int>());
  EXPECT_EQ(stages, (std::set<int>{0, 1, 2, 3}));
  // Without room, only the busiest class is shown.
  EXPECT_EQ(make_data(e, 0)["timeline"]["classes"].size(), 1U);
}

TEST(ReportData, NamesTheRuleThatCreatedANode) {
  const auto model = graph::parse_graph(R"(graph g
%x = input() shape=[8, 8]
%w = weight() shape=[8, 8]
%h = linear(%x, %w)
%r = relu(%h)
%t = input() shape=[8, 8]
%loss = mse(%r, %t)
return %loss
)",
                                        "g");
  const std::string text = "fuse-linear-relu: (relu (linear ?x ?w)) => (linear ?x ?w act=relu)";
  rewrite::Dictionary dictionary;
  const rewrite::RuleSet rules(rewrite::parse_rule(text), dictionary, {});
  const auto before = rewrite::Draft::from_graph(model, dictionary);
  const auto match = rewrite::Matches::find(rules, before).all().at(0);
  std::vector<rewrite::Slot> changed;
  const auto after = rules.apply(before, match, changed);
  ASSERT_TRUE(after.has_value());
  plan::Plan plan;
  plan.mapped.pcg = after->to_graph(model, dictionary);
  plan.derivation = {rewrite::make_derivation_step(rules, match, before, *after)};
  plan.rules = {text};
  const auto made = find_node_rules(plan, model);
  ASSERT_EQ(made.size(), 1U);
  EXPECT_EQ(made.begin()->second.rule, "fuse-linear-relu");
  EXPECT_EQ(made.begin()->second.step, 1U);
  plan.derivation[0].after += 1;
  EXPECT_TRUE(find_node_rules(plan, model).empty());
}

TEST(ReportPage, EscapesScriptEnds) {
  const auto e = explain_plan("mlp:layers=2,hidden=8,inputs=8,outputs=8", "local:2", 8, "dp");
  auto data = make_data(e);
  data["title"] = "</script><script>alert(1)</script>";
  const auto page = report_page(data);
  EXPECT_EQ(page.find("alert(1)</script>"), std::string::npos);
  EXPECT_EQ(page.find("src="), std::string::npos);
  EXPECT_EQ(page.find("{{"), std::string::npos);
  // The page contains the document with rounded numbers.
  const std::string open = "id=\"plan-data\">";
  const auto from = page.find(open) + open.size();
  const auto parsed = Json::parse(page.substr(from, page.find("</script>", from) - from));
  EXPECT_EQ(parsed["title"], data["title"]);
  EXPECT_EQ(parsed["graph"]["name"], data["graph"]["name"]);
}

TEST(ReportPage, RoundsNumbersExceptIntegers) {
  EXPECT_EQ(script_json({{"a", 0.1234567891}, {"b", 123456789}, {"c", "<"}}),
            R"({"a":0.123457,"b":123456789,"c":"\u003c"})");
}

}  // namespace
}  // namespace tandem::report
