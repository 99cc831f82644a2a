// Proof by execution: every legal way to spread every operator over devices computes what one
// device computes, forward and backward. It runs in a prime field, so "equal" means equal.
#include "graph/virtual_devices.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "base/fewer_test_support.h"
#include "base/text.h"
#include "graph/one_device_test_support.h"
#include "graph/random_graph_test_support.h"
#include "graph/text.h"
#include "ops/examples_test_support.h"
#include "ops/micro_batches.h"
#include "ops/task_grid.h"
#include "term/random_values_test_support.h"

namespace tandem::graph {
namespace {

using term::Field;
using term::random_dense;

// --- distribute and assemble

TEST(Sharded, AssembleUndoesDistribute) {
  std::mt19937_64 random(1);
  const auto whole = random_dense<Field>({12, 6}, random);
  for (const auto* text :
       {"[12, 6]", "[12/2, 6/3]", "[12/3, 6]*2", "[12, 6/2]+3", "[12/2, 6]*2+3", "[12/12, 6/6]"}) {
    const auto shape = parse_parallel_shape(text).value();
    const auto value = distribute(whole, shape, 7);
    EXPECT_EQ(value.shards.size(), static_cast<std::size_t>(shape.device_count()));
    bool agree = false;
    EXPECT_EQ(assemble(value, &agree), whole) << text;
    EXPECT_TRUE(agree) << text;
  }
}

TEST(Sharded, MatchesTheType) {
  const Dense<double> whole({4}, {1, 2, 3, 4});
  const auto cut = distribute(whole, parse_parallel_shape("[4/2]*2").value(), 1);
  EXPECT_EQ(cut.at({{0}, 0, 0}).data, (std::vector<double>{1, 2}));
  EXPECT_EQ(cut.at({{0}, 1, 0}).data, (std::vector<double>{1, 2}));
  EXPECT_EQ(cut.at({{1}, 1, 0}).data, (std::vector<double>{3, 4}));
  // Summands differ from the value and from zero, so a program that forgets to add them is caught.
  const auto summed = distribute(whole, parse_parallel_shape("[4]+2").value(), 1);
  EXPECT_NE(summed.at({{0}, 0, 0}), whole);
  EXPECT_EQ(assemble(summed), whole);
}

TEST(Sharded, DetectsDifferentReplicas) {
  auto value = distribute(Dense<double>({2}, {1, 2}), parse_parallel_shape("[2]*3").value(), 1);
  bool agree = false;
  assemble(value, &agree);
  EXPECT_TRUE(agree);
  value.at({{0}, 2, 0}).data[1] = 5;
  assemble(value, &agree);
  EXPECT_FALSE(agree);
}

// --- Every compute operator, every legal grid

using ops::Example;

struct Spread {
  const ops::Signature* signature = nullptr;
  ops::TaskGrid grid;
};

// Returns a graph with one node of this operator and new sources of the types that the grid needs;
// `change` may alter them.
template <class Change>
Graph make_graph(const Example& example, const Spread& spread, const Change& change) {
  const auto op = make(example);
  GraphBuilder builder(example.op);
  std::vector<NodeId> inputs;
  for (std::size_t i = 0; i < example.inputs.size(); ++i) {
    auto shape = ops::compute_input_shape(*spread.signature, spread.grid, i);
    change(i, shape);
    const auto name = fmt::format("x{}", i);
    inputs.push_back(is_index(example, i) ? builder.input(name, shape, DType::kInt64, example.below)
                                          : builder.weight(name, shape, DType::kFp64));
  }
  return builder.finish({builder.add(op, inputs, "y")});
}
Graph make_graph(const Example& example, const Spread& spread) {
  return make_graph(example, spread, [](std::size_t, ParallelShape&) {});
}

// Bounds of a test: up to `degree` for every factor, in all combinations of up to `tasks`. Partial
// sums and replicas are added while there are no more than `devices`.
struct Bounds {
  std::int64_t degree = 4;
  std::int64_t tasks = std::int64_t{1} << 20U;
  std::int64_t devices = 24;
};

// Returns whether the operands can be laid out for this grid. The degrees must divide every
// dimension. A minor factor of a product dimension is cut only if the factors before it are used
// up. Without product dimensions that is all, so infer_grid must then return the same grid.
bool is_legal(const Spread& spread) {
  const auto& s = *spread.signature;
  std::vector<ParallelShape> types;
  bool has_factor_product =
      std::ranges::any_of(s.map.output, [](const auto& dim) { return dim.carriers.size() > 1; });
  for (std::size_t i = 0; i < s.map.inputs.size(); ++i) {
    types.push_back(ops::compute_input_shape(s, spread.grid, i));
    for (std::size_t d = 0; d < types[i].rank(); ++d) {
      if (types[i].sizes[d] % types[i].degrees[d] != 0) return false;
      has_factor_product = has_factor_product || s.map.inputs[i][d].carriers.size() > 1;
    }
  }
  if (!has_factor_product) {
    EXPECT_TRUE(ops::infer_grid(s, types) == spread.grid) << to_text(types[0]);
    return true;
  }
  try {
    return ops::infer_grid(s, types) == spread.grid;
  } catch (const UserError&) {
    return false;
  }
}

// Returns the example with other sizes, under which its factors are `wanted`, or nullopt if its
// attributes fix the sizes.
std::optional<Example> resize(Example example, const ops::Signature& s,
                              const std::vector<std::int64_t>& wanted) {
  for (std::size_t i = 0; i < example.inputs.size(); ++i) {
    for (std::size_t d = 0; d < example.inputs[i].rank(); ++d) {
      for (auto f : s.map.inputs[i][d].carriers) {
        auto& size = example.inputs[i][d];
        const auto was = s.map.factors[f].size;
        if (size % was != 0) return std::nullopt;
        size = size / was * wanted[f];
      }
    }
  }
  try {
    const auto& got = ops::get_signature(make(example), example.inputs).map.factors;
    const auto size_of = [](const auto& factor) { return factor.size; };
    if (std::ranges::equal(got, wanted, {}, size_of)) return example;
  } catch (const UserError&) {
  }
  return std::nullopt;
}

// Visits every way to cut the factors up to the bound, leaving whole factors whole. Sizes are
// divisible by the degrees: the example's own, or one or two elements per shard.
template <class Visit>
void for_each_degrees(const Example& example, const Bounds& bounds, Visit&& visit) {
  const auto& s = ops::get_signature(make(example), example.inputs);
  std::vector<std::int64_t> degrees(s.use.size(), 1);
  std::vector<std::int64_t> sizes;
  for (const auto& factor : s.map.factors) sizes.push_back(factor.size);
  const auto own = sizes;
  const auto choose = [&](const auto& self, std::size_t f) -> void {
    if (f == degrees.size()) {
      if (sizes == own) return visit(example, std::as_const(degrees));
      if (const auto other = resize(example, s, sizes)) visit(*other, std::as_const(degrees));
      return;
    }
    const auto most = s.use[f] == ops::FactorUse::kWhole ? 1 : bounds.degree;
    for (degrees[f] = 1; degrees[f] <= most; ++degrees[f]) {
      sizes[f] =
          own[f] % degrees[f] == 0 ? own[f] : degrees[f] * (1 + static_cast<std::int64_t>(f % 2));
      self(self, f + 1);
    }
    degrees[f] = 1;
    sizes[f] = own[f];
  };
  choose(choose, 0);
}

// Visits every legal way to spread the operator within the bounds.
template <class Visit>
void for_each_spread(const Example& some, const Bounds& bounds, Visit&& visit) {
  for_each_degrees(some, bounds, [&](const Example& example, const auto& degrees) {
    const auto& s = ops::get_signature(make(example), example.inputs);
    std::vector<std::pair<std::int64_t, ops::InputMask>> through = {{1, 0}};
    for (auto set : s.partial_inputs) {
      for (std::int64_t p = 2; p <= bounds.degree; ++p) through.emplace_back(p, set);
    }
    Spread spread{&s, {.degrees = degrees}};
    for (const auto& [count, set] : through) {
      for (std::int64_t replicas = 1; replicas <= 2; ++replicas) {
        spread.grid.through = count;
        spread.grid.through_inputs = set;
        spread.grid.replicas = replicas;
        const auto most = count * replicas == 1 ? bounds.tasks : bounds.devices;
        const bool few = spread.grid.tasks() <= most;
        if (few && is_legal(spread)) visit(example, std::as_const(spread));
      }
    }
  });
}

void expect_every_legal_grid(const Bounds& bounds, std::uint64_t least_cases) {
  std::uint64_t cases = 0;
  for (const auto& some : ops::examples()) {
    OneDevice<Field> one;
    for_each_spread(some, bounds, [&](const Example& example, const Spread& spread) {
      if (++cases % kFewer != 0) return;
      const auto graph = make_graph(example, spread);
      SCOPED_TRACE(to_text(graph));
      // Grids over the same sizes share the one-device results.
      const auto erased = erase_parallelism(graph);
      if (erased.identity_hash() != one.graph.identity_hash()) one = {erased, 1};
      expect_equals(graph, one, 1);
    });
    if (testing::Test::HasFailure()) return;  // one operator's failures are enough to read
  }
  fmt::print("{} of {} legal grids run\n", cases / kFewer, cases);
  testing::Test::RecordProperty("cases", std::to_string(cases));
  EXPECT_GT(cases, least_cases);
}

TEST(ProofByExecution, CoversEveryLegalGridOfEveryOperatorInTheField) {
  expect_every_legal_grid({}, 20000);
}

TEST(NightlyProofByExecution, CoversEveryLegalGridOfEveryOperatorInTheField) {
  expect_every_legal_grid({.degree = 6, .tasks = 300, .devices = 72}, 100000);
}

TEST(ProofByExecution, CoversASampleInDouble) {
  std::uint64_t cases = 0;
  for (const auto& example : ops::examples()) {
    if (example.positive) continue;  // sources have either sign
    for_each_spread(example, {.degree = 3}, [&](const Example& sized, const Spread& spread) {
      if (++cases % 7 != 0) return;
      const auto graph = make_graph(sized, spread);
      SCOPED_TRACE(fmt::format("seed {}\n{}", cases, to_text(graph)));
      expect_equals_one_device<double>(graph, cases);
    });
  }
}

// Checks that every operand's type but the right one is rejected: a whole factor split, a partial
// sum where the operator is not linear, replicas that do not fit the other operands.
TEST(ProofByExecution, RefusesIllegalCombinations) {
  int cases = 0;
  for (const auto& example : ops::examples()) {
    const auto& s = ops::get_signature(make(example), example.inputs);
    const auto is_refused = [&](const ops::TaskGrid& grid, const auto& change) {
      ++cases;
      try {
        ADD_FAILURE() << "accepted:\n" << to_text(make_graph(example, {&s, grid}, change));
      } catch (const UserError& e) {
        EXPECT_EQ(e.where, fmt::format("{} %y", example.op)) << e.what();
      }
    };
    const auto keep = [](std::size_t, ParallelShape&) {};
    const ops::TaskGrid whole{.degrees = std::vector<std::int64_t>(s.use.size(), 1)};
    for (ops::FactorId f = 0; f < s.use.size(); ++f) {
      if (s.use[f] != ops::FactorUse::kWhole || s.map.factors[f].size % 2 != 0) continue;
      for (std::size_t i = 0; i < example.inputs.size(); ++i) {
        const int d = s.map.find_input_dim(i, f);
        // In a product dimension, the degree would be that of the factor before it.
        if (d < 0 || s.map.inputs[i][static_cast<std::size_t>(d)].carriers[0] != f) continue;
        auto grid = whole;
        grid.degrees[f] = 2;
        is_refused(grid, keep);
        break;
      }
    }
    for (ops::InputMask set = 1; set < ops::InputMask{1} << example.inputs.size(); ++set) {
      if (std::ranges::find(s.partial_inputs, set) != s.partial_inputs.end()) continue;
      auto grid = whole;
      grid.through = 2;
      grid.through_inputs = set;
      is_refused(grid, keep);
    }
    if (example.inputs.size() == 1) continue;  // any number of replicas is right
    for (std::size_t i = 0; i < example.inputs.size(); ++i) {
      is_refused(whole,
                 [i](std::size_t n, ParallelShape& shape) { shape.replicas *= n == i ? 2 : 1; });
    }
  }
  EXPECT_GT(cases, 100);
}

TEST(ProofByExecution, LetsAPartialMaximumReachOnlyAReduction) {
  const auto row_max = [](const std::string& rest) {
    return parse_graph("graph g\n%x = weight() shape=[4, 6/3]\n%m = row_max(%x) : [4]^3 fp32\n" +
                       rest);
  };
  expect_equals_one_device<Field>(row_max("%r = reduce(%m) degree=3 : [4] fp32\nreturn %r\n"), 1);
  try {
    row_max("%y = identity(%m)\nreturn %y\n");
    FAIL() << "accepted";
  } catch (const UserError& e) {
    EXPECT_EQ(e.message, "identity %y: a partial maximum (of 3) cannot pass through input 0");
  }
}

// Logits cut along the vocabulary are never gathered: only a maximum, a sum and the picked logit of
// each row are communicated.
TEST(ProofByExecution, CoversCrossEntropyOverAShardedVocabulary) {
  const auto pcg = parse_graph(R"(graph vocabulary
%h = weight() shape=[4, 6]*2 dtype=fp64
%w = weight() shape=[8/2, 6] dtype=fp64
%x = linear(%h, %w) : [4, 8/2] fp64
%m = row_max(%x) : [4]^2 fp64
%m1 = reduce(%m) degree=2
%m2 = replicate(%m1) degree=2
%m3 = reshape(%m2) shape=[4, 1]
%z = sub(%x, %m3) : [4, 8/2] fp64
%e = exp(%z)
%s = reduce_sum(%e) axes=[1] : [4]+2 fp64
%s1 = reduce(%s) degree=2
%l = log(%s1)
%i = input() shape=[4]*2 dtype=int64 below=8
%p = pick(%z, %i) : [4]+2 fp64
%p1 = reduce(%p) degree=2
%d = sub(%l, %p1)
%loss = reduce_mean(%d) : [] fp64
return %loss
)");
  expect_equals_one_device<Field>(pcg, 1);
  expect_equals_one_device<double>(pcg, 2);
  // The loss and its gradients equal those that one operator computes on whole logits.
  const auto one = parse_graph(
      "graph whole\n%h = weight() shape=[4, 6] dtype=fp64\n%w = weight() shape=[8, 6] dtype=fp64\n"
      "%i = input() shape=[4] dtype=int64 below=8\n%x = linear(%h, %w)\n"
      "%loss = cross_entropy(%x, %i)\nreturn %loss\n");
  expect_equals(pcg, OneDevice<double>(one, 3), 3);
}

// --- The parallelization operators

TEST(ProofByExecution, TreatsParallelOperatorsAsTheIdentity) {
  std::uint64_t cases = 0;
  for_each_index(Shape{4, 3, 3, 3}, [&](const Shape& pick) {
    constexpr std::array<std::int64_t, 4> kDegrees = {1, 2, 3, 6};
    ParallelShape type({12, 18});
    type.degrees = {kDegrees[static_cast<std::size_t>(pick[0])],
                    kDegrees[static_cast<std::size_t>(pick[1])]};
    type.replicas = kDegrees[static_cast<std::size_t>(pick[2])];
    type.partial = pick[3] == 2 ? 6 : pick[3] + 1;
    for (std::int64_t degree = 2; degree <= 3; ++degree) {
      std::vector<ops::Op> all = {ops::make_op(ops::kReplicate, ops::Degree{degree})};
      if (type.partial % degree == 0)
        all.push_back(ops::make_op(ops::kReduce, ops::Degree{degree}));
      if (type.replicas % degree == 0)
        all.push_back(ops::make_op(ops::kUnreplicate, ops::Degree{degree}));
      for (std::int64_t dim = 0; dim < 2; ++dim) {
        const auto d = static_cast<std::size_t>(dim);
        const ops::DimDegree a{dim, degree};
        if (type.shard_shape()[d] % degree == 0) all.push_back(ops::make_op(ops::kPartition, a));
        if (type.degrees[d] % degree == 0) all.push_back(ops::make_op(ops::kCombine, a));
        const ops::MicroBatches cut{dim, degree};
        if (type.shard_shape()[d] % degree == 0) all.push_back(ops::make_op(ops::kPipeline, cut));
        if (type.degrees[d] % degree == 0) all.push_back(ops::make_op(ops::kBatch, cut));
      }
      for (const auto& op : all) {
        GraphBuilder builder("g");
        const auto x = builder.weight("x", type, DType::kFp32);
        const auto graph = builder.finish({builder.add(op, {x}, "y")});
        SCOPED_TRACE(fmt::format("seed {}\n{}", ++cases, to_text(graph)));
        expect_equals_one_device<Field>(graph, cases);
      }
    }
  });
  EXPECT_GT(cases, 500U);
}

// --- Small programs

TEST(ProofByExecution, CoversSmallPrograms) {
  const std::string_view programs[] = {
      // (A x B) x C: A in rows and columns, B in rows, a partial sum carried on to C and reduced.
      R"(graph chain
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
)",
      // This is the same with a re-partition between the matmuls: reduce + partition, combine +
      // replicate.
      R"(graph chain_2
%a = weight() shape=[6, 12/2]
%b = weight() shape=[12/2, 18]
%c = weight() shape=[18, 4/2]
%ab = matmul(%a, %b) : [6, 18]+2 fp32
%s = reduce(%ab) degree=2
%p = partition(%s) dim=0 degree=2
%g = combine(%p) dim=0 degree=2
%h = replicate(%g) degree=2
%abc = matmul(%h, %c) : [6, 4/2] fp32
return %abc
)",
      // Megatron: column-parallel, then row-parallel, all-reduce, residual; data parallel outside.
      R"(graph megatron
%x = input() shape=[6/2, 4, 8]*3
%w1 = weight() shape=[12, 8]
%w1p = partition(%w1) degree=3
%w1r = replicate(%w1p) degree=2
%b1 = weight() shape=[12]
%b1p = partition(%b1) degree=3
%b1r = replicate(%b1p) degree=2
%h = linear(%x, %w1r, %b1r) act=relu : [6/2, 4, 12/3] fp32
%w2 = weight() shape=[8, 12]
%w2p = partition(%w2) dim=1 degree=3
%w2r = replicate(%w2p) degree=2
%y = linear(%h, %w2r) : [6/2, 4, 8]+3 fp32
%s = reduce(%y) degree=3
%r = replicate(%s) degree=3 : [6/2, 4, 8]*3 fp32
%z = add(%x, %r) : [6/2, 4, 8]*3 fp32
return %z
)",
      // This program has a constant that is cut, and a mask by position.
      R"(graph masked
%x = weight() shape=[6/2, 4]
%c = constant() shape=[6/2, 4] kind="iota" value=2 axis=0
%s = add(%x, %c) : [6/2, 4] fp32
%p = softmax(%s) causal=true
%g = combine(%p) degree=2 : [6, 4] fp32
return %g
)",
      // A weight is used twice, once partial through an addition.
      R"(graph tied
%x = input() shape=[6, 8/2]
%w = weight() shape=[8, 8/2]
%y = linear(%x, %w) : [6, 8]+2 fp32
%z = linear(%x, %w) : [6, 8]+2 fp32
%s = add(%y, %z) : [6, 8]+2 fp32
%r = reduce(%s) degree=2
%o = softmax(%r)
return %o
)",
  };
  for (auto text : programs) {
    SCOPED_TRACE(text);
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
      expect_equals_one_device<Field>(parse_graph(text), seed);
      expect_equals_one_device<double>(parse_graph(text), seed);
    }
  }
}

TEST(ProofByExecution, CoversRandomGraphs) {
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    const auto graph = random_graph(seed, {.operators = 10});
    SCOPED_TRACE(fmt::format("seed {}\n{}", seed, to_text(graph)));
    expect_equals_one_device<Field>(graph, seed);
    if (HasFailure()) return;
  }
}

TEST(ProofByExecution, StartsALossGradientOncePerSummand) {
  const auto pcg = parse_graph(R"(graph loss
%x = input() shape=[6/2, 4/2]*3
%w = weight() shape=[4/2, 4/2]*6
%t = input() shape=[6/2, 4/2]*3
%x2 = replicate(%x) degree=2
%y = linear(%x2, %w)
%r = reduce(%y) degree=2
%loss = mse(%r, %t) : []*3+4 fp32
return %loss
)");
  const auto erased = erase_parallelism(pcg);
  const auto serial = run_forward<Field>(erased, make_feed_values<Field>(erased));
  const auto expected = run_backward<Field>(erased, serial, make_loss_gradient<Field>(erased));
  const auto sharded = run_sharded_forward<Field>(pcg, make_feed_values<Field>(pcg));
  const auto actual =
      run_sharded_backward<Field>(pcg, sharded, make_sharded_loss_gradient<Field>(pcg));
  EXPECT_EQ(assemble(sharded.back()), serial.back());
  EXPECT_EQ(assemble(actual[1]), expected[1]);
}

}  // namespace
}  // namespace tandem::graph
