// Tests random models under random choices. The parallel graph's erasure has the same identity as
// the model. The graph is legally mapped, and computes exactly the same loss and weight gradients.
#include "plan/parallelize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "base/fewer_test_support.h"
#include "graph/sequential.h"
#include "graph/text.h"
#include "graph/virtual_devices.h"
#include "plan/random_choices_test_support.h"

namespace tandem::plan {
namespace {

using graph::Graph;
using graph::NodeId;
using machine::Digits;
using machine::DigitUse;
using machine::Layout;
using term::Field;

std::string layout_text(const Layout& layout) { return machine::to_text(layout); }

// --- The properties ------------------------------------------------------------------------------

void expect_same_training_step(const Graph& model, const Graph& pcg, std::uint64_t seed) {
  const auto serial = graph::run_forward<Field>(model, graph::make_feed_values<Field>(model, seed));
  const auto expected =
      graph::run_backward<Field>(model, serial, graph::make_loss_gradient<Field>(model));
  const auto sharded =
      graph::run_sharded_forward<Field>(pcg, graph::make_feed_values<Field>(pcg, seed));
  const auto actual = graph::run_sharded_backward<Field>(
      pcg, sharded, graph::make_sharded_loss_gradient<Field>(pcg));
  const auto loss = [](const Graph& g) { return g.outputs()[0].index(); };
  bool agree = false;
  EXPECT_EQ(assemble(sharded[loss(pcg)], &agree), serial[loss(model)]);
  EXPECT_TRUE(agree) << "replicas of the loss differ";
  std::map<std::string, NodeId> at;
  for (auto id : pcg.ids()) at[pcg.node(id).name] = id;
  for (auto id : model.ids()) {
    const auto& node = model.node(id);
    if (!is_weight(node)) continue;
    const auto& gradient = actual[at.at(node.name).index()];
    EXPECT_EQ(assemble(gradient, &agree), expected[id.index()]) << "gradient of " << node.name;
    EXPECT_TRUE(agree) << "replicas of the gradient of " << node.name << " differ";
  }
}

TEST(Parallelize, PreservesRandomModelsUnderRandomChoices) {
  using Model = Graph (*)(std::int64_t, std::mt19937_64&);
  unsigned through = 0;
  std::map<std::string, unsigned> made;
  for (const auto& sizes : std::vector<std::vector<std::int64_t>>{{2, 2}, {2, 3}, {2, 2, 2}}) {
    const auto digits = make_digits(sizes);
    int number = 0;
    for (const Model make : {random_mlp, random_attention, random_tables}) {
      for (std::uint64_t seed = 0; seed < 60; seed += kFewer) {
        std::mt19937_64 random(seed);
        const auto model = make(digits.devices(), random);
        Chooser chooser(model, digits, seed);
        const auto mapped = parallelize(model, digits, chooser.run());
        SCOPED_TRACE(fmt::format("{} devices, model {}, seed {}:\n{}", digits.devices(), number,
                                 seed, to_text(mapped.pcg)));
        EXPECT_EQ(erase_parallelism(mapped.pcg).identity_hash(), model.identity_hash());
        EXPECT_NO_THROW(check_mapped(mapped, digits));
        expect_same_training_step(model, mapped.pcg, seed);
        if (HasFailure()) return;
        through += chooser.through_count();
        for (auto id : mapped.pcg.ids()) ++made[mapped.pcg.node(id).op.name()];
      }
      ++number;
    }
  }
  EXPECT_GT(through, 100 / kFewer);
  for (const auto* op : {"partition", "combine", "replicate", "reduce", "unreplicate"}) {
    EXPECT_GT(made[op], 100 / kFewer) << op;
  }
}

// --- By hand -------------------------------------------------------------------------------------

Graph one_linear() {
  return graph::parse_graph(
      "graph g\n%x = input() shape=[4, 8]\n%w = weight() shape=[6, 8]\n%y = linear(%x, %w)\n"
      "%a = relu(%y)\n%b = relu(%y)\nreturn %a, %b\n");
}

// Returns the choices of the nodes of one_linear(). d0, k and n are factors 0, 1 and 2 of linear.
std::vector<Choice> choices(DigitUse linear, DigitUse relu, std::string_view x,
                            std::string_view w) {
  std::vector<Choice> out(5);
  out[0].source = machine::parse_layout(x).value();
  out[1].source = machine::parse_layout(w).value();
  out[2].node.uses[0] = linear;
  out[3].node.uses[0] = relu;
  out[4].node.uses[0] = relu;
  return out;
}

TEST(Parallelize, InsertsOnlyWeightReplicasForDataParallelism) {
  const auto digits = make_digits({2});
  const auto mapped = parallelize(one_linear(), digits,
                                  choices(DigitUse::factor(0), DigitUse::factor(0), "0", "."));
  EXPECT_EQ(to_text(mapped.pcg), R"(graph g
%x = input() shape=[4/2, 8]
%w = weight() shape=[6, 8]
%replicate2 = replicate(%w) degree=2 : [6, 8]*2 fp32
%y = linear(%x, %replicate2) : [4/2, 6] fp32
%a = relu(%y) : [4/2, 6] fp32
%b = relu(%y) : [4/2, 6] fp32
return %a, %b
)");
  std::vector<std::string> layouts;
  for (const auto& l : mapped.layouts) layouts.push_back(layout_text(l));
  EXPECT_EQ(layouts, (std::vector<std::string>{"0", ".", "r", "0", "0", "0"}));
}

TEST(Parallelize, ReshardsOnceForEqualReaders) {
  const auto digits = make_digits({2});
  const auto mapped =
      parallelize(one_linear(), digits, choices(DigitUse::factor(1), DigitUse::kReplica, "1", "1"));
  EXPECT_EQ(to_text(mapped.pcg), R"(graph g
%x = input() shape=[4, 8/2]
%w = weight() shape=[6, 8/2]
%y = linear(%x, %w) : [4, 6]+2 fp32
%reduce3 = reduce(%y) degree=2 : [4, 6] fp32
%replicate4 = replicate(%reduce3) degree=2 : [4, 6]*2 fp32
%a = relu(%replicate4) : [4, 6]*2 fp32
%b = relu(%replicate4) : [4, 6]*2 fp32
return %a, %b
)");
}

TEST(CheckMapped, ReportsMismatches) {
  const auto digits = make_digits({2});
  const auto good = parallelize(one_linear(), digits,
                                choices(DigitUse::factor(0), DigitUse::factor(0), "0", "r"));
  const auto error = [&](std::size_t node, std::string_view layout) -> std::string {
    auto bad = good;
    bad.layouts[node] = machine::parse_layout(layout).value();
    try {
      check_mapped(bad, digits);
      return "";
    } catch (const UserError& e) {
      return e.what();
    }
  };
  EXPECT_NO_THROW(check_mapped(good, digits));
  EXPECT_EQ(error(0, "00"), "input %x: layout '00' has 2 digits, but the machine has 1");
  EXPECT_EQ(error(0, "1"), "input %x: layout '1' does not match the type [4/2, 8]");
  EXPECT_EQ(error(0, "2"), "input %x: layout '2' does not match the type [4/2, 8]");
  EXPECT_EQ(error(2, "r"), "linear %y: layout 'r' does not match the type [4/2, 6]");
}

// The types agree but the devices do not: one digit partitions x's rows, another one the result's.
TEST(CheckMapped, RequiresEqualDigitsAcrossAnOperator) {
  const auto digits = make_digits({2, 2});
  auto all = choices(DigitUse::factor(0), DigitUse::factor(0), "0r", "rr");
  for (std::size_t i = 2; i < 5; ++i) all[i].node.uses[1] = DigitUse::kReplica;
  auto mapped = parallelize(one_linear(), digits, all);
  EXPECT_NO_THROW(check_mapped(mapped, digits));
  mapped.layouts[2] = machine::parse_layout("r0").value();
  try {
    check_mapped(mapped, digits);
    FAIL() << "accepted";
  } catch (const UserError& e) {
    EXPECT_STREQ(e.what(),
                 "linear %y: the layouts of its operands and its result are inconsistent");
  }
}

}  // namespace
}  // namespace tandem::plan
