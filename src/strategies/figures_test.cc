// The figures of Unity (OSDI'22) that draw parallel computation graphs, one test each. The graph is
// legal and computes exactly what one device does, forward and backward. Where the paper mentions
// communication, its elements are counted. Figure 2 is in lower/lower_test.cc, figure 11a in
// lower/halo_test.cc.
#include <gtest/gtest.h>

#include "base/text.h"
#include "graph/one_device_test_support.h"
#include "graph/text.h"
#include "lower/lower.h"
#include "lower/mapped_text_test_support.h"
#include "lower/training_step_test_support.h"
#include "machine/mapping.h"
#include "plan/random_choices_test_support.h"
#include "strategies/grid.h"

namespace tandem::strategies {
namespace {

using graph::Graph;
using graph::parse_graph;
using lower::Program;
using machine::Digits;
using machine::Step;
using plan::make_digits;
using term::Field;

using Words = std::map<std::string, std::string>;

Program lower_strategy(const Graph& model, const Digits& digits, const Words& words,
                       const plan::Schedule& schedule = {}) {
  const auto choices = plan::named_choices(model, digits, words);
  return lower::lower(plan::parallelize(model, digits, choices, schedule), digits, {},
                      plan::Optimizer::kSgd);
}

void expect_legal_and_equal(const Graph& pcg) {
  graph::expect_equals_one_device<Field>(pcg, 1);
  graph::expect_equals_one_device<double>(pcg, 2);
}

std::vector<std::string> collectives(const Program& program) {
  std::vector<std::string> out;
  for (const auto& task : program.tasks) {
    if (task.kind != lower::TaskKind::kMove || is_local(task.step.kind)) continue;
    out.emplace_back(machine::name(task.step.kind));
  }
  return out;
}

// --- Figure 6: (A x B) x C

TEST(Figure6, MovesPartialSumsThroughAMatmul) {
  // matmul(reduce(x), y) = reduce(matmul(x, replicate(y)))
  const auto late = parse_graph(R"(graph late
%a = weight() shape=[6, 12]
%b = weight() shape=[12, 18]
%c = weight() shape=[18, 4]
%a1 = partition(%a) dim=1 degree=2
%a2 = partition(%a1) dim=0 degree=3
%b1 = partition(%b) degree=2
%b2 = replicate(%b1) degree=3
%ab = matmul(%a2, %b2) : [6/3, 18]+2 fp32
%c1 = replicate(%c) degree=6
%abc = matmul(%ab, %c1) : [6/3, 4]+2 fp32
%r = reduce(%abc) degree=2
%out = combine(%r) degree=3 : [6, 4] fp32
return %out
)");
  const auto early = parse_graph(R"(graph early
%a = weight() shape=[6, 12]
%b = weight() shape=[12, 18]
%c = weight() shape=[18, 4]
%a1 = partition(%a) dim=1 degree=2
%a2 = partition(%a1) dim=0 degree=3
%b1 = partition(%b) degree=2
%b2 = replicate(%b1) degree=3
%ab = matmul(%a2, %b2) : [6/3, 18]+2 fp32
%r = reduce(%ab) degree=2 : [6/3, 18] fp32
%c1 = replicate(%c) degree=3
%abc = matmul(%r, %c1) : [6/3, 4] fp32
%out = combine(%abc) degree=3 : [6, 4] fp32
return %out
)");
  expect_legal_and_equal(late);
  expect_legal_and_equal(early);
  EXPECT_EQ(erase_parallelism(late).identity_hash(), erase_parallelism(early).identity_hash());
}

// --- Figure 7: machine mappings

// Returns what the mapping's digits do to an operator whose grid runs along these factors.
std::string describe_mapping(const machine::Mapping& mapping, const Digits& digits,
                             const std::vector<std::string>& factors) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < digits.count(); ++i) {
    const auto dim = mapping.dims[i];
    out.push_back(dim == machine::Mapping::kIdle ? "-" : factors[static_cast<std::size_t>(dim)]);
  }
  return join(out, " ");
}

TEST(Figure7, MapsOneToThreeDimensionsOnSummit) {
  struct Case {
    std::vector<std::int64_t> grid;
    std::string mapping;
    std::vector<std::string> linear, loss;  // what each dimension of the grid runs along
    std::string layout;                     // layout of the linear's result
  };
  const std::vector<Case> cases = {
      // Data parallel over all devices.
      {{12}, "node:dim0, socket:dim0, gpu:dim0", {"d0"}, {"d0"}, "000"},
      // The model inside a node, data across nodes.
      {{2, 6}, "node:dim0, socket:dim1, gpu:dim1", {"d0", "n"}, {"d0", "c"}, "011"},
      // The model inside a socket, a reduction across sockets, data across nodes.
      {{2, 2, 3}, "node:dim0, socket:dim1, gpu:dim2", {"d0", "k", "n"}, {"d0", "*", "c"}, "0p1"},
  };
  const auto summit = machine::load_machine("summit:2");
  const Digits digits(summit);
  const auto model = parse_graph(
      "graph g\n%x = input() shape=[12, 4]\n%w = weight() shape=[6, 4]\n%y = linear(%x, %w)\n"
      "%t = input() shape=[12, 6]\n%loss = mse(%y, %t)\nreturn %loss\n");
  for (const auto& c : cases) {
    SCOPED_TRACE(c.mapping);
    const auto mapping = machine::find_mapping(summit, c.grid, c.mapping);
    const Words words = {{"y", describe_mapping(mapping, digits, c.linear)},
                         {"loss", describe_mapping(mapping, digits, c.loss)}};
    const auto program = lower_strategy(model, digits, words);
    EXPECT_EQ(to_text(program.buffer(program.tensor[2]).layout), c.layout);
    expect_legal_and_equal(program.pcg);
    lower::expect_same_step(model, program, 1);
  }
}

// --- Figure 8d: replicas and partitions of one tensor

TEST(Figure8d, ReplicatesAndPartitionsOneTensor) {
  for (const std::string first : {"partition(%x) dim=0 degree=3", "replicate(%x) degree=2"}) {
    const bool cuts_first = first.starts_with("partition");
    const auto pcg = parse_graph(
        "graph g\n%x = weight() shape=[6, 4]\n%a = " + first +
        (cuts_first ? "\n%b = replicate(%a) degree=2" : "\n%b = partition(%a) dim=0 degree=3") +
        " : [6/3, 4]*2 fp32\n%y = gelu(%b) : [6/3, 4]*2 fp32\nreturn %y\n");
    expect_legal_and_equal(pcg);
  }
}

// --- Figure 9: a linear layer in five ways

// Returns output(s, h, o) = sum over i of input(s, h, i) weight(h, o, i).
Graph figure_9() {
  return parse_graph(
      "graph g\n%x = input() shape=[4, 2, 6]\n%w = weight() shape=[2, 8, 6]\n"
      "%y = contract(%x, %w) index=\"s h i, h o i -> s h o\"\n%t = input() shape=[4, 2, 8]\n"
      "%loss = mse(%y, %t)\nreturn %loss\n");
}

TEST(Figure9, ParallelizesALinearLayerInFiveWays) {
  struct Case {
    const char* linear;
    const char* loss;
    double elements;  // elements that both devices send in both passes
  };
  const Case cases[] = {
      {"s", "d0", 2 * 2 * 8 * 6},  // data: the weight's gradients are summed
      {"i", "d0", 2 * 4 * 2 * 8},  // partial sums, then reduce; backward the gradient is gathered
      {"o", "c", 0},               // replicated input; its gradient is not needed here
      {"h", "d1", 0},              // heads: nothing is replicated or synchronized
  };
  const auto digits = make_digits({2});
  for (const auto& c : cases) {
    SCOPED_TRACE(c.linear);
    const auto program = lower_strategy(figure_9(), digits, {{"y", c.linear}, {"loss", c.loss}});
    expect_legal_and_equal(program.pcg);
    lower::expect_same_step(figure_9(), program, 2);
    EXPECT_EQ(count_communicated_elements(program), c.elements);
  }
}

TEST(Figure9, PipelinesAlongSamples) {
  // Micro-batches of two samples run one after another, with the heads on different devices.
  const auto digits = make_digits({2}, 2);
  const auto program =
      lower_strategy(figure_9(), digits, {{"y", "s h"}, {"loss", "d0 d1"}}, {.micro_batches = 2});
  expect_legal_and_equal(program.pcg);
  lower::expect_same_step(figure_9(), program, 2);
  EXPECT_EQ(count_communicated_elements(program), 0);
  const auto y = program.tensor[2];
  EXPECT_EQ(program.buffer(y).shard, (Shape{2, 1, 8}));
  EXPECT_TRUE(program.buffer(y).each);
}

// --- Figure 10: Megatron's layers

// Returns the graph that the strategy makes of the model on two devices.
Graph megatron_on_two(const Graph& model) {
  const auto digits = make_digits({2});
  const auto strategy = make_named_strategies("megatron:tp=2,dp=1", model, digits).at(0);
  return plan::parallelize(model, digits, strategy.choices).pcg;
}

TEST(Figure10, ParallelizesAFeedForwardBlock) {
  const auto pcg = parse_graph(R"(graph mlp
%x = input() shape=[4, 6]*2
%w1 = weight() shape=[8/2, 6]
%h = linear(%x, %w1) : [4, 8/2] fp32
%a = gelu(%h)
%w2 = weight() shape=[6, 8/2]
%y = linear(%a, %w2) : [4, 6]+2 fp32
%s = reduce(%y) degree=2
%r = replicate(%s) degree=2
%t = input() shape=[4, 6]*2
%loss = mse(%r, %t)
return %loss
)");
  expect_legal_and_equal(pcg);
  EXPECT_EQ(megatron_on_two(erase_parallelism(pcg)).identity_hash(), pcg.identity_hash());
}

// The strategy's own loss runs along the sequence; the figure ends before it.
TEST(Figure10, ParallelizesAttention) {
  const auto pcg = parse_graph(R"(graph attention
%x = input() shape=[2, 4, 6]*2
%wq = weight() shape=[2/2, 3, 6]
%q = contract(%x, %wq) index="b s i, h d i -> b h s d"
%wk = weight() shape=[2/2, 3, 6]
%k = contract(%x, %wk) index="b s i, h d i -> b h s d"
%wv = weight() shape=[2/2, 3, 6]
%v = contract(%x, %wv) index="b s i, h d i -> b h s d"
%scores = contract(%q, %k) index="b h s d, b h t d -> b h s t" : [2, 2/2, 4, 4] fp32
%p = softmax(%scores)
%mix = contract(%p, %v) index="b h s t, b h t d -> b h s d"
%wo = weight() shape=[6, 2/2, 3]
%y = contract(%mix, %wo) index="b h s d, o h d -> b s o" : [2, 4, 6]+2 fp32
%s = reduce(%y) degree=2
%part = partition(%s) dim=1 degree=2
%t = input() shape=[2, 4/2, 6]
%loss = mse(%part, %t)
return %loss
)");
  expect_legal_and_equal(pcg);
  EXPECT_EQ(megatron_on_two(erase_parallelism(pcg)).identity_hash(), pcg.identity_hash());
}

// --- Figure 11b: an addition as the reduction of partial sums

TEST(Figure11b, ReplacesAnAdditionByTheReductionOfAJoin) {
  const auto model = parse_graph(
      "graph g\n%x = input() shape=[4, 6]\n%w = weight() shape=[2, 6]\n%v = weight() shape=[2, 6]\n"
      "%a = linear(%x, %w)\n%b = linear(%x, %v)\n%y = add(%a, %b)\n%t = input() shape=[4, 2]\n"
      "%loss = mse(%y, %t)\nreturn %loss\n");
  const auto mapped = lower::parse_mapped(
      R"(graph g
%x = input() shape=[4, 6]*2
%w = weight() shape=[2, 6]
%v = weight() shape=[2, 6]
%x0 = unreplicate(%x) degree=2
%a = linear(%x0, %w)
%x1 = unreplicate(%x) degree=2
%b = linear(%x1, %v)
%y = join(%a, %b) : [4, 2]+2 fp32
%s = reduce(%y) degree=2
%r = replicate(%s) degree=2
%t = input() shape=[4, 2]*2
%loss = mse(%r, %t)
return %loss
)",
      {{"x", "r"},
       {"w", "."},
       {"v", "A"},
       {"x0", "."},
       {"a", "."},
       {"x1", "A"},
       {"b", "A"},
       {"y", "p"},
       {"s", "."},
       {"r", "r"},
       {"t", "r"},
       {"loss", "r"}});
  expect_legal_and_equal(mapped.pcg);
  EXPECT_EQ(erase_parallelism(mapped.pcg).identity_hash(), model.identity_hash());
  const auto program = lower::lower(mapped, make_digits({2}), {}, plan::Optimizer::kSgd);
  lower::expect_same_step(model, program, 1);
  EXPECT_EQ(collectives(program), (std::vector<std::string>{"all_reduce", "all_reduce"}));
}

// --- Figure 16: what the search found

TEST(Figure16, ParallelizesAnMlpWithReductionAndAllReduce) {
  const auto pcg = parse_graph(R"(graph mlp
%x = input() shape=[4, 6/2]
%w1 = weight() shape=[8, 6/2]
%h = linear(%x, %w1) : [4, 8]+2 fp32
%s1 = reduce(%h) degree=2
%r1 = replicate(%s1) degree=2
%a1 = relu(%r1)
%w2 = weight() shape=[8/2, 8]
%y = linear(%a1, %w2)
%a2 = relu(%y) : [4, 8/2] fp32
%w3 = weight() shape=[6, 8/2]
%z = linear(%a2, %w3) : [4, 6]+2 fp32
%s2 = reduce(%z) degree=2
%r2 = replicate(%s2) degree=2
%t = input() shape=[4, 6]*2
%loss = mse(%r2, %t)
return %loss
)");
  expect_legal_and_equal(pcg);
  const auto model = erase_parallelism(pcg);
  const auto program = lower_strategy(
      model, make_digits({2}), {{"h", "k"}, {"a1", "*"}, {"y", "n"}, {"a2", "d1"}, {"z", "k"}});
  EXPECT_EQ(program.pcg.identity_hash(), pcg.identity_hash());
  lower::expect_same_step(model, program, 3);
  // Each layer's sums, and the gradients of the replicated inputs; no weights.
  EXPECT_EQ(count_communicated_elements(program), 2 * 2 * 4 * 8 + 2 * 2 * 4 * 6);
}

// Embedding tables on devices of their own, and the operators that read all of their rows.
constexpr const char* kTables =
    "%i0 = input() shape=[4] dtype=int64 below=6\n%t0 = weight() shape=[6, 8]\n"
    "%e0 = embedding(%i0, %t0)\n%i1 = input() shape=[4] dtype=int64 below=6\n"
    "%t1 = weight() shape=[6, 8]\n%e1 = embedding(%i1, %t1)\n";
constexpr const char* kWeightsAndLoss =
    "%t = input() shape=[4, 2]\n%loss = mse(%y, %t)\nreturn %loss\n";

TEST(Figure16, ReplacesAConcatenationByAMatmulPerTable) {
  const auto concatenated = parse_graph(
      std::string("graph g\n") + kTables +
      "%c = concat(%e0, %e1) axis=1\n%w0 = weight() shape=[2, 8]\n%w1 = weight() shape=[2, 8]\n"
      "%w = concat(%w0, %w1) axis=1\n%y = linear(%c, %w)\n" +
      kWeightsAndLoss);
  const auto summed = parse_graph(std::string("graph g\n") + kTables +
                                  "%w0 = weight() shape=[2, 8]\n%y0 = linear(%e0, %w0)\n"
                                  "%w1 = weight() shape=[2, 8]\n%y1 = linear(%e1, %w1)\n"
                                  "%y = add(%y0, %y1)\n" +
                                  kWeightsAndLoss);
  const graph::OneDevice<Field> one(concatenated, 5);
  graph::expect_equals(summed, one, 5);

  // Every matmul is on its table's device; their sum is a join. On 2 devices it sends b o elements
  // forward and backward.
  const auto mapped = lower::parse_mapped(
      R"(graph g
%i0 = input() shape=[4] dtype=int64 below=6
%t0 = weight() shape=[6, 8]
%e0 = embedding(%i0, %t0)
%i1 = input() shape=[4] dtype=int64 below=6
%t1 = weight() shape=[6, 8]
%e1 = embedding(%i1, %t1)
%w0 = weight() shape=[2, 8]
%y0 = linear(%e0, %w0)
%w1 = weight() shape=[2, 8]
%y1 = linear(%e1, %w1)
%y = join(%y0, %y1)
%s = reduce(%y) degree=2
%d = partition(%s) dim=0 degree=2 : [4/2, 2] fp32
%t = input() shape=[4/2, 2]
%loss = mse(%d, %t) : []+2 fp32
return %loss
)",
      {{"i0", "."},
       {"t0", "."},
       {"e0", "."},
       {"i1", "A"},
       {"t1", "A"},
       {"e1", "A"},
       {"w0", "."},
       {"y0", "."},
       {"w1", "A"},
       {"y1", "A"},
       {"y", "p"},
       {"s", "."},
       {"d", "0"},
       {"t", "0"},
       {"loss", "p"}});
  expect_legal_and_equal(mapped.pcg);
  graph::expect_equals(mapped.pcg, one, 5);
  EXPECT_EQ(erase_parallelism(mapped.pcg).identity_hash(), summed.identity_hash());
  const auto program = lower::lower(mapped, make_digits({2}), {}, plan::Optimizer::kSgd);
  lower::expect_same_step(summed, program, 5);
  EXPECT_EQ(collectives(program), (std::vector<std::string>{"reduce_scatter", "all_gather"}));
  EXPECT_EQ(count_communicated_elements(program), 2 * 4 * 2);
}

// The tables are one stacked operator. Either rows are sent by all-to-all, or the results of their
// matmuls by reduce-scatter.
TEST(Figure16, AvoidsAnAllToAllOfStackedTables) {
  const auto model = parse_graph(
      "graph g\n%i = input() shape=[4, 2, 3] dtype=int64 below=6\n%t = weight() shape=[2, 6, 8]\n"
      "%e = embedding_bags(%i, %t)\n%w = weight() shape=[2, 2, 8]\n"
      "%y = contract(%e, %w) index=\"b t d, o t d -> b o\"\n%u = input() shape=[4, 2]\n"
      "%loss = mse(%y, %u)\nreturn %loss\n");
  const auto digits = make_digits({2});
  const auto concat = lower_strategy(model, digits, {{"e", "t"}, {"y", "b"}, {"loss", "d0"}});
  const auto matmuls = lower_strategy(model, digits, {{"e", "t"}, {"y", "t"}, {"loss", "d0"}});
  for (const auto* program : {&concat, &matmuls}) {
    expect_legal_and_equal(program->pcg);
    lower::expect_same_step(model, *program, 5);
  }
  EXPECT_EQ(collectives(concat),
            (std::vector<std::string>{"all_to_all", "all_to_all", "all_reduce"}));
  EXPECT_EQ(collectives(matmuls), (std::vector<std::string>{"reduce_scatter", "all_gather"}));
  // Half of the rows b t d and of their gradients, and the weight's gradients; or b o twice.
  EXPECT_EQ(count_communicated_elements(concat), 4 * 2 * 8 + 2 * 2 * 2 * 8);
  EXPECT_EQ(count_communicated_elements(matmuls), 2 * 4 * 2);
}

TEST(Figure16, SplitsABagIntoAnEmbeddingAndAReduction) {
  const auto bag = parse_graph(
      "graph g\n%i = input() shape=[4, 6] dtype=int64 below=6\n%t = weight() shape=[6, 8]\n"
      "%y = embedding_bag(%i, %t)\nreturn %y\n");
  const graph::OneDevice<Field> one(bag, 5);
  // Split along the indices that a bag sums, which the bag hides, and by rows of the table at once.
  const auto pcg = parse_graph(R"(graph g
%i = input() shape=[4, 6/2] dtype=int64 below=6
%i2 = replicate(%i) degree=3
%t = weight() shape=[6, 8]
%t1 = partition(%t) degree=3
%t2 = replicate(%t1) degree=2
%e = embedding(%i2, %t2) : [4, 6/2, 8]+3 fp32
%s = reduce_sum(%e) axes=[1] : [4, 8]+6 fp32
%y = reduce(%s) degree=6 : [4, 8] fp32
return %y
)");
  expect_legal_and_equal(pcg);
  graph::expect_equals(pcg, one, 5);
}

}  // namespace
}  // namespace tandem::strategies
