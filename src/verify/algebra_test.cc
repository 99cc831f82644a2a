// Evaluates expressions before and after normalization at every index, with code that only this
// test has.
#include "verify/algebra.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "base/fewer_test_support.h"
#include "base/hash.h"

namespace tandem::verify {
namespace {

using Point = std::map<IndexVar, std::int64_t>;

std::int64_t value(const Linear& e, const Point& at) {
  std::int64_t out = e.constant;
  for (const auto& [v, n] : e.parts) out += n * at.at(v);
  return out;
}

constexpr std::int64_t kFirstSmall = 10;

// Returns a random element. Each term of this test reads one tensor. Elements of some tensors are
// small integers of either sign, whose order the field preserves.
Field element(std::int64_t tensor, std::int64_t index) {
  const auto drawn = hash_combine(static_cast<Hash>(tensor), static_cast<Hash>(index));
  if (tensor < kFirstSmall) return Field(drawn);
  return term::Numbers<Field>::from_index(static_cast<std::int64_t>(drawn % 7) - 3);
}

// Evaluates a function: relu is itself, a sigmoid is above 0, and tanh has the sign of its
// argument. 0 maps to 0 except for a sigmoid.
Field function(std::int64_t id, Field x) {
  using term::Function;
  const bool above = term::Numbers<Field>::greater(x, Field(0));
  const Field small(1 + mix(x.value()) % 7);
  switch (static_cast<Function>(id)) {
    case Function::kRelu:
      return above ? x : Field(0);
    case Function::kSigmoid:
      return x == Field(0) ? Field(2).inverse() : small;
    case Function::kTanh:
      return x == Field(0) || above ? x * small : small * term::Numbers<Field>::from_index(-1);
    default:
      return x == Field(0) ? x : Field(mix(x.value()));
  }
}

Field value(const Sum& sum, const Point& at);

// Evaluates an atom. The largest element is the one in the field's order.
Field value(const Atom& atom, Point at) {
  switch (atom.kind) {
    case Atom::AtomKind::kFunction:
      return function(atom.id, value(atom.arguments[0], at));
    case Atom::AtomKind::kLess: {
      const auto a = value(atom.arguments[0], at);
      return Field(term::Numbers<Field>::greater(value(atom.arguments[1], at), a) ? 1 : 0);
    }
    case Atom::AtomKind::kInverse:
      return value(atom.arguments[0], at).inverse();
    case Atom::AtomKind::kEqual:
      return Field(value(atom.arguments[0], at) == Field(0) ? 1 : 0);
    case Atom::AtomKind::kIndex:
      return term::Numbers<Field>::from_index(value(atom.at[0], at));
    case Atom::AtomKind::kMax: {
      Field best = term::Numbers<Field>::lowest();
      std::vector<Point> points = {at};
      for (const auto& r : atom.domain.ranges) {
        std::vector<Point> next;
        for (auto point : points) {
          for (auto i = r.range.begin; i < r.range.end; ++i) {
            point[r.var] = i;
            next.push_back(point);
          }
        }
        points = std::move(next);
      }
      for (const auto& point : points) {
        const auto x = value(atom.arguments[0], point);
        if (term::Numbers<Field>::greater(x, best)) best = x;
      }
      return best;
    }
    default:
      return element(atom.id, value(atom.at[0], at));
  }
}

Field value(const ScalarTerm& term, Point at, std::size_t next_range) {
  if (next_range < term.domain.ranges.size()) {
    const auto& r = term.domain.ranges[next_range];
    if (!r.bound) {
      const bool inside = at.at(r.var) >= r.range.begin && at.at(r.var) < r.range.end;
      return inside ? value(term, at, next_range + 1) : Field(0);
    }
    Field sum(0);
    for (auto i = r.range.begin; i < r.range.end; ++i) {
      at[r.var] = i;
      sum += value(term, at, next_range + 1);
    }
    return sum;
  }
  for (const auto& e : term.domain.guards) {
    if (value(e, at) < 0) return Field(0);
  }
  for (const auto& e : term.domain.zeros) {
    if (value(e, at) != 0) return Field(0);
  }
  Field out = term.coefficient;
  for (const auto& atom : term.atoms) out = out * value(atom, at);
  return out;
}

Field value(const Sum& sum, const Point& at) {
  Field out(0);
  for (const auto& term : sum) out += value(term, at, 0);
  return out;
}

class Maker {
 public:
  Maker(Hash seed, Algebra& algebra, std::int64_t first_tensor = 0)
      : seed_(seed), first_tensor_(first_tensor) {
    free_ = algebra.create_index(6);
    for (int i = 0; i < 3; ++i)
      bound_.push_back(algebra.create_index(static_cast<std::int64_t>(2 + next(4))));
  }

  Sum sum(Algebra& algebra) {
    Sum out;
    for (Hash t = 1 + next(3); t > 0; --t) out.push_back(term(algebra));
    return out;
  }
  IndexVar free() const { return free_; }

 private:
  Hash next(Hash below) { return hash_combine(seed_, count_++) % below; }

  Linear linear() {
    Linear out{{}, static_cast<std::int64_t>(next(7)) - 3};
    out.add(Linear::of(free_), static_cast<std::int64_t>(next(3)) - 1);
    for (auto v : used_) out.add(Linear::of(v), static_cast<std::int64_t>(next(3)) - 1);
    return out;
  }

  ScalarTerm term(Algebra& algebra) {
    ScalarTerm out{.coefficient = Field(1 + next(3))};
    used_.clear();
    for (auto v : bound_) {
      if (next(2) == 0) continue;
      used_.push_back(v);
      out.domain.ranges.push_back({v, {0, algebra.extent(v)}, true});
    }
    for (Hash g = next(3); g > 0; --g) out.domain.guards.push_back(linear());
    if (next(3) == 0) out.domain.zeros.push_back(linear());
    for (Hash a = next(3); a > 0; --a) {
      out.atoms.push_back({.kind = Atom::AtomKind::kRead,
                           .id = first_tensor_ + static_cast<std::int64_t>(next(2)),
                           .at = {linear()}});
    }
    return out;
  }

  Hash seed_;
  std::int64_t first_tensor_;
  Hash count_ = 0;
  IndexVar free_ = 0;
  std::vector<IndexVar> bound_;
  std::vector<IndexVar> used_;
};

TEST(Algebra, NormalFormsPreserveValues) {
  unsigned given_up = 0;
  for (Hash seed = 0; seed < 3000; seed += kFewer) {
    Algebra algebra;
    Maker maker(seed, algebra);
    const auto a = maker.sum(algebra);
    const auto b = maker.sum(algebra);
    Sum normal_a;
    Sum product;
    try {
      normal_a = algebra.normalize(a);
      product = algebra.multiply(normal_a, algebra.normalize(b));
    } catch (const NotNormal&) {
      ++given_up;
      continue;
    }
    for (std::int64_t i = 0; i < 6; ++i) {
      const Point at = {{maker.free(), i}};
      ASSERT_EQ(value(a, at), value(normal_a, at)) << "seed " << seed << " at " << i;
      ASSERT_EQ(value(a, at) * value(b, at), value(product, at)) << "seed " << seed << " at " << i;
    }
  }
  EXPECT_LT(given_up, 600 / kFewer);
}

ScalarTerm apply_function(term::Function f, const Sum& argument) {
  ScalarTerm out;
  out.atoms.push_back({.kind = Atom::AtomKind::kFunction,
                       .id = static_cast<std::int64_t>(f),
                       .arguments = {argument}});
  return out;
}

// Normalizes functions of sums and of functions, and their products, by the laws of ordered
// numbers.
TEST(Algebra, OrderLawsPreserveTheValue) {
  using term::Function;
  unsigned given_up = 0;
  for (Hash seed = 0; seed < 400; seed += kFewer) {
    Algebra algebra(Laws::kOfOrder);
    Maker maker(seed, algebra, kFirstSmall);
    const auto a = maker.sum(algebra);
    const auto b = maker.sum(algebra);
    constexpr std::array kFunctions = {Function::kRelu, Function::kTanh, Function::kSigmoid};
    const auto f = kFunctions[seed % 3];
    const Sum inner = {apply_function(f, a)};
    const Sum outer = {apply_function(Function::kRelu, inner)};
    Sum together = {apply_function(Function::kTanh, algebra.rename_bound_indices(outer)),
                    apply_function(Function::kRelu, algebra.rename_bound_indices(b))};
    Sum normal;
    Sum product;
    try {
      normal = algebra.normalize(together);
      product = algebra.multiply(algebra.normalize(outer), algebra.normalize(b));
    } catch (const NotNormal&) {
      ++given_up;
      continue;
    }
    for (std::int64_t i = 0; i < 6; ++i) {
      const Point at = {{maker.free(), i}};
      ASSERT_EQ(value(together, at), value(normal, at)) << "seed " << seed << " at " << i;
      ASSERT_EQ(value(outer, at) * value(b, at), value(product, at))
          << "seed " << seed << " at " << i;
    }
  }
  EXPECT_LT(given_up, 200 / kFewer);
}

// Tries squares of sums and similar sums: one that is called nonnegative must not be negative.
TEST(Algebra, NonNegativeTermsAreNonNegative) {
  using term::Function;
  std::size_t said = 0;
  for (Hash seed = 0; seed < 600; ++seed) {
    Algebra algebra;
    Maker maker(seed, algebra, kFirstSmall);
    const Sum a = {maker.sum(algebra)[0]};
    const auto b = maker.sum(algebra);
    std::vector<Sum> products;
    try {
      const auto square = algebra.multiply(a, algebra.rename_bound_indices(a));
      products = {square, algebra.multiply(square, {apply_function(Function::kRelu, b)}),
                  algebra.multiply(a, {apply_function(Function::kSigmoid, a)}),
                  algebra.multiply(square, b)};
    } catch (const NotNormal&) {
      continue;
    }
    for (const auto& product : products) {
      if (!is_never_negative(product)) continue;
      ++said;
      for (std::int64_t i = 0; i < 6; ++i) {
        const auto n = value(product, {{maker.free(), i}});
        ASSERT_FALSE(term::Numbers<Field>::greater(Field(0), n)) << "seed " << seed << " at " << i;
      }
    }
  }
  EXPECT_GT(said, 300U);
}

// Tries sum_v sum_w x[v] x[w], also with relu(x[v]). The latter is no square, as x = [2, -3] shows.
TEST(Algebra, SquaresNeedAllFactors) {
  const auto read = [](IndexVar v) {
    return Atom{.kind = Atom::AtomKind::kRead, .id = 1, .at = {Linear::of(v)}};
  };
  Algebra algebra;
  const auto v = algebra.create_index(2);
  const auto w = algebra.create_index(2);
  ScalarTerm term{.atoms = {read(v), read(w)}};
  term.domain.ranges = {{v, {0, 2}, true}, {w, {0, 2}, true}};
  EXPECT_TRUE(is_never_negative({term}));
  auto other = term;
  other.atoms.push_back(apply_function(term::Function::kRelu, {{.atoms = {read(v)}}}).atoms[0]);
  EXPECT_FALSE(is_never_negative({other}));
  other.atoms.push_back(apply_function(term::Function::kRelu, {{.atoms = {read(w)}}}).atoms[0]);
  EXPECT_TRUE(is_never_negative({other}));
  term.domain.ranges[1].range.end = 1;
  EXPECT_FALSE(is_never_negative({term}));
}

TEST(Algebra, KeysDoNotDependOnNames) {
  for (Hash seed = 0; seed < 500; ++seed) {
    Algebra algebra;
    Maker maker(seed, algebra);
    auto sum = algebra.normalize(maker.sum(algebra));
    if (seed % 2 == 0) sum = algebra.normalize({apply_function(term::Function::kTanh, sum)});
    auto other = algebra.rename_bound_indices(sum);
    std::ranges::reverse(other);
    for (auto& term : other) {
      std::ranges::reverse(term.atoms);
      std::ranges::reverse(term.domain.ranges);
    }
    EXPECT_EQ(make_key(sum), make_key(other)) << "seed " << seed;
  }
}

TEST(Algebra, SplitsANumberIntoDigits) {
  Algebra algebra;
  const auto v = algebra.create_index(24);
  const auto digits = algebra.compute_digits(Linear::of(v), std::vector<std::int64_t>{12, 4, 1});
  const auto whole = algebra.resolve(Linear::of(v));
  ASSERT_EQ(digits.size(), 3U);
  Linear sum;
  sum.add(digits[0], 12);
  sum.add(digits[1], 4);
  sum.add(digits[2]);
  EXPECT_EQ(sum, whole);
  EXPECT_THROW(
      algebra.compute_digits(Linear::of(algebra.create_index(10)), std::vector<std::int64_t>{4, 1}),
      NotNormal);
}

}  // namespace
}  // namespace tandem::verify
