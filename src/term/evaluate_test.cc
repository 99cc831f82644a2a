#include "term/evaluate.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "term/term_analysis.h"

namespace tandem::term {
namespace {

// A term over inputs: index text, input values, and the term itself.
template <class T>
struct Problem {
  IndexMap map;
  BoundTerm bound;
  std::vector<Dense<T>> inputs;

  Problem(std::string_view index, const Term& term, std::vector<Dense<T>> values)
      : inputs(std::move(values)) {
    std::vector<Shape> shapes;
    for (const auto& in : inputs) shapes.push_back(in.shape);
    map = resolve_index(index, shapes);
    bound = term::bind(term, map);
  }
  Evaluation<T> evaluation() const { return evaluation(make_full_ranges(map)); }
  Evaluation<T> evaluation(std::vector<FactorRange> ranges) const {
    std::vector<Operand<T>> operands;
    for (const auto& in : inputs) operands.emplace_back(in);
    return Evaluation<T>(bound, std::move(ranges), std::move(operands));
  }
  Dense<T> forward() const { return evaluation().forward(map.output); }
  std::vector<Dense<T>> backward(const Dense<T>& seed) const {
    std::vector<Dense<T>> grads;
    for (const auto& in : inputs) grads.emplace_back(in.shape);
    std::vector<Dense<T>*> pointers;
    for (auto& g : grads) pointers.push_back(&g);
    evaluation().backward(map.output, seed, pointers);
    return grads;
  }
};

using Doubles = std::vector<double>;

TEST(Evaluate, MatchesAForwardPassComputedByHand) {
  const Dense<double> x({2, 3}, {1, 2, 3, 4, 5, 6});
  const Dense<double> y({3}, {10, 0, -1});
  struct Case {
    std::string_view index;
    Term term;
    std::vector<Dense<double>> inputs;
    Doubles out;
  };
  const Case cases[] = {
      {"a b -> a b", constant(3) * input(0) + constant(1), {x}, {4, 7, 10, 13, 16, 19}},
      {"a b -> b a", input(0), {x}, {1, 4, 2, 5, 3, 6}},
      {"a b, b -> a b", input(0) - input(1), {x, y}, {-9, 2, 4, -6, 5, 7}},
      {"a b, b -> a", sum("b", input(0) * input(1)), {x, y}, {7, 34}},
      {"a b -> ", sum("a b", input(0)), {x}, {21}},
      {"a b -> b", sum("a", input(0)) / extent("a"), {x}, {2.5, 3.5, 4.5}},
      {"... c -> ", sum("... c", input(0)) / extent("... c"), {x}, {3.5}},
      {"a b -> a", max_over("b", input(0)), {x}, {3, 6}},
      {"b -> b", relu(input(0)), {y}, {10, 0, 0}},
      {"a b -> a b",
       index_along("a") * constant(10) + index_along("b"),
       {x},
       {0, 1, 2, 10, 11, 12}},
      {"a b -> a b", equal(input(0), constant(4)), {x}, {0, 0, 0, 1, 0, 0}},
      {"a b -> a", sum("b", equal(index_along("b"), constant(1)) * input(0)), {x}, {2, 5}},
      // A sum of a sum: children are filled before parents.
      {"a b -> ", sum("a", relu(sum("b", input(0)) - constant(10))), {x}, {5}},
      // Reads before the start and past the end are zero: y[a - 2] for a in [0, 2).
      {"a b, c -> a", input_at(1, "a-2"), {x, y}, {0, 0}},
      {"a, b -> b", input_at(0, "b"), {Dense<double>({2}, {8, 9}), y}, {8, 9, 0}},
      {"a, b -> b", input_at(0, "b-2"), {Dense<double>({2}, {8, 9}), y}, {0, 0, 8}},
      {"a b -> a", inside(0, "a b-2") * constant(1), {x}, {0, 0}},
      // Strides, reversal, windows and flattened dimensions.
      {"2i+r -> i:2 | r:2", sum("r", input(0)), {Dense<double>({4}, {1, 2, 3, 4})}, {3, 7}},
      {"a, b -> b", input_at(0, "-b+1"), {Dense<double>({2}, {8, 9}), y}, {9, 8, 0}},
      {"i+r-1 -> i:3 | r:3", sum("r", input(0)), {y}, {10, 9, -1}},
      {"i+r-1 -> i:3 | r:3", sum("r", inside(0)), {y}, {2, 3, 2}},
      {"i+r-1 -> i:3 | r:3",
       max_over("r", input(0) - constant(20), inside(0)),
       {y},
       {-10, -10, -20}},
      {"(a:2 b) -> b a", input(0), {Dense<double>({4}, {1, 2, 3, 4})}, {1, 3, 2, 4}},
      {"a b -> (b a)", input(0), {x}, {1, 4, 2, 5, 3, 6}},
      {"0 b -> b", input(0), {Dense<double>({1, 2}, {8, 9})}, {8, 9}},
      // Comparisons.
      {"b -> b", less(input(0), constant(0)), {y}, {0, 0, 1}},
      {"b -> b", where(less(input(0), constant(0)), constant(5), input(0)), {y}, {10, 0, 5}},
      {"b -> b | f:3", sum("f", less(input_at(0, "f"), input(0))), {y}, {2, 1, 0}},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(Problem<double>(c.index, c.term, c.inputs).forward().data, c.out)
        << c.index << " : " << to_text(c.term);
  }
  EXPECT_DOUBLE_EQ(Problem<double>("a -> a", exp(input(0)), {{{1}, {2}}}).forward().data[0],
                   std::exp(2));
  EXPECT_DOUBLE_EQ(Problem<double>("a -> a", sqrt(input(0)), {{{1}, {2}}}).forward().data[0],
                   std::sqrt(2));
}

TEST(Evaluate, MatchesABackwardPassComputedByHand) {
  const Dense<double> x({2, 2}, {1, 2, 3, 4});
  const Dense<double> y({2}, {10, -1});
  struct Case {
    std::string_view index;
    Term term;
    std::vector<Dense<double>> inputs;
    Dense<double> seed;
    std::vector<Doubles> grads;
  };
  const Case cases[] = {
      {"a b, b -> a",
       sum("b", input(0) * input(1)),
       {x, y},
       {{2}, {1, 5}},
       {{10, -1, 50, -5}, {16, 22}}},
      {"a, a -> a", input(0) + input(1), {y, y}, {{2}, {3, 4}}, {{3, 4}, {3, 4}}},
      {"a, a -> a", input(0) / input(1), {{{1}, {6}}, {{1}, {2}}}, {{1}, {1}}, {{0.5}, {-1.5}}},
      {"a -> a", relu(input(0)), {y}, {{2}, {3, 4}}, {{3, 0}}},
      {"a -> a", input(0) * input(0), {y}, {{2}, {1, 1}}, {{20, -2}}},
      {"a -> a", sqrt(input(0)), {{{1}, {16}}}, {{1}, {1}}, {{0.125}}},
      // The maximum is a constant in the backward pass.
      {"a b -> a b",
       input(0) - max_over("b", input(0)),
       {x},
       {{2, 2}, {1, 2, 3, 4}},
       {{1, 2, 3, 4}}},
      {"a b -> ",
       sum("a", sum("b", input(0)) * sum("b", input(0))),
       {x},
       {{}, {1}},
       {{6, 6, 14, 14}}},
      {"a, b -> b", input_at(0, "b-1"), {{{1}, {7}}, y}, {{2}, {3, 4}}, {{4}, {0, 0}}},
      // pick_max gives the whole gradient to the first largest element.
      {"a b -> a", pick_max("b", input(0)), {x}, {{2}, {3, 4}}, {{0, 3, 0, 4}}},
      {"a b -> ",
       pick_max("a b", constant(0) * input(0) + constant(1)),
       {x},
       {{}, {1}},
       {{0, 0, 0, 0}}},
      {"i+r-1 -> i:2 | r:2", sum("r", input(0)), {y}, {{2}, {1, 5}}, {{6, 5}}},
  };
  for (const auto& c : cases) {
    const auto grads = Problem<double>(c.index, c.term, c.inputs).backward(c.seed);
    for (std::size_t i = 0; i < grads.size(); ++i) {
      EXPECT_EQ(grads[i].data, c.grads[i]) << to_text(c.term) << ", input " << i;
    }
  }
}

TEST(Evaluate, AddsToGradientsAndSkipsUnwantedOnes) {
  const Problem<double> s("a, a -> a", input(0) * input(1), {{{2}, {2, 3}}, {{2}, {5, 7}}});
  Dense<double> grad({2}, {100, 200});
  s.evaluation().backward(s.map.output, {{2}, {1, 1}}, {&grad, nullptr});
  EXPECT_EQ(grad.data, (Doubles{105, 207}));
}

TEST(Evaluate, ReadsABlockAtGlobalIndices) {
  // Elements 1 to 3 of 6 are the inputs of elements 2 and 3 of a sum of neighbours.
  const Problem<double> s("i+r-1 -> i:6 | r:2", sum("r", input(0)), {{{6}, {1, 2, 3, 4, 5, 6}}});
  const std::vector<FactorRange> ranges = {{2, 6, 2}, {2, 2, 0}};
  EXPECT_EQ(compute_box(s.map.inputs[0], ranges), (Box{{1}, {3}}));
  const Dense<double> block({3}, {2, 3, 4});
  Evaluation<double> evaluation(s.bound, ranges, {Operand<double>(block, {1}, {6})});
  EXPECT_EQ(evaluation.forward(s.map.output).data, (Doubles{5, 7}));
  Dense<double> gradient({3});
  evaluation.backward(s.map.output, {{2}, {1, 10}}, {&gradient});
  EXPECT_EQ(gradient.data, (Doubles{1, 11, 10}));
}

TEST(Evaluate, DrawsRandomNumbersByGlobalIndex) {
  const Problem<double> s("a b -> a b", keep(0.5, 3, "a b"), {Dense<double>({4, 5})});
  const auto whole = s.forward();
  for (std::int64_t half = 0; half < 2; ++half) {
    const auto part = s.evaluation({{2, 4, 2 * half}, {5, 5, 0}}).forward(s.map.output);
    for (std::size_t i = 0; i < 10; ++i) {
      EXPECT_EQ(part.data[i], whole.data[static_cast<std::size_t>(half) * 10 + i]);
    }
  }
  // Another step or origin draws other elements. The retained fraction is the probability.
  const Problem<double> big("a -> a", keep(0.25, 3, "a"), {Dense<double>({4000})});
  const auto count = [](const Dense<double>& d) {
    return std::accumulate(d.data.begin(), d.data.end(), 0.0);
  };
  EXPECT_NEAR(count(big.forward()), 1000, 90);
  const auto later = Evaluation<double>(big.bound, make_full_ranges(big.map),
                                        {Operand<double>(big.inputs[0])}, {.seed = 0, .step = 1})
                         .forward(big.map.output);
  EXPECT_NE(later, big.forward());
  EXPECT_NE(Problem<double>("a -> a", keep(0.25, 4, "a"), {Dense<double>({4000})}).forward(),
            big.forward());
}

TEST(Evaluate, UsesTheOffsetAndGlobalExtentOfAShard) {
  // One shard is the second half of a: indices 2 and 3 of 4.
  const Problem<double> s("a -> a", index_along("a") * constant(100) + extent("a") * input(0),
                          {{{4}, {8, 9, 1, 2}}});
  EXPECT_EQ(s.evaluation({{2, 4, 2}}).forward(s.map.output).data, (Doubles{204, 308}));
  const Problem<double> mean("a -> ", sum("a", input(0)) / extent("a"), {{{4}, {8, 9, 1, 2}}});
  EXPECT_EQ(mean.evaluation({{2, 4, 2}}).forward({}).data, (Doubles{0.75}));
}

TEST(Structure, IsLinearOnlyByForm) {
  struct Case {
    Term term;
    InputMask inputs;
    bool linear;
  };
  const auto x = input(0);
  const auto y = input(1);
  const Case cases[] = {
      {x + y, 0b01, false},
      {x + y, 0b11, true},
      {x * y, 0b01, true},
      {x * y, 0b11, false},
      {x / y, 0b01, true},
      {x / y, 0b10, false},
      {relu(x), 0b01, false},
      {x + constant(1), 0b01, false},
      {constant(2) * x, 0b01, true},
      {sum("a", x * y), 0b10, true},
      {max_over("a", x), 0b01, false},
      {y, 0b01, false},
      {equal(x, y), 0b01, false},
      {x - relu(y), 0b01, false},
      {x * relu(y), 0b01, true},
  };
  const std::vector<Shape> shapes = {{4}, {4}};
  const auto map = resolve_index("a, a -> a", shapes);
  for (const auto& c : cases)
    EXPECT_EQ(is_linear(term::bind(c.term, map), c.inputs), c.linear) << to_text(c.term);
}

TEST(Structure, AllowsPartialSumsOnlyIfNothingElseNeedsTheTotal) {
  const auto x = input(0);
  const auto total = sum("a", x);
  struct Case {
    Term term;
    bool in_parts;
  };
  const Case cases[] = {
      {total, true},
      {constant(3) * total, true},
      {total / constant(3), true},
      {total / extent("a"), true},
      {total + total, true},
      {sum("a", x * x), true},
      {relu(total), false},
      {total + constant(1), false},
      {total * total, false},
      {constant(1) / total, false},
      {max_over("a", x), false},
      {constant(1), false},
      {sum("a", x * total), false},  // the inner sum is not complete
      {sum("a", x - max_over("a", x)), false},
  };
  const std::vector<Shape> shapes = {{4}};
  const auto map = resolve_index("a ->", shapes);
  for (const auto& c : cases)
    EXPECT_EQ(can_shard_sum(term::bind(c.term, map), 0), c.in_parts) << to_text(c.term);
}

TEST(Structure, CountsAMultiplyAddAsTwo) {
  const std::vector<Shape> shapes = {{2, 3}, {3, 5}};
  const auto map = resolve_index("m k, k n -> m n", shapes);
  const auto product = sum("k", input(0) * input(1));
  EXPECT_EQ(count_operations(term::bind(product, map), map), Flops{60});
  EXPECT_EQ(count_operations(term::bind(relu(product), map), map), Flops{70});
}

TEST(Field, IsAField) {
  constexpr std::uint64_t kSeed = 1;
  SCOPED_TRACE(fmt::format("seed {}", kSeed));
  std::mt19937_64 random(kSeed);
  const Field zero(0);
  const Field one(1);
  for (int i = 0; i < 1000; ++i) {
    const Field a(random());
    const Field b(random());
    const Field c(random());
    EXPECT_EQ(a + b, b + a);
    EXPECT_EQ((a + b) + c, a + (b + c));
    EXPECT_EQ(a * b, b * a);
    EXPECT_EQ((a * b) * c, a * (b * c));
    EXPECT_EQ(a * (b + c), a * b + a * c);
    EXPECT_EQ(a + zero, a);
    EXPECT_EQ(a * one, a);
    EXPECT_EQ(a + Numbers<Field>::from_index(-1) * a, zero);
    if (a != zero) {
      EXPECT_EQ(a * a.inverse(), one);
    }
    if (b != zero) {
      EXPECT_EQ(Numbers<Field>::divide(a, b) * b, a);
    }
  }
}

TEST(Field, HandlesEdgesAndConstants) {
  EXPECT_EQ(Field(Field::kPrime), Field(0));
  EXPECT_EQ(Field(Field::kPrime - 1) + Field(1), Field(0));
  EXPECT_EQ(Field(Field::kPrime - 1) * Field(Field::kPrime - 1), Field(1));
  EXPECT_EQ(Field(~std::uint64_t{0}), Field(7));  // 2^64 - 1 = 8 (2^61 - 1) + 7
  EXPECT_EQ(Field(0).inverse(), Field(0));
  EXPECT_EQ(Field(2) * Field(2).inverse(), Field(1));
  using N = Numbers<Field>;
  EXPECT_EQ(N::from(3), Field(3));
  EXPECT_EQ(N::from(-3) + Field(3), Field(0));
  EXPECT_EQ(N::from_index(INT64_MIN) + Field(std::uint64_t{1} << 63U), Field(0));
  EXPECT_NE(N::from(0.5) + N::from(0.5), Field(1));  // 0.5 is an unknown of its own
  EXPECT_EQ(N::from(0.5), N::from(0.5));
}

TEST(Field, OrdersIntegers) {
  using N = Numbers<Field>;
  for (std::int64_t a = -5; a < 5; ++a) {
    for (std::int64_t b = -5; b < 5; ++b) {
      EXPECT_EQ(N::greater(N::from_index(a), N::from_index(b)), a > b) << a << " " << b;
    }
    EXPECT_TRUE(N::greater(N::from_index(a), N::lowest()));
  }
  EXPECT_FALSE(N::greater(N::lowest(), N::lowest()));
}

TEST(Field, TreatsMaximumAndReluAsLatticeOperations) {
  using N = Numbers<Field>;
  const auto max = [](Field a, Field b) { return N::greater(a, b) ? a : b; };
  const auto relu = [](Field a) { return N::apply(Function::kRelu, a); };
  constexpr std::uint64_t kSeed = 2;
  SCOPED_TRACE(fmt::format("seed {}", kSeed));
  std::mt19937_64 random(kSeed);
  int positive = 0;
  for (int i = 0; i < 1000; ++i) {
    const Field a(random());
    const Field b(random());
    const Field c(random());
    EXPECT_EQ(max(a, a), a);
    EXPECT_EQ(max(a, b), max(b, a));
    EXPECT_EQ(max(a, max(b, c)), max(max(a, b), c));
    EXPECT_EQ(relu(a), max(a, Field(0)));
    EXPECT_EQ(relu(relu(a)), relu(a));
    EXPECT_EQ(relu(max(a, b)), max(relu(a), relu(b)));
    EXPECT_EQ(N::derivative(Function::kRelu, a), N::greater(a, Field(0)) ? Field(1) : Field(0));
    positive += N::greater(a, Field(0)) ? 1 : 0;
  }
  EXPECT_GT(positive, 0);  // relu is neither zero nor the identity
  EXPECT_LT(positive, 1000);
}

TEST(Field, RelatesNoOpaqueFunctions) {
  using N = Numbers<Field>;
  const Field x(12345);
  const Field y(67890);
  EXPECT_NE(N::apply(Function::kExp, x), N::apply(Function::kSqrt, x));
  EXPECT_NE(N::apply(Function::kSqrt, x), N::derivative(Function::kSqrt, x));
  // The derivative of exp is known.
  EXPECT_EQ(N::apply(Function::kExp, x), N::derivative(Function::kExp, x));
  EXPECT_NE(N::apply(Function::kExp, x + y),
            N::apply(Function::kExp, x) * N::apply(Function::kExp, y));
  EXPECT_EQ(N::apply(Function::kExp, x), N::apply(Function::kExp, x));
}

}  // namespace
}  // namespace tandem::term
