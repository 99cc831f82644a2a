// Tests the properties derived from an operator's meaning against numbers in the prime field.
#include "ops/signature.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "ops/examples_test_support.h"

namespace tandem::ops {
namespace {

using term::Evaluation;
using term::Field;

TEST(Signature, HasExamplesOfEveryComputeOperator) {
  std::set<std::string> covered;
  for (const auto& e : examples()) covered.insert(e.op);
  for (const auto* spec : all_ops()) {
    EXPECT_EQ(covered.contains(spec->name), spec->role == Role::kCompute) << spec->name;
  }
}

// Returns a signature as text: "d0:parallel k:reducing c:whole | {0} {0,1}".
std::string describe(const Signature& s) {
  std::string out;
  constexpr const char* kUse[] = {"whole", "parallel", "windowed", "reducing"};
  for (FactorId f = 0; f < s.use.size(); ++f) {
    out += fmt::format("{}:{} ", s.map.factors[f].name, kUse[static_cast<std::size_t>(s.use[f])]);
  }
  out += "|";
  for (const auto set : s.partial_inputs) {
    std::vector<std::string> inputs;
    for (int i = 0; i < 32; ++i) {
      if (((set >> i) & 1U) != 0) inputs.push_back(fmt::format("{}", i));
    }
    out += " {" + join(inputs, ",") + "}";
  }
  return out;
}

TEST(Signature, ListsFactorUsesAndPartialInputs) {
  struct Case {
    Example example;
    std::string_view signature;
  };
  const AttributeList relu = {{"act", "relu"}};
  const Case cases[] = {
      {{"add", {}, {{2, 4}, {2, 4}}}, "d0:parallel d1:parallel | {0,1}"},
      {{"concat", {{"axis", "1"}}, {{2, 4}, {2, 6}}}, "a0:parallel c:windowed | {0,1}"},
      {{"concat", {}, {{2, 4}}}, "c:parallel a1:parallel | {0}"},
      {{"contract", {{"index", "\"b s i, h d i -> b h s d\""}}, {{2, 4, 6}, {2, 4, 6}}},
       "b:parallel s:parallel i:reducing h:parallel d:parallel | {0} {1}"},
      {{"contract", {{"index", "\"a, b -> a b\""}}, {{2}, {4}}}, "a:parallel b:parallel | {0} {1}"},
      {{"contract", {{"index", "\"a, a -> \""}, {"scale", "0.5"}}, {{2}, {2}}},
       "a:reducing | {0} {1}"},
      {{"embedding_bag", {}, {{2, 4}, {6, 4}}},
       "d0:parallel l:reducing v:reducing d:parallel | {1}"},
      {{"layer_norm", {}, {{2, 4}, {4}, {4}}}, "d0:parallel h:whole | {1,2}"},
      {{"linear", {}, {{2, 4}, {6, 4}}}, "d0:parallel k:reducing n:parallel | {0} {1}"},
      {{"linear", relu, {{2, 4}, {6, 4}}}, "d0:parallel k:whole n:parallel |"},
      {{"linear", {}, {{2, 4}, {6, 4}, {6}}}, "d0:parallel k:whole n:parallel | {0,2} {1,2}"},
      {{"matmul", {}, {{2, 2, 4}, {2, 4, 6}}},
       "d0:parallel m:parallel k:reducing n:parallel | {0} {1}"},
      {{"mse", {}, {{2, 4}, {2, 4}}}, "d0:reducing c:reducing |"},
      {{"relu", {}, {{2}}}, "d0:parallel |"},
      {{"softmax", {}, {{2, 4}}}, "d0:parallel c:whole |"},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(describe(get_signature(make(c.example), c.example.inputs)), c.signature)
        << format_name(c.example);
  }
}

// Returns whether the operator seems jointly linear in these inputs, by one try with random values.
bool seems_linear(const Example& e, InputMask set, std::mt19937_64& random) {
  const auto a = random_inputs<Field>(e, random);
  auto b = a;
  auto sum = a;
  auto zero = a;
  const auto other = random_inputs<Field>(e, random);
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (((set >> i) & 1U) == 0) continue;
    b[i] = other[i];
    for (std::size_t j = 0; j < a[i].data.size(); ++j) {
      sum[i].data[j] = a[i].data[j] + b[i].data[j];
      zero[i].data[j] = Field(0);
    }
  }
  auto expected = forward(e, a);
  const auto of_b = forward(e, b);
  for (std::size_t j = 0; j < expected.data.size(); ++j) expected.data[j] += of_b.data[j];
  return forward(e, sum) == expected && forward(e, zero) == Dense<Field>(expected.shape);
}

// Returns whether all of several tries look linear. A single try may do so by chance, for example
// if the condition holds nowhere.
bool is_linear_whenever_tried(const Example& e, InputMask set, std::mt19937_64& random) {
  for (int trial = 0; trial < 8; ++trial) {
    if (!seems_linear(e, set, random)) return false;
  }
  return true;
}

TEST(Signature, ClaimsLinearityCorrectly) {
  std::mt19937_64 random(3);
  for (const auto& e : examples()) {
    const auto& s = get_signature(make(e), e.inputs);
    InputMask covered = 0;
    for (const auto set : s.partial_inputs) {
      covered |= set;
      EXPECT_TRUE(is_linear_whenever_tried(e, set, random))
          << format_name(e) << " in inputs " << set;
      // The set is minimal: the operator is not linear in a smaller one.
      for (InputMask part = (set - 1) & set; part != 0; part = (part - 1) & set) {
        EXPECT_FALSE(is_linear_whenever_tried(e, part, random))
            << format_name(e) << " in inputs " << part;
      }
    }
    for (std::size_t i = 0; i < e.inputs.size(); ++i) {
      const InputMask one = InputMask{1} << i;
      if ((covered & one) != 0) continue;
      EXPECT_FALSE(is_linear_whenever_tried(e, one, random)) << format_name(e) << " in input " << i;
    }
  }
}

// Checks that an operand outside backward_reads changes no wanted gradient, and that an operand in
// it changes some. The wanted gradients are all of them together, then each alone.
TEST(Signature, ListsExactlyTheOperandsReadInBackward) {
  std::mt19937_64 random(6);
  for (const auto& e : examples()) {
    const auto& s = get_signature(make(e), e.inputs);
    const auto in = random_inputs<Field>(e, random);
    Dense<Field> seed(term::to_shape(s.map.output));
    for (auto& v : seed.data) v = Field(random());
    const auto gradients = [&](const std::vector<Dense<Field>>& at, InputMask wanted) {
      std::vector<Dense<Field>> grads;
      for (const auto& shape : e.inputs) grads.emplace_back(shape);
      std::vector<Dense<Field>*> into;
      for (std::size_t i = 0; i < grads.size(); ++i) {
        into.push_back((wanted >> i & 1U) != 0 ? &grads[i] : nullptr);
      }
      Evaluation<Field>(s.meaning, make_full_ranges(s.map), operands(at))
          .backward(s.map.output, seed, into);
      return grads;
    };
    // This operator has a slope only between 0 and 1, and no element of the field lies there.
    if (e.op == "hard_sigmoid") continue;
    std::vector<InputMask> masks = {(InputMask{1} << in.size()) - 1};
    for (std::size_t i = 0; i < in.size(); ++i) masks.push_back(InputMask{1} << i);
    // If only the order of values matters, one change may have no effect, so the test tries
    // several.
    for (const auto wanted : masks) {
      const auto reads = term::find_saved_inputs(s.meaning, wanted);
      for (std::size_t i = 0; i < in.size(); ++i) {
        bool matters = false;
        for (int trial = 0; trial < 10 && !matters; ++trial) {
          auto changed = in;
          changed[i] = random_inputs<Field>(e, random)[i];
          matters = gradients(changed, wanted) != gradients(in, wanted);
        }
        EXPECT_EQ(matters, (reads >> i & 1U) != 0)
            << format_name(e) << " input " << i << " for the gradients of " << wanted;
      }
    }
  }
}

// Checks that a gradient computed from the result equals the one computed from the operand. Causal
// softmax has rows of zeros, and a ReLU some zeros.
TEST(Signature, ComputesTheSameGradientsFromResults) {
  std::mt19937_64 random(7);
  int found = 0;
  for (const auto& e : examples()) {
    const auto& s = get_signature(make(e), e.inputs);
    if (!s.gradient_from_result) continue;
    ++found;
    const auto in = random_inputs<Field>(e, random);
    Dense<Field> seed(term::to_shape(s.map.output));
    for (auto& v : seed.data) v = Field(random());
    Dense<Field> expected(e.inputs[0]);
    Evaluation<Field>(s.meaning, make_full_ranges(s.map), operands(in))
        .backward(s.map.output, seed, {&expected});
    const std::vector<Dense<Field>> read = {forward(e, in), seed};
    EXPECT_EQ(Evaluation<Field>(*s.gradient_from_result, make_full_ranges(s.map), operands(read))
                  .forward(s.map.inputs[0]),
              expected)
        << format_name(e);
  }
  EXPECT_GE(found, 4);  // three examples of softmax, and relu
}

// Returns the block of `value` at `box`.
Dense<Field> block(const Dense<Field>& value, const term::Box& box) {
  Dense<Field> out(box.size);
  std::size_t n = 0;
  for_each_index(box.size, [&](Shape at) {
    for (std::size_t d = 0; d < at.rank(); ++d) at[d] += box.offset[d];
    out.data[n++] = value.data[static_cast<std::size_t>(compute_flat_index(value.shape, at))];
  });
  return out;
}

std::int64_t smallest_divisor(std::int64_t n) {
  std::int64_t d = 2;
  while (n % d != 0) ++d;
  return d;
}

// Returns whether devices with one part of factor `f` each compute the parts of the whole, or
// summands of it. Each reads no more of its operands than its ranges cover.
bool splits(const Example& e, const Signature& s, FactorId f, const std::vector<Dense<Field>>& in) {
  const auto whole = forward(e, in);
  const auto size = s.map.factors[f].size;
  const auto parts = smallest_divisor(size);
  const bool shows = s.map.find_output_dim(f) >= 0;
  Dense<Field> total;
  for (std::int64_t part = 0; part < parts; ++part) {
    auto ranges = make_full_ranges(s.map);
    ranges[f] = {size / parts, size, part * (size / parts)};
    std::vector<Dense<Field>> blocks;
    std::vector<term::Box> boxes;
    for (std::size_t i = 0; i < in.size(); ++i) {
      boxes.push_back(term::compute_box(s.map.inputs[i], ranges));
      blocks.push_back(block(in[i], boxes[i]));
    }
    std::vector<term::Operand<Field>> read;
    for (std::size_t i = 0; i < in.size(); ++i) {
      read.emplace_back(blocks[i], boxes[i].offset, in[i].shape);
    }
    const auto out = Evaluation<Field>(s.meaning, ranges, read).forward(s.map.output);
    if (shows && out != block(whole, term::compute_box(s.map.output, ranges))) return false;
    if (part == 0) total = out;
    for (std::size_t j = 0; part > 0 && j < total.data.size() && !shows; ++j) {
      auto& into = total.data[j];
      if (s.monoid == Monoid::kSum) {
        into += out.data[j];
      } else if (term::Numbers<Field>::greater(out.data[j], into)) {
        into = out.data[j];
      }
    }
  }
  return shows || total == whole;
}

// Returns whether operands can be partitioned along this factor alone. That needs an operand that
// carries the factor, and no dimension in which it follows other factors.
bool is_sole_factor(const Signature& s, FactorId f) {
  bool found = false;
  bool inside = false;
  const auto look = [&](const term::Dims& dims, bool is_input) {
    for (const auto& dim : dims) {
      const auto at = std::ranges::find(dim.carriers, f);
      if (at == dim.carriers.end()) continue;
      found = found || is_input;
      inside = inside || at != dim.carriers.begin();
    }
  };
  for (const auto& dims : s.map.inputs) look(dims, true);
  look(s.map.output, false);
  return found && !inside;
}

// Returns whether the meaning reads an operand along `f` at another index than its index text. A
// device with one part of the factor would then lack elements.
bool is_read_elsewhere(const Signature& s, FactorId f) {
  const auto same = [](const term::Affine& a, const term::Affine& b) {
    return a.constant == b.constant &&
           std::ranges::equal(a.parts, b.parts, [](const auto& x, const auto& y) {
             return x.factor == y.factor && x.coefficient == y.coefficient;
           });
  };
  return std::ranges::any_of(s.meaning.nodes, [&](const term::BoundNode& node) {
    if (node.kind != term::Kind::kInput) return false;
    const auto& dims = s.map.inputs[node.input];
    for (std::size_t d = 0; d < dims.size(); ++d) {
      const bool along = std::ranges::find(dims[d].carriers, f) != dims[d].carriers.end();
      if (along && !same(node.at[d], dims[d].at)) return true;
    }
    return false;
  });
}

// Checks both directions: factors that may be partitioned give the right values, and factors that
// are whole (by '!' or by derivation) would not.
TEST(Signature, ForbidsExactlyTheWrongPartitions) {
  std::mt19937_64 random(4);
  for (const auto& e : examples()) {
    const auto& s = get_signature(make(e), e.inputs);
    const auto in = random_inputs<Field>(e, random);
    for (FactorId f = 0; f < s.use.size(); ++f) {
      if (s.map.factors[f].size == 1 || !is_sole_factor(s, f)) continue;
      const bool right = !is_read_elsewhere(s, f) && splits(e, s, f, in);
      EXPECT_EQ(right, s.use[f] != FactorUse::kWhole)
          << format_name(e) << " factor " << s.map.factors[f].name;
    }
  }
}

// Checks elementwise operators: one element of an operand affects only one element of the result.
// If the operator only adds an operand, that operand's gradient is the result's.
TEST(Signature, ReadsElementwiseOperandsAtTheResultIndex) {
  std::mt19937_64 random(8);
  std::set<std::string> elementwise;
  std::set<std::string> adding;
  for (const auto& e : examples()) {
    const auto& s = get_signature(make(e), e.inputs);
    if (!s.elementwise) continue;
    elementwise.insert(e.op);
    const auto in = random_inputs<Field>(e, random);
    const auto size = term::to_shape(s.map.output);
    Dense<Field> seed(size);
    for (auto& v : seed.data) v = Field(random());
    std::vector<Dense<Field>> grads;
    for (const auto& shape : e.inputs) grads.emplace_back(shape);
    // The gradient of one element of the result is zero except at that element.
    Dense<Field> one(size);
    const auto at = random() % one.data.size();
    one.data[at] = Field(random());
    for (const auto* given : {&one, &seed}) {
      for (auto& g : grads) std::ranges::fill(g.data, Field(0));
      std::vector<Dense<Field>*> wanted;
      for (auto& g : grads) wanted.push_back(&g);
      Evaluation<Field>(s.meaning, make_full_ranges(s.map), operands(in))
          .backward(s.map.output, *given, wanted);
      for (std::size_t i = 0; i < grads.size(); ++i) {
        if (e.inputs[i] != size) continue;
        for (std::size_t j = 0; given == &one && j < one.data.size(); ++j) {
          if (j == at) continue;
          EXPECT_EQ(grads[i].data[j], Field(0)) << format_name(e) << " input " << i;
        }
        if (((s.added_inputs >> i) & 1U) == 0) continue;
        adding.insert(e.op);
        EXPECT_EQ(grads[i].data, given->data) << format_name(e) << " input " << i;
      }
    }
  }
  for (const auto* op : {"add", "mul", "relu", "gelu", "dropout", "where", "cast", "scale"}) {
    EXPECT_TRUE(elementwise.contains(op)) << op;
  }
  for (const auto* op : {"softmax", "rope", "layer_norm", "linear", "transpose", "slice"}) {
    EXPECT_FALSE(elementwise.contains(op)) << op;
  }
  EXPECT_TRUE(adding.contains("add"));
  EXPECT_TRUE(adding.contains("cast"));
  for (const auto* op : {"mul", "relu", "scale", "dropout"})
    EXPECT_FALSE(adding.contains(op)) << op;
}

TEST(Signature, CountsTheTermsOfAContraction) {
  std::set<std::string> contractions;
  for (const auto& e : examples()) {
    const auto& s = get_signature(make(e), e.inputs);
    if (!s.contraction) continue;
    contractions.insert(e.op);
    const auto points = [&](term::FactorMask mask) {
      double n = 1;
      for (FactorId f = 0; f < s.map.factors.size(); ++f) {
        if ((mask & term::bit(f)) != 0) n *= static_cast<double>(s.map.factors[f].size);
      }
      return n;
    };
    const auto& c = *s.contraction;
    const double results = points(c.rows) * points(c.columns) * points(c.batch);
    EXPECT_EQ(results, static_cast<double>(term::to_shape(s.map.output).count())) << format_name(e);
    EXPECT_LE(2 * results * points(c.depth), s.flops.value) << format_name(e);
  }
  for (const auto* op : {"linear", "matmul", "batch_matmul", "contract", "conv2d"}) {
    EXPECT_TRUE(contractions.contains(op)) << op;
  }
  for (const auto* op : {"cross_entropy", "mse", "softmax", "attention", "embedding", "add"}) {
    EXPECT_FALSE(contractions.contains(op)) << op;
  }
}

}  // namespace
}  // namespace tandem::ops
