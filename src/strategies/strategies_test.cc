// Known strategies on known models: which layouts they give the key tensors, what then travels, and
// that they train like one device.
#include "strategies/strategies.h"

#include <gtest/gtest.h>

#include <map>

#include "base/error.h"
#include "lower/lower.h"
#include "lower/task_interpreter.h"
#include "models/model.h"
#include "strategies/factor_kinds.h"

namespace tandem::strategies {
namespace {

using graph::Graph;
using lower::Program;
using lower::TaskKind;
using machine::DigitMask;
using machine::Digits;
using machine::Step;
using term::Field;

Digits digits_of(const std::vector<std::int64_t>& counts) {
  machine::Machine m;
  for (auto count : counts) m.levels.emplace_back().count = count;
  return Digits(m);
}

Graph build(std::string_view model, std::int64_t batch) {
  return models::parse_model(model).build(batch, DType::kFp32);
}

// Of every tensor by name, as text.
std::map<std::string, std::string> layouts(const Graph& model, const Digits& digits,
                                           const Strategy& strategy) {
  const auto mapped = plan::parallelize(model, digits, strategy.choices);
  std::map<std::string, std::string> out;
  for (auto id : mapped.pcg.ids()) {
    out[mapped.pcg.node(id).name] = machine::to_text(mapped.layouts[id.index()]);
  }
  return out;
}

void expect_layouts(const std::map<std::string, std::string>& actual,
                    const std::map<std::string, std::string>& expected) {
  for (const auto& [name, layout] : expected) {
    ASSERT_TRUE(actual.contains(name)) << name;
    EXPECT_EQ(actual.at(name), layout) << name;
  }
}

Program lowered(const Graph& model, const Digits& digits, const Strategy& strategy) {
  return lower::lower(plan::parallelize(model, digits, strategy.choices), digits,
                      plan::Optimizer::kSgd);
}

// How often each collective moves tensors of these global sizes, forward and backward.
std::pair<int, int> count_moves(const Program& program, Step kind, const Shape& sizes) {
  std::pair<int, int> out;
  for (const auto& task : program.tasks) {
    if (task.kind != TaskKind::kMove || task.step.kind != kind) continue;
    if (program.buffer(task.reads[0]).sizes != sizes) continue;
    ++(task.backward ? out.second : out.first);
  }
  return out;
}

std::map<std::string, int> all_moves(const Program& program) {
  std::map<std::string, int> out;
  for (const auto& task : program.tasks) {
    if (task.kind == TaskKind::kMove) ++out[std::string(machine::name(task.step.kind))];
  }
  return out;
}

// --- Layouts -------------------------------------------------------------------------------------

constexpr DigitMask kInner = 0b10;  // of two digits

TEST(DataParallel, SplitsEveryTensorOnTheBatchAndCopiesTheWeights) {
  const auto digits = digits_of({2, 2});
  for (const auto* name : {"mlp:layers=3,hidden=8,inputs=4,outputs=2", "bert_large:layers=1",
                           "dlrm:tables=2,rows=16,dim=8,bottom=8-8,top=8-1"}) {
    SCOPED_TRACE(name);
    const auto model = build(name, 8);
    const auto strategy = data_parallel(model, digits);
    ASSERT_TRUE(strategy.has_value());
    EXPECT_EQ(strategy->name, "dp");
    const auto actual = layouts(model, digits, *strategy);
    EXPECT_EQ(actual.size(), model.size()) << "parallelization operators are not needed";
    int weights = 0;
    for (auto id : model.ids()) {
      const auto& node = model.node(id);
      weights += is_weight(node) ? 1 : 0;
      const auto* expected = is_weight(node) ? "rr" : id == model.outputs()[0] ? "pp" : "00";
      EXPECT_EQ(actual.at(node.name), expected) << node.name;
    }
    // Nothing travels but the weights' gradients.
    const auto moves = all_moves(lowered(model, digits, *strategy));
    EXPECT_EQ(moves, (std::map<std::string, int>{{"all_reduce", weights}}));
  }
}

TEST(Megatron, MlpSplitsColumnsThenRows) {
  const auto digits = digits_of({2, 2});
  const auto model = build("mlp:layers=3,hidden=8,inputs=4,outputs=2", 8);
  const auto strategy = megatron(model, digits, kInner);
  ASSERT_TRUE(strategy.has_value());
  EXPECT_EQ(strategy->name, "megatron:tp=2,dp=2");
  expect_layouts(layouts(model, digits, *strategy), {{"x", "0r"},
                                                     {"w1", "r0"},
                                                     {"linear1", "01"},
                                                     {"relu1", "01"},
                                                     {"w2", "r1"},
                                                     {"linear2", "0p"},
                                                     {"relu2", "0r"},
                                                     {"w3", "r0"},
                                                     {"linear3", "01"}});
}

TEST(Megatron, BertSplitsHeadsAndTheFeedForwardWidth) {
  const auto digits = digits_of({2, 2});
  const auto model = build("bert_large:layers=1", 8);
  const auto strategy = megatron(model, digits, kInner);
  ASSERT_TRUE(strategy.has_value());
  expect_layouts(layouts(model, digits, *strategy), {{"embedding_norm", "0r"},
                                                     // [b h s d] by heads; weights [h d i]
                                                     {"l0.q", "01"},
                                                     {"l0.k", "01"},
                                                     {"l0.v", "01"},
                                                     {"l0.w_q", "r0"},
                                                     {"l0.w_k", "r0"},
                                                     {"l0.w_v", "r0"},
                                                     {"l0.scores", "01"},
                                                     {"l0.probabilities", "01"},
                                                     {"l0.mixed", "01"},
                                                     // contracts the heads; weight [o h d]
                                                     {"l0.w_o", "r1"},
                                                     {"l0.attention_out", "0p"},
                                                     {"l0.attention_sum", "0r"},
                                                     {"l0.attention_norm", "0r"},
                                                     {"l0.attention_norm_scale", "rr"},
                                                     // columns, then rows
                                                     {"l0.w_ffn1", "r0"},
                                                     {"l0.ffn1", "02"},
                                                     {"l0.ffn_gelu", "02"},
                                                     {"l0.w_ffn2", "r1"},
                                                     {"l0.ffn2", "0p"},
                                                     {"l0.ffn_sum", "0r"},
                                                     {"loss", "pr"}});
}

TEST(Megatron, DlrmSplitsTablesByColumns) {
  const auto digits = digits_of({2, 2});
  const auto model = build("dlrm:tables=2,rows=16,dim=8,bottom=8-8,top=8-4-2", 8);
  const auto strategy = megatron(model, digits, kInner);
  ASSERT_TRUE(strategy.has_value());
  expect_layouts(layouts(model, digits, *strategy), {{"index0", "0r"},
                                                     {"table0", "r1"},
                                                     {"bag0", "01"},
                                                     {"table1", "r1"},
                                                     {"w_bottom1", "r0"},
                                                     {"bottom1", "01"},
                                                     {"w_bottom2", "r1"},
                                                     {"bottom2", "0p"},
                                                     {"features", "0r"},
                                                     {"w_top1", "r0"},
                                                     {"top1", "01"},
                                                     {"top2", "0p"},
                                                     {"top3", "01"}});
}

TEST(Megatron, WhatTheDigitsDoNotDivideIsComputedRedundantly) {
  const auto digits = digits_of({4});
  const auto model = build("bert_large:layers=1,hidden=8,heads=2,ffn=8,seq=4", 4);
  const auto strategy = megatron(model, digits, 0b11);
  ASSERT_TRUE(strategy.has_value());
  EXPECT_EQ(strategy->name, "megatron:tp=4,dp=1");
  // Two heads are too few for four devices, a head's four columns are not.
  expect_layouts(layouts(model, digits, *strategy), {{"l0.q", "33"}, {"l0.ffn1", "22"}});
}

// --- Communication -------------------------------------------------------------------------------

TEST(Megatron, BertReducesOncePerAttentionAndFeedForwardEachWay) {
  const auto digits = digits_of({2});
  for (const int layers : {1, 2, 3}) {
    const auto model = build(fmt::format("bert_large:layers={},seq=128", layers), 2);
    const auto strategy = megatron(model, digits, 0b1);
    ASSERT_TRUE(strategy.has_value());
    const auto program = lowered(model, digits, *strategy);
    EXPECT_EQ(count_moves(program, Step::kAllReduce, {2, 128, 1024}),
              std::pair(2 * layers, 2 * layers));
    // Scales and shifts of two norms and two biases a layer, and of the norms of embedding and
    // head.
    EXPECT_EQ(count_moves(program, Step::kAllReduce, {1024}), std::pair(0, 6 * layers + 4));
    EXPECT_EQ(all_moves(program).at("all_reduce"), 10 * layers + 4);
  }
}

// --- Batches that do not divide, names, the grid -------------------------------------------------

TEST(Strategies, TheBatchMustDivide) {
  const auto digits = digits_of({2, 3});
  const auto model = build("mlp:layers=2,hidden=12,inputs=12,outputs=12", 4);
  EXPECT_FALSE(data_parallel(model, digits).has_value());
  EXPECT_FALSE(megatron(model, digits, 0b01).has_value());  // over 3
  EXPECT_TRUE(megatron(model, digits, 0b10).has_value());   // over 2
  EXPECT_TRUE(megatron(model, digits, 0b11).has_value());
}

TEST(Strategies, TheGridHasTheInnermostDigitsOfEveryLevel) {
  const auto model = build("mlp:layers=2,hidden=48,inputs=48,outputs=48", 48);
  std::vector<std::string> names;
  for (const auto& s : megatron_grid(model, digits_of({4, 3}))) names.push_back(s.name);
  std::ranges::sort(names);
  EXPECT_EQ(names, (std::vector<std::string>{"megatron:tp=12,dp=1", "megatron:tp=2,dp=6",
                                             "megatron:tp=3,dp=4", "megatron:tp=4,dp=3",
                                             "megatron:tp=6,dp=2"}));
}

TEST(Strategies, ByName) {
  const auto digits = digits_of({2, 2});
  const auto model = build("mlp:layers=2,hidden=8,inputs=8,outputs=8", 4);
  EXPECT_EQ(named_strategies("dp", model, digits).size(), 1U);
  EXPECT_EQ(named_strategies("megatron", model, digits).size(), 3U);
  // One digit or the other.
  EXPECT_EQ(named_strategies("megatron:tp=2", model, digits).size(), 2U);
  EXPECT_EQ(named_strategies("megatron:tp=4", model, digits).size(), 1U);

  const auto error = [&](const std::string& name, std::int64_t batch) -> std::string {
    try {
      (void)named_strategies(name, build("mlp:layers=2,hidden=8,inputs=8,outputs=8", batch),
                             digits);
    } catch (const UserError& e) {
      return e.what();
    }
    return "accepted";
  };
  EXPECT_EQ(error("dp", 6),
            "dp: the batch does not divide over 4 devices (--batch a multiple of 4)");
  EXPECT_EQ(error("megatron:tp=2", 3),
            "megatron:tp=2: 4 devices cannot be grouped so, or the batch does not divide over the "
            "groups");
  EXPECT_EQ(error("megatron:tp=3", 4),
            "megatron:tp=3: 4 devices cannot be grouped so, or the batch does not divide over the "
            "groups");
  EXPECT_EQ(error("megatron:tp=x", 4),
            "megatron:tp=x: 'tp=x' is no setting of megatron (there are tp=N and dp=N)");
  EXPECT_EQ(error("megatron:tp=2,pp=2", 4),
            "megatron:tp=2,pp=2: 'pp=2' is no setting of megatron (there are tp=N and dp=N)");
  EXPECT_EQ(error("zero", 4),
            "zero: there is no such strategy (there are: dp, megatron, megatron:tp=N,dp=N)");
  EXPECT_EQ(error("megatron:tp=2,dp=2", 4), "accepted");
  EXPECT_EQ(error("megatron:tp=2,dp=4", 4),
            "megatron:tp=2,dp=4: 4 devices cannot be grouped so, or the batch does not divide over "
            "the groups");
}

// --- Factor kinds --------------------------------------------------------------------------------

TEST(FactorKinds, OfAnEncoderLayer) {
  const auto model = build("bert_large:layers=1", 8);
  const auto nodes = analyze(model);
  const auto kinds = [&](std::string_view name) {
    std::string out;
    for (auto id : model.ids()) {
      if (model.node(id).name != name) continue;
      const auto& node = nodes[id.index()];
      for (std::size_t f = 0; f < node.kinds.size(); ++f) {
        out += fmt::format("{}{} {}", out.empty() ? "" : ", ", node.signature.map.factors[f].name,
                           strategies::name(node.kinds[f]));
      }
    }
    return out;
  };
  EXPECT_EQ(kinds("l0.q"), "b data, s sequence, i model, h head, d model");
  EXPECT_EQ(kinds("l0.scores"), "b data, h head, s sequence, d model, t sequence");
  EXPECT_EQ(kinds("l0.attention_out"), "b data, h head, s sequence, d model, o model");
  EXPECT_EQ(kinds("l0.ffn1"), "d0 data, d1 sequence, k model, n model");
  EXPECT_EQ(kinds("loss"), "d0 data, d1 sequence, v model");
}

// --- They train like one device ------------------------------------------------------------------

void expect_same_step(const Graph& model, const Program& program) {
  const auto values = graph::run_forward(model, graph::feed_values<Field>(model));
  const auto gradients = graph::run_backward(model, values, graph::loss_seed<Field>(model));
  const auto step = lower::step_result(
      program, lower::run_program(program, graph::feed_values<Field>(program.pcg), Field(3)));
  EXPECT_TRUE(step.replicas_agree);
  EXPECT_EQ(step.loss, values[model.outputs()[0].index()]);
  for (auto id : model.ids()) {
    const auto& node = model.node(id);
    if (!is_weight(node)) continue;
    ASSERT_TRUE(step.gradients.contains(node.name)) << node.name;
    EXPECT_EQ(step.gradients.at(node.name), gradients[id.index()]) << node.name;
  }
}

TEST(Strategies, TrainLikeOneDevice) {
  struct Case {
    const char* model;
    std::size_t strategies;  // with dp where the batch divides
  };
  const Case cases[] = {{"bert_large:layers=1,hidden=8,heads=2,ffn=8,seq=4", 3},
                        {"dlrm:tables=2,rows=6,dim=4,dense=3,bottom=4-4,top=8-1", 3},
                        {"mlp:layers=3,inputs=4,hidden=8,outputs=2", 3}};
  const auto digits = digits_of({2, 2});
  for (const auto& c : cases) {
    for (const std::int64_t batch : {2, 4}) {
      const auto model = build(c.model, batch);
      auto strategies = megatron_grid(model, digits);
      EXPECT_EQ(strategies.size(), c.strategies);
      if (auto dp = data_parallel(model, digits)) strategies.push_back(std::move(*dp));
      EXPECT_EQ(strategies.back().name == "dp", batch == 4);
      for (const auto& strategy : strategies) {
        SCOPED_TRACE(fmt::format("{} batch {} {}", c.model, batch, strategy.name));
        expect_same_step(model, lowered(model, digits, strategy));
      }
    }
  }
}

}  // namespace
}  // namespace tandem::strategies
