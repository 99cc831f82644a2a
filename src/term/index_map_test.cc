#include "term/index_map.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace tandem::term {
namespace {

// Describes a map: "k=4 n=6! | d0 k, n k -> d0 n". First come the factors with sizes ('!' means
// whole), then every tensor's dimensions. A dimension shows its carriers, '~' if they do not count
// through it exactly, and '.' if there are none.
std::string describe(const IndexMap& map) {
  std::string out;
  for (const auto& f : map.factors)
    out += fmt::format("{}={}{} ", f.name, f.size, f.whole ? "!" : "");
  out += '|';
  const auto tensor = [&](const Dims& dims) {
    for (const auto& dim : dims) {
      out += dim.carriers.empty() ? " ." : " ";
      for (auto f : dim.carriers) out += map.factors[f].name;
      if (!dim.exact) out += '~';
    }
  };
  for (std::size_t i = 0; i < map.inputs.size(); ++i) {
    if (i > 0) out += ',';
    tensor(map.inputs[i]);
  }
  out += " ->";
  tensor(map.output);
  return out;
}

struct Case {
  std::string_view text;
  std::vector<Shape> inputs;
  std::string_view result;  // result of describe, or the error
};

TEST(IndexMap, Resolves) {
  const Case cases[] = {
      {"a b, b c -> a c", {{2, 3}, {3, 4}}, "a=2 b=3 c=4 | a b, b c -> a c"},
      {"a b -> b a", {{2, 3}}, "a=2 b=3 | a b -> b a"},
      {"... k, n k -> ... n", {{5, 4}, {6, 4}}, "d0=5 k=4 n=6 | d0 k, n k -> d0 n"},
      {"... k, n k -> ... n", {{5, 7, 4}, {6, 4}}, "d0=5 d1=7 k=4 n=6 | d0 d1 k, n k -> d0 d1 n"},
      {"... k, n k -> ... n", {{4}, {6, 4}}, "k=4 n=6 | k, n k -> n"},
      {"..., ... -> ...", {{}, {}}, "|, ->"},
      {"..., ... -> ...", {{2, 3}, {2, 3}}, "d0=2 d1=3 | d0 d1, d0 d1 -> d0 d1"},
      {"... !c -> ... !c", {{2, 3}}, "d0=2 c=3! | d0 c -> d0 c"},
      {"... c -> ... !c", {{2, 3}}, "d0=2 c=3! | d0 c -> d0 c"},
      {"... !h, h, h -> ... !h", {{2, 3}, {3}, {3}}, "d0=2 h=3! | d0 h, h, h -> d0 h"},
      // Windows (concatenation, convolution), and reads that turn out not to be windows.
      {"a c-0, a c-3 -> a c:7", {{2, 3}, {2, 4}}, "a=2 c=7 | a c~, a c~ -> a c"},
      {"a c-0 -> a c:7", {{2, 7}}, "a=2 c=7 | a c -> a c"},
      {"2y+r-1, r -> y:4", {{8}, {3}}, "y=4 r=3 | y~, r -> y"},
      {"y+r, r -> y:8", {{8}, {1}}, "y=8 r=1 | y, r -> y"},
      {"2y+r, r -> y:4", {{8}, {2}}, "y=4 r=2 | yr, r -> y"},
      {"y+z, y z -> y z", {{8}, {3, 4}}, "y=3 z=4 | .~, y z -> y z"},
      // Flattened dimensions, in operands and results.
      {"b (kv g) s, b kv t -> b (kv g) s t",
       {{2, 12, 5}, {2, 4, 6}},
       "b=2 kv=4 g=3 s=5 t=6 | b kvg s, b kv t -> b kvg s t"},
      {"a (b:4 c) -> (a b) c", {{2, 12}}, "a=2 b=4 c=3 | a bc -> ab c"},
      {"(a b) (b c:5) -> a", {{6, 10}}, "a=3 b=2 c=5 | ab bc -> a"},
      {"0 b -> b 0", {{1, 3}}, "b=3 | . b -> b ."},
      {"t !e -> t !e | f:8", {{2, 3}}, "t=2 e=3! f=8! | t e -> t e"},
      {"... c, ... c -> ", {{2, 3}, {2, 3}}, "d0=2 c=3 | d0 c, d0 c ->"},
      {"a ->", {{2}}, "a=2 | a ->"},
  };
  for (const auto& c : cases)
    EXPECT_EQ(describe(resolve_index(c.text, c.inputs)), c.result) << c.text;
}

TEST(IndexMap, NamesTheIndexAndBothValuesInErrors) {
  const Case cases[] = {
      {"... m k, ... k n -> ... m n",
       {{8, 64}, {63, 8}},
       "index 'k' is 64 in input 0 and 63 in input 1"},
      {"... m k, ... k n -> ... m n",
       {{2, 8, 4}, {3, 4, 8}},
       "index 'd0' is 2 in input 0 and 3 in input 1"},
      {"a a -> a", {{2, 3}}, "index 'a' is 2 in input 0 and 3 in input 0"},
      {"a, b, a -> b", {{2}, {5}, {4}}, "index 'a' is 2 in input 0 and 4 in input 2"},
      {"... k, n k -> ... n", {{5, 4}}, "takes 2 inputs, but has 1"},
      {"... -> ...", {{1}, {1}}, "takes 1 inputs, but has 2"},
      {"a b -> a", {{2}}, "input 0 has 1 dimensions, but must have 2"},
      {"a b -> a", {{2, 3, 4}}, "input 0 has 3 dimensions, but must have 2"},
      {"... k, n k -> ... n", {{}, {6, 4}}, "input 0 has 0 dimensions, but must have at least 1"},
      {"a (g:4 c) -> a",
       {{2, 6}},
       "a dimension of input 0 is 6, which is not a multiple of 4 (g c)"},
      {"(a b), a, b ->",
       {{6}, {2}, {2}},
       "a dimension of input 0 is 6 and its factors (a b) make 4"},
      {"a:3 -> a", {{2}}, "index 'a' is 3 in input 0 and 2 in input 0"},
      {"..., ... -> ...",
       {{2, 3}, {3}},
       "input 1 has 1 leading dimensions and an earlier input has 2"},
  };
  for (const auto& c : cases) {
    try {
      resolve_index(c.text, c.inputs);
      ADD_FAILURE() << c.text << " was accepted";
    } catch (const UserError& e) {
      EXPECT_EQ(e.message, c.result);
      EXPECT_EQ(e.where, "");  // the caller knows the node
    }
  }
}

TEST(IndexMap, RefusesMoreFactorsThanItHolds) {
  std::string text;
  std::vector<Shape> inputs;
  for (int i = 0; i < 33; ++i) {
    text += fmt::format("{}f{} g{}", i == 0 ? "" : ", ", i, i);
    inputs.push_back({2, 2});
  }
  EXPECT_THROW(resolve_index(text + " ->", inputs), UserError);
}

TEST(IndexMap, RefusesMoreInputsThanItHolds) {
  std::string text;
  for (int i = 0; i < 64; ++i) text += i == 0 ? "a" : ", a";
  const std::vector<Shape> inputs(64, Shape{2});
  EXPECT_THROW(resolve_index(text + " -> a", inputs), UserError);
}

TEST(IndexMap, LooksUp) {
  const std::vector<Shape> inputs = {{5, 4}, {6, 4}};
  const auto map = resolve_index("... k, n k -> ... n", inputs);
  const auto k = static_cast<FactorId>(map.find("k"));
  const auto n = static_cast<FactorId>(map.find("n"));
  EXPECT_EQ(map.find("x"), -1);
  EXPECT_EQ(map.find_input_dim(0, k), 1);
  EXPECT_EQ(map.find_input_dim(0, n), -1);
  EXPECT_EQ(map.find_input_dim(1, n), 0);
  EXPECT_EQ(map.find_output_dim(n), 1);
  EXPECT_EQ(map.find_output_dim(k), -1);
  EXPECT_EQ(to_shape(map.output), (Shape{5, 6}));
}

}  // namespace
}  // namespace tandem::term
