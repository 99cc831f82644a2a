// Checks known strategies on known models: the layouts of key tensors, the communication, and that
// they train like one device.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "graph/text.h"
#include "lower/lower.h"
#include "lower/training_step_test_support.h"
#include "models/model.h"
#include "predict/memory.h"
#include "predict/simulate.h"
#include "strategies/factor_kinds.h"
#include "strategies/grid.h"

namespace tandem::strategies {
namespace {

using graph::Graph;
using lower::Program;
using lower::TaskKind;
using machine::Digits;
using machine::Step;

Digits make_digits(const std::vector<std::int64_t>& counts) {
  machine::Machine m;
  for (auto count : counts) m.levels.emplace_back().count = count;
  return Digits(m);
}

Graph build(std::string_view model, std::int64_t batch) {
  return models::parse_model(model).build(batch, DType::kFp32);
}

// Returns the one strategy of this name.
Strategy make_named(const std::string& name, const Graph& model, const Digits& digits) {
  auto all = make_named_strategies(name, model, digits);
  EXPECT_EQ(all.size(), 1U) << name;
  return std::move(all[0]);
}

// Returns the layout of every tensor by name, as text.
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

Program lower_strategy(const Graph& model, const Digits& digits, const Strategy& strategy) {
  return lower::lower(plan::parallelize(model, digits, strategy.choices), digits, {},
                      plan::Optimizer::kSgd);
}

// Returns how often the collective moves tensors of these global sizes, forward and backward.
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

TEST(DataParallel, ShardsTensorsAlongTheBatchAndReplicatesWeights) {
  const auto digits = make_digits({2, 2});
  for (const auto* name : {"mlp:layers=3,hidden=8,inputs=4,outputs=2", "bert_large:layers=1",
                           "dlrm:tables=2,rows=16,dim=8,bottom=8-8,top=8-1"}) {
    SCOPED_TRACE(name);
    const auto model = build(name, 8);
    const auto strategy = make_named("dp", model, digits);
    const auto actual = layouts(model, digits, strategy);
    EXPECT_EQ(actual.size(), model.size()) << "parallelization operators are not needed";
    int weights = 0;
    for (auto id : model.ids()) {
      const auto& node = model.node(id);
      weights += is_weight(node) ? 1 : 0;
      const auto* expected = is_weight(node) ? "rr" : id == model.outputs()[0] ? "pp" : "00";
      EXPECT_EQ(actual.at(node.name), expected) << node.name;
    }
    // Only the weights' gradients are sent.
    const auto moves = all_moves(lower_strategy(model, digits, strategy));
    EXPECT_EQ(moves, (std::map<std::string, int>{{"all_reduce", weights}}));
  }
}

TEST(Megatron, SplitsAnMlpColumnThenRowParallel) {
  const auto digits = make_digits({2, 2});
  const auto model = build("mlp:layers=3,hidden=8,inputs=4,outputs=2", 8);
  const auto strategy = make_named("megatron:tp=2", model, digits);
  EXPECT_EQ(strategy.name, "megatron:tp=2,dp=2");
  expect_layouts(layouts(model, digits, strategy), {{"x", "0r"},
                                                    {"w1", "r0"},
                                                    {"linear1", "01"},
                                                    {"relu1", "01"},
                                                    {"w2", "r1"},
                                                    {"linear2", "0p"},
                                                    {"relu2", "0r"},
                                                    {"w3", "r0"},
                                                    {"linear3", "01"}});
}

TEST(Megatron, SplitsHeadsAndTheFeedForwardWidthOfBert) {
  const auto digits = make_digits({2, 2});
  const auto model = build("bert_large:layers=1", 8);
  const auto strategy = make_named("megatron:tp=2", model, digits);
  expect_layouts(layouts(model, digits, strategy), {{"embedding_norm", "0r"},
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
                                                    // column-parallel, then row-parallel
                                                    {"l0.w_ffn1", "r0"},
                                                    {"l0.ffn1", "02"},
                                                    {"l0.ffn_gelu", "02"},
                                                    {"l0.w_ffn2", "r1"},
                                                    {"l0.ffn2", "0p"},
                                                    {"l0.ffn_sum", "0r"},
                                                    {"loss", "pp"}});
}

// The loss is computed from all logits: each device has its part of the sequence, or all of it.
TEST(Megatron, ShardsOrReplicatesLosses) {
  const auto digits = make_digits({2, 2});
  const auto model =
      build("llama_65b:layers=1,hidden=16,heads=4,ffn=8,vocab=8,seq=8,loss=plain", 8);
  const auto parts = layouts(model, digits, make_named("megatron:tp=2", model, digits));
  expect_layouts(parts, {{"logits", "02"}, {"loss_logs", "01"}, {"loss", "pp"}});
  const auto with_sp = layouts(model, digits, make_named("megatron:tp=2,sp", model, digits));
  expect_layouts(with_sp, {{"logits", "02"}, {"loss_logs", "01"}});
  for (const auto* text : {"megatron:tp=2,whole_loss", "megatron:tp=2,sp,whole_loss"}) {
    const auto whole = layouts(model, digits, make_named(text, model, digits));
    expect_layouts(whole, {{"logits", "02"}, {"loss_logs", "0r"}, {"losses", "0r"}});
  }
}

// Two key heads on four devices: each head is on two of them, whose query heads are halves of its
// group. Attention gathers nothing.
TEST(Megatron, SupportsMoreDevicesThanKeyHeads) {
  const auto model =
      build("llama3_8b:layers=1,hidden=16,heads=8,kv_heads=2,ffn=16,vocab=12,seq=6", 2);
  const auto digits = make_digits({2, 2});
  const auto strategy = make_named("megatron:tp=4,dp=1", model, digits);
  expect_layouts(
      layouts(model, digits, strategy),
      {{"l0.q", "11"}, {"l0.k", "1r"}, {"l0.v", "1r"}, {"l0.mixed", "11"}, {"l0.w_k", "0r"}});
  const auto program = lower_strategy(model, digits, strategy);
  for (const auto& task : program.tasks) {
    if (task.kind != TaskKind::kMove || is_local(task.step.kind)) continue;
    EXPECT_NE(program.buffer(task.reads[0]).sizes.rank(), 4U) << to_text(program);
  }
}

TEST(Megatron, SplitsDlrmTablesByColumns) {
  const auto digits = make_digits({2, 2});
  const auto model = build("dlrm:tables=2,rows=16,dim=8,bottom=8-8,top=8-4-2", 8);
  const auto strategy = make_named("megatron:tp=2", model, digits);
  expect_layouts(layouts(model, digits, strategy), {{"index0", "0r"},
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

TEST(Megatron, ComputesIndivisibleOperatorsRedundantly) {
  const auto digits = make_digits({4});
  const auto model = build("bert_large:layers=1,hidden=8,heads=2,ffn=8,seq=4", 4);
  const auto strategy = make_named("megatron:tp=4", model, digits);
  EXPECT_EQ(strategy.name, "megatron:tp=4,dp=1");
  // Two heads are too few for four devices. A head's four columns would be enough, but then scores
  // would be partial sums. So each head is on two devices.
  expect_layouts(layouts(model, digits, strategy),
                 {{"l0.q", "1r"}, {"l0.scores", "1r"}, {"l0.ffn1", "22"}});
}

// --- Communication -------------------------------------------------------------------------------

TEST(Megatron, ReducesOncePerBertBlockEachWay) {
  const auto digits = make_digits({2});
  for (const int layers : {1, 2, 3}) {
    const auto model = build(fmt::format("bert_large:layers={},seq=128", layers), 2);
    const auto strategy = make_named("megatron:tp=2", model, digits);
    const auto program = lower_strategy(model, digits, strategy);
    EXPECT_EQ(count_moves(program, Step::kAllReduce, {2, 128, 1024}),
              std::pair(2 * layers, 2 * layers));
    // Each layer has scales and shifts of two norms and two biases; the norms of embedding and head
    // have some, too.
    EXPECT_EQ(count_moves(program, Step::kAllReduce, {1024}), std::pair(0, 6 * layers + 4));
    // The other collectives have three causes. Columns of the embeddings are gathered for their
    // norm, and again for the gradients. The tied embedding table is column-parallel in the
    // embedding and row-parallel in the head. The loss of the logits is computed along the
    // sequence.
    EXPECT_EQ(all_moves(program), (std::map<std::string, int>{{"all_reduce", 10 * layers + 4},
                                                              {"all_gather", 2},
                                                              {"all_to_all", 4},
                                                              {"reduce_scatter", 2}}));
  }
}

// Every weight is gathered twice, since gathered weights are freed before the backward pass, and
// its gradient is reduce-scattered. These are three ring passes, while an all-reduce has two. The
// first layer needs no weight in the backward pass, since the input has no gradient.
TEST(FullySharded, SendsOneAndAHalfTimesAsMuchAsDataParallelism) {
  const auto digits = make_digits({2, 2});
  const auto model = build("mlp:layers=3,hidden=8,inputs=4,outputs=2", 8);
  const auto dp = lower_strategy(model, digits, make_named("dp", model, digits));
  const auto fsdp = lower_strategy(model, digits, make_named("fsdp", model, digits));
  EXPECT_EQ(all_moves(dp), (std::map<std::string, int>{{"all_reduce", 3}}));
  // The two rows of w3 suffice for two devices and the others would replicate them; its columns
  // suffice for four.
  EXPECT_EQ(all_moves(fsdp),
            (std::map<std::string, int>{{"all_gather", 5}, {"reduce_scatter", 3}}));
  const double weights = 4 * 8 + 8 * 8 + 8 * 2;
  EXPECT_DOUBLE_EQ(count_communicated_elements(dp), 4 * 2 * 3.0 / 4 * weights);  // a ring of 4
  const double first = 4 * 3.0 / 4 * (4 * 8);
  EXPECT_DOUBLE_EQ(count_communicated_elements(fsdp),
                   1.5 * count_communicated_elements(dp) - first);
  expect_layouts(layouts(model, digits, make_named("fsdp", model, digits)),
                 {{"w1", "00"}, {"w2", "00"}, {"w3", "11"}, {"linear1", "00"}});
}

TEST(FullySharded, ShardsOverAsManyDevicesAsDivideAWeight) {
  const auto digits = make_digits({2, 3});
  const auto model = build("mlp:layers=3,hidden=6,inputs=5,outputs=4", 6);
  expect_layouts(layouts(model, digits, make_named("fsdp", model, digits)),
                 {{"w1", "00"}, {"w2", "00"}, {"w3", "11"}});
  const auto odd = build("mlp:layers=2,hidden=4,inputs=5,outputs=5", 6);
  expect_layouts(layouts(odd, digits, make_named("fsdp", odd, digits)),
                 {{"w1", "0r"}, {"w2", "1r"}});
  // All levels of ZeRO have the same layouts; without any it is data parallelism.
  EXPECT_EQ(make_named("deepspeed:zero=3", model, digits).choices,
            make_named("fsdp", model, digits).choices);
  EXPECT_EQ(make_named("deepspeed:zero=0", model, digits).choices,
            make_named("dp", model, digits).choices);
}

// An all-reduce is a reduce-scatter and an all-gather, and the operators between them run along the
// sequence. Inputs gathered for the two matmuls of a layer are regathered for their backward pass.
TEST(Megatron, RegathersWithoutRecomputingUnderSequenceParallelism) {
  const auto digits = make_digits({2});
  const auto difference = [&](const std::string& strategy) {
    // Communication that one more layer adds.
    const auto of = [&](int layers) {
      const auto model = build(fmt::format("gpt3_175b:layers={},hidden=16,heads=2,ffn=64,vocab=32,"
                                           "seq=8",
                                           layers),
                               2);
      return lower_strategy(model, digits, make_named(strategy, model, digits));
    };
    const auto two = of(2);
    const auto three = of(3);
    std::map<std::string, int> moves = all_moves(three);
    for (const auto& [kind, count] : all_moves(two)) moves[kind] -= count;
    return std::pair(moves, count_communicated_elements(three) - count_communicated_elements(two));
  };
  const auto [plain_moves, plain] = difference("megatron:tp=2");
  const auto [moves, sequence] = difference("megatron:tp=2,sp");
  // 2 each way, and scales, shifts and two biases
  EXPECT_EQ(plain_moves.at("all_reduce"), 4 + 6);
  EXPECT_EQ(moves.at("all_reduce"), 6);
  EXPECT_EQ(moves.at("reduce_scatter"), 4);
  EXPECT_EQ(moves.at("all_gather"), 4 + 2);
  EXPECT_EQ(sequence, plain + 2 * (2 * 8 * 16));
  const auto model = build("gpt3_175b:layers=1,hidden=16,heads=2,ffn=64,vocab=32,seq=8", 2);
  expect_layouts(layouts(model, digits, make_named("megatron:tp=2,sp", model, digits)),
                 {{"l0.attention_norm", "1"},
                  {"l0.q", "1"},
                  {"l0.mixed", "1"},
                  {"l0.attention_out", "p"},
                  {"l0.attention_sum", "1"},
                  {"l0.ffn_norm", "1"},
                  {"l0.ffn1", "2"},
                  {"l0.ffn2", "p"},
                  {"l0.ffn_sum", "1"},
                  {"loss", "p"}});
}

// --- Recommenders and experts --------------------------------------------------------------------

TEST(DlrmHybrid, ExchangesRowsByAllToAll) {
  const auto digits = make_digits({2, 2});
  const auto model = build("dlrm:tables=2,rows=16,dim=8,bottom=8-8,top=8-4-2", 8);
  const auto strategy = make_named("dlrm_hybrid", model, digits);
  expect_layouts(layouts(model, digits, strategy), {{"index0", "rr"},
                                                    {"table0", "11"},
                                                    {"bag0", "11"},
                                                    {"features", "00"},
                                                    {"w_top1", "rr"},
                                                    {"top1", "00"}});
  // Two tables, each way; the five matrices of the MLPs.
  EXPECT_EQ(all_moves(lower_strategy(model, digits, strategy)),
            (std::map<std::string, int>{{"all_reduce", 5}, {"all_to_all", 4}}));
  // Only the tables are larger than their results.
  EXPECT_EQ(
      make_named("expert", build("dlrm:tables=2,rows=160,dim=8,bottom=8-8,top=8-4-2", 64), digits)
          .choices,
      strategy.choices);
}

TEST(DlrmHybrid, SplitsEqualTablesByTableThenColumnThenRow) {
  const auto layout = [](const std::string& sizes) {
    const auto digits = make_digits({2, 2});
    const auto model = build("dlrm_a:bag=2,dense=3,bottom=4-4,top=4-4," + sizes, 4);
    return layouts(model, digits, make_named("dlrm_hybrid", model, digits)).at("tables");
  };
  EXPECT_EQ(layout("tables=4,rows=8,dim=8"), "00");
  EXPECT_EQ(layout("tables=3,rows=8,dim=8"), "22");
  EXPECT_EQ(layout("tables=3,rows=8,dim=5"), "11");
  EXPECT_EQ(layout("tables=2,rows=5,dim=6"), "02");  // no factor takes both digits
  EXPECT_EQ(layout("tables=3,rows=5,dim=7"), "..");  // none takes any
}

// The largest table comes first, each on the device with the least load.
TEST(DlrmHybrid, PlacesIndivisibleTablesOnOneDeviceEach) {
  const auto model = graph::parse_graph(R"(
graph tables
repeat 3 as i from 0
  %index{i} = input() shape=[8, 2] dtype=int64 below=5
end
%large = weight() shape=[7, 5]
%small = weight() shape=[5, 3]
%middle = weight() shape=[11, 3]
%bag0 = embedding_bag(%index0, %large)
%bag1 = embedding_bag(%index1, %small)
%bag2 = embedding_bag(%index2, %middle)
%features = concat(%bag0, %bag1, %bag2) axis=1
%w = weight() shape=[2, 11]
%top = linear(%features, %w)
%target = input() shape=[8, 2]
%loss = mse(%top, %target)
return %loss
)");
  const auto digits = make_digits({2});
  const auto strategy = make_named("dlrm_hybrid", model, digits);
  expect_layouts(layouts(model, digits, strategy), {{"large", "."},
                                                    {"index0", "."},
                                                    {"bag0", "."},
                                                    {"middle", "A"},
                                                    {"small", "A"},
                                                    {"bag1", "A"},
                                                    {"features", "0"}});
  const auto program = lower_strategy(model, digits, strategy);
  lower::expect_same_step(model, program, 1);
  // Each device has 35 of table and 22 of matrix, or 48 and 22.
  EXPECT_EQ(predict::compute_memory(program).persistent.value, (33 + 15 + 22) * 4);
  expect_layouts(layouts(model, digits, make_named("madmax", model, digits)),
                 {{"large", "."}, {"middle", "A"}, {"small", "A"}});
}

// Four tables are on four devices. Each device is busy sending for the time of one scatter, and
// receives the three others' rows meanwhile.
TEST(DlrmHybrid, ScattersRowsOfAllTablesAtOnce) {
  machine::Machine m;
  m.levels.emplace_back().count = 4;
  m.levels[0].bandwidth = BytesPerSecond{1};
  m.device.peak = {{DType::kFp32, FlopsPerSecond{1e30}}};
  m.device.bandwidth = BytesPerSecond{1e30};
  const Digits digits(m);
  const auto model = build("dlrm_a:tables=1,rows=5,dim=7,bag=2,dense=3,bottom=7-7,top=4-4", 4);
  const auto one =
      predict::simulate(lower_strategy(model, digits, make_named("dlrm_hybrid", model, digits)), m);
  EXPECT_DOUBLE_EQ(one.serialized.at("scatter").value, 3. / 4 * 4 * 7 * 4);

  std::string text = "graph tables\n%f = input() shape=[4, 1]\n";
  std::string bags = "%f";
  for (int i = 0; i < 4; ++i) {
    text += fmt::format(
        "%index{0} = input() shape=[4, 2] dtype=int64 below=5\n%table{0} = weight() shape=[5, 7]\n"
        "%bag{0} = embedding_bag(%index{0}, %table{0})\n",
        i);
    bags += fmt::format(", %bag{}", i);
  }
  text += fmt::format(
      "%features = concat({}) axis=1\n%target = input() shape=[4, 29]\n"
      "%loss = mse(%features, %target)\nreturn %loss\n",
      bags);
  const auto four = graph::parse_graph(text);
  const auto s =
      predict::simulate(lower_strategy(four, digits, make_named("dlrm_hybrid", four, digits)), m);
  const double scatter = 3. / 4 * 4 * 7 * 4;
  EXPECT_NEAR(s.iteration.value, 2 * scatter, 1e-9);  // and as long for the gathers
}

TEST(Expert, SplitsLayersWithMoreWeightsThanResults) {
  const auto digits = make_digits({2, 2});
  const auto model =
      build("candle_uno:towers=1,layers=2,hidden=16,features=4,doses=1,top_layers=1", 8);
  // With [16 4] and [16 16] weights against [8 16] results, the first layer stays on the batch.
  expect_layouts(layouts(model, digits, make_named("expert", model, digits)),
                 {{"tower1.w_dense1", "rr"},
                  {"tower1.dense1", "00"},
                  {"tower1.w_dense2", "00"},
                  {"tower1.dense2", "11"},
                  {"tower1.dense_relu2", "11"}});
}

TEST(ExpertParallel, ExchangesTheTokensOfExpertsByAllToAll) {
  const auto digits = make_digits({2, 2});
  const auto model = build(
      "mixtral_8x7b:layers=1,hidden=16,heads=4,kv_heads=2,ffn=12,vocab=11,seq=6,experts=8,"
      "active_experts=2",
      4);
  for (const auto& [name, expected, tokens] :
       {std::tuple{"ep:ep=4", "00", "00"}, std::tuple{"ep:ep=2", "r0", "10"}}) {
    const auto strategy = make_named(name, model, digits);
    expect_layouts(layouts(model, digits, strategy), {{"l0.gates", "00"},
                                                      {"l0.dispatched", "11"},
                                                      {"l0.w_expert_gate", expected},
                                                      {"l0.expert_gate", tokens},
                                                      {"l0.expert_down", tokens},
                                                      {"l0.combined", "00"}});
    const auto program = lower_strategy(model, digits, strategy);
    EXPECT_EQ(all_moves(program).at("all_to_all"), 4) << name;
    for (const auto& task : program.tasks) {
      if (task.kind != TaskKind::kMove || task.step.kind != Step::kAllToAll) continue;
      EXPECT_DOUBLE_EQ(program.buffer(task.reads[0]).density, 0.25);
    }
  }
}

TEST(Madmax, ShardsEveryKindOfLayerInsideANodeAndAcross) {
  const auto digits = make_digits({2, 2});
  const auto model = build("dlrm_a:tables=4,rows=8,dim=4,bag=2,dense=4,bottom=4-4,top=4-4", 8);
  const auto of = [&](const std::string& name) {
    return layouts(model, digits, make_named(name, model, digits));
  };
  expect_layouts(of("madmax"), {{"tables", "00"},
                                {"bags", "11"},
                                {"bags_in_a_row", "11"},
                                {"bags_norm", "00"},
                                {"w_bottom1", "00"},
                                {"bottom1", "00"}});
  expect_layouts(of("madmax:dense=ddp"),
                 {{"tables", "00"}, {"w_bottom1", "rr"}, {"bottom1", "00"}});
  // the key is inside/across, the layout's digits are across/inside
  expect_layouts(of("madmax:dense=tp/ddp"),
                 {{"w_bottom1", "r0"}, {"bottom1", "01"}, {"w_bottom2", "r1"}, {"bottom2", "0p"}});
  expect_layouts(of("madmax:dense=fsdp/tp"), {{"w_bottom1", "00"}, {"bottom1", "10"}});
  expect_layouts(of("madmax:dense=tp/fsdp"), {{"w_bottom1", "10"}, {"bottom1", "01"}});
  expect_layouts(of("madmax:dense=tp"), {{"w_bottom1", "00"}, {"bottom1", "11"}});
  expect_layouts(of("madmax:embedding=ddp/tp"), {{"tables", "2r"}, {"bags", "20"}});
}

// On 128 A100 of 40 GB, 793 B parameters fit only if the tables are split. Tables take 24.8 of the
// 39.3 GB, and the rows' gradients 11.7.
TEST(Madmax, FitsDlrmAWithShardedTables) {
  machine::Machine zionex = machine::load_machine("summit:1");
  zionex.name = "zionex:16";
  zionex.device.memory = Bytes{40e9};
  zionex.levels = {zionex.levels[0], zionex.levels[2]};
  zionex.levels[0].count = 16;
  zionex.levels[1].count = 8;
  const Digits digits(zionex);
  const auto model = build("dlrm_a", 65536);
  const auto memory = [&](const std::string& name) {
    return predict::simulate(lower_strategy(model, digits, make_named(name, model, digits)), zionex)
        .memory;
  };
  EXPECT_LT(memory("madmax").value, zionex.device.memory.value);
  EXPECT_LT(memory("dlrm_hybrid").value, zionex.device.memory.value);
  EXPECT_GT(memory("madmax:embedding=ddp,dense=ddp").value, 3e12);
  EXPECT_GT(memory("dp").value, 3e12);
}

// --- Factor kinds --------------------------------------------------------------------------------

TEST(FactorKinds, CoverAnEncoderLayer) {
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

}  // namespace
}  // namespace tandem::strategies
