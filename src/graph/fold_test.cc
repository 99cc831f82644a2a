#include "graph/fold.h"

#include <gtest/gtest.h>

#include "base/fewer_test_support.h"
#include "base/text.h"
#include "graph/random_graph_test_support.h"
#include "graph/text.h"

namespace tandem::graph {
namespace {

// Checks that folding loses nothing: the text makes the same nodes under the same names in the same
// order.
std::string expect_unfolds(const Graph& graph) {
  const auto folded = to_folded_text(graph);
  const auto again = parse_graph(folded);
  EXPECT_EQ(to_text(again), to_text(graph)) << folded;
  EXPECT_EQ(again.identity_hash(), graph.identity_hash());
  EXPECT_EQ(again.shape_hash(), graph.shape_hash());
  const auto lines = [](const std::string& text) { return std::ranges::count(text, '\n'); };
  EXPECT_LE(lines(folded), lines(to_text(graph)));
  return folded;
}

// Returns a graph of these nodes and an input %x.
Graph parse_body(std::string_view body) {
  return parse_graph(fmt::format("graph g\n%x = input() shape=[4, 4]\n{}", body));
}

std::string folded(std::string_view body) { return expect_unfolds(parse_body(body)); }

// Repeats the text once for every number, which replaces @.
std::string repeat(std::string_view text, int from, int to) {
  std::string out;
  for (int i = from; i < to; ++i) {
    for (const char c : text) out += c == '@' ? fmt::format("{}", i) : std::string(1, c);
  }
  return out;
}

TEST(Fold, CarriesTheValueOfAChain) {
  std::string text = "%a7 = weight() shape=[4, 4]\n%y7 = add(%x, %a7)\n";
  for (int i = 8; i < 15; ++i) {
    text += fmt::format("%a{0} = weight() shape=[4, 4]\n%y{0} = add(%y{1}, %a{0})\n", i, i - 1);
  }
  text += "return %y14, %y9\n";
  EXPECT_EQ(folded(text), R"(graph g
%x = input() shape=[4, 4]
repeat 8 as i from 7
  carry %in = %x then %y{i}
  %a{i} = weight() shape=[4, 4]
  %y{i} = add(%in, %a{i}) : [4, 4] fp32
end
return %y14, %y9
)");
}

TEST(Fold, CarriesNothingBetweenBranches) {
  const auto text = repeat("%t@.w = weight() shape=[4, 4]\n%t@.y = add(%x, %t@.w)\n", 0, 11) +
                    "%c = concat(%t0.y, %t10.y)\nreturn %c\n";
  EXPECT_EQ(folded(text), R"(graph g
%x = input() shape=[4, 4]
repeat 11 as i from 0
  %t{i}.w = weight() shape=[4, 4]
  %t{i}.y = add(%x, %t{i}.w) : [4, 4] fp32
end
%c = concat(%t0.y, %t10.y) : [8, 4] fp32
return %c
)");
}

TEST(Fold, FoldsNestedBlocks) {
  std::string text;
  std::string last = "x";
  for (int s = 1; s <= 3; ++s) {
    for (int b = 0; b < 4; ++b) {
      const auto name = fmt::format("s{}.b{}", s, b);
      text += fmt::format("%{}.w = weight() shape=[4, 4]\n%{}.h = linear(%{}, %{}.w)\n", name, name,
                          last, name);
      text += fmt::format("%{}.y = relu(%{}.h)\n", name, name);
      last = name + ".y";
    }
    text += fmt::format("%s{}.out = add(%{}, %s{}.b0.y)\n", s, last, s);
    last = fmt::format("s{}.out", s);
  }
  EXPECT_EQ(folded(text + "return %s3.out\n"), R"(graph g
%x = input() shape=[4, 4]
repeat 3 as i from 1
  carry %in = %x then %s{i}.out
  repeat 4 as j from 0
    carry %in2 = %in then %s{i}.b{j}.y
    %s{i}.b{j}.w = weight() shape=[4, 4]
    %s{i}.b{j}.h = linear(%in2, %s{i}.b{j}.w) : [4, 4] fp32
    %s{i}.b{j}.y = relu(%s{i}.b{j}.h) : [4, 4] fp32
  end
  %s{i}.out = add(%s{i}.b3.y, %s{i}.b0.y) : [4, 4] fp32
end
return %s3.out
)");
}

TEST(Fold, CarriesTwoValuesAndPreservesNodeNames) {
  constexpr std::string_view kText =
      "%in = input() shape=[4, 4]\n%h0 = add(%x, %in)\n%c0 = relu(%in)\n"
      "%h1 = add(%h0, %c0)\n%c1 = relu(%c0)\n%h2 = add(%h1, %c1)\n%c2 = relu(%c1)\n"
      "%h3 = add(%h2, %c2)\n%c3 = relu(%c2)\nreturn %h3, %c3\n";
  EXPECT_EQ(folded(kText), R"(graph g
%x = input() shape=[4, 4]
%in = input() shape=[4, 4]
repeat 4 as i from 0
  carry %in2 = %x then %h{i}
  carry %in3 = %in then %c{i}
  %h{i} = add(%in2, %in3) : [4, 4] fp32
  %c{i} = relu(%in3) : [4, 4] fp32
end
return %h3, %c3
)");
}

TEST(Fold, LeavesOtherLinesAlone) {
  // The lines test: numbers that do not ascend by one, 007, another operator, another type, a use
  // of the round before last, and a run too short to save a line.
  const std::string_view bodies[] = {
      "%a1 = relu(%x)\n%a3 = relu(%x)\n%a5 = relu(%x)\n%a7 = relu(%x)\n%a9 = relu(%x)\n",
      "%a007 = relu(%x)\n%a008 = relu(%x)\n%a009 = relu(%x)\n%a010 = relu(%x)\n",
      "%a1 = relu(%x)\n%a2 = softmax(%x)\n%a3 = relu(%x)\n%a4 = softmax(%x)\n",
      "%a1 = concat(%x, %x)\n%a2 = concat(%a1, %x)\n%a3 = concat(%a2, %x)\n%a4 = concat(%a3, %x)\n",
      "%a1 = relu(%x)\n%a2 = add(%a1, %x)\n%a3 = add(%a2, %a1)\n%a4 = add(%a3, %a2)\n",
      "%a1 = relu(%x)\n%a2 = relu(%a1)\n%a3 = relu(%a2)\n",
  };
  for (const auto body : bodies) {
    const auto graph = parse_body(fmt::format("{}return %x\n", body));
    EXPECT_EQ(expect_unfolds(graph), to_text(graph));
  }
}

TEST(Fold, StartsARunAtTheFirstEqualBlock) {
  constexpr std::string_view kText =
      "%l0.w = weight() shape=[6, 4]\n%l0.y = linear(%x, %l0.w)\n"
      "%l1.w = weight() shape=[6, 6]\n%l1.y = linear(%l0.y, %l1.w)\n"
      "%l2.w = weight() shape=[6, 6]\n%l2.y = linear(%l1.y, %l2.w)\n"
      "%l3.w = weight() shape=[6, 6]\n%l3.y = linear(%l2.y, %l3.w)\n"
      "%l4.w = weight() shape=[2, 6]\n%l4.y = linear(%l3.y, %l4.w)\nreturn %l4.y\n";
  EXPECT_EQ(folded(kText), R"(graph g
%x = input() shape=[4, 4]
%l0.w = weight() shape=[6, 4]
%l0.y = linear(%x, %l0.w) : [4, 6] fp32
repeat 3 as i from 1
  carry %in = %l0.y then %l{i}.y
  %l{i}.w = weight() shape=[6, 6]
  %l{i}.y = linear(%in, %l{i}.w) : [4, 6] fp32
end
%l4.w = weight() shape=[2, 6]
%l4.y = linear(%l3.y, %l4.w) : [4, 2] fp32
return %l4.y
)");
}

TEST(Fold, AlignsComments) {
  const auto graph =
      parse_body(repeat("%a@ = relu(%x)\n%b@ = add(%a@, %x)\n", 0, 3) + "return %b2\n");
  FoldedTextOptions options;
  options.header = {"first", "second"};
  options.comment = [](const FoldedLine& line) {
    switch (line.kind) {
      case FoldedLine::FoldedLineKind::kNode:
        return fmt::format("node {}", line.first.index());
      case FoldedLine::FoldedLineKind::kRepeat:
        return fmt::format("{} x {} from node {}", line.count, line.nodes, line.first.index());
      default:
        return std::string();
    }
  };
  const auto text = to_folded_text(graph, options);
  EXPECT_EQ(text, R"(# first
# second
graph g
%x = input() shape=[4, 4]               # node 0
repeat 3 as i from 0                    # 3 x 2 from node 1
  %a{i} = relu(%x) : [4, 4] fp32        # node 1
  %b{i} = add(%a{i}, %x) : [4, 4] fp32  # node 2
end
return %b2
)");
  EXPECT_EQ(to_text(parse_graph(text)), to_text(graph));
}

TEST(Fold, UnfoldsRandomGraphs) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    expect_unfolds(random_graph(seed, {.operators = 40}));
  }
}

// Random stages of blocks of a few nodes, with some nodes changed.
class RandomBlocks {
 public:
  explicit RandomBlocks(std::uint64_t seed) : random_(seed) {}

  Graph build() {
    ends_ = {b_.input("x", {4, 4}, DType::kFp32), b_.input("in", {4, 4}, DType::kFp32)};
    const auto stages = 1 + draw(4);
    const auto blocks = 1 + draw(4);
    std::vector<std::uint64_t> plan(1 + draw(5));
    for (auto& node : plan) node = random_();
    for (std::uint64_t s = 0; s < stages; ++s) {
      for (std::uint64_t b = 0; b < blocks; ++b) {
        const auto start = ends_;
        for (std::size_t n = 0; n < plan.size(); ++n) {
          grow(draw(60) == 0 ? random_() : plan[n], start, fmt::format("s{}.b{}.n{}", s + 8, b, n));
        }
      }
      if (draw(2) == 0) grow(plan[0], ends_, fmt::format("s{}.end", s + 8));
    }
    return b_.finish({ends_.back()});
  }

 private:
  std::uint64_t draw(std::uint64_t below) { return random_() % below; }

  // Picks one of the newest nodes, or one from before the block, or an input.
  NodeId pick(std::uint64_t word, const std::vector<NodeId>& start) {
    const auto& from = word % 3 == 0 ? start : ends_;
    const auto back = word / 3 % 5;
    return back < 3 && back < from.size() ? from[from.size() - 1 - back] : NodeId(back % 2);
  }

  void grow(std::uint64_t word, const std::vector<NodeId>& start, const std::string& name) {
    const auto a = pick(word / 8, start);
    const auto b = pick(word / 800, start);
    switch (word % 4) {
      case 0:
        return ends_.push_back(b_.add(ops::kRelu, {a}, name));
      case 1:
        return ends_.push_back(b_.weight(name, {4, 4}, DType::kFp32));
      case 2:
        return ends_.push_back(b_.add(ops::kLinear, {a, b}, name));
      default:
        return ends_.push_back(b_.add(ops::kAdd, {a, b}, name));
    }
  }

  std::mt19937_64 random_;
  GraphBuilder b_{"blocks"};
  std::vector<NodeId> ends_;
};

TEST(Fold, UnfoldsRandomBlocks) {
  int folded = 0;
  int nested = 0;
  int carried = 0;
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const auto text = expect_unfolds(RandomBlocks(seed).build());
    folded += text.find("\nrepeat") != std::string::npos ? 1 : 0;
    nested += text.find("\n  repeat") != std::string::npos ? 1 : 0;
    carried += text.find("carry") != std::string::npos ? 1 : 0;
  }
  EXPECT_GT(folded, 800);
  EXPECT_GT(nested, 100);
  EXPECT_GT(carried, 300);
}

// Blocks of a third of the graph differ only at their ends. Comparing them again from each of their
// nodes would exceed the test's time-out.
TEST(Fold, TakesNearLinearTime) {
  constexpr int kBlock = 60'000 / kFewer;
  GraphBuilder b("g");
  const auto x = b.input("x", {4, 4}, DType::kFp32);
  for (int block = 1; block <= 3; ++block) {
    for (int n = 0; n < kBlock; ++n) b.add(ops::kRelu, {x}, fmt::format("b{}.{}", block, 2 * n));
    b.add(block == 2 ? ops::kSoftmax : ops::kRelu, {x}, fmt::format("b{}.end", block));
  }
  const auto graph = b.finish({x});
  EXPECT_EQ(fold(graph).size(), graph.size());
}

}  // namespace
}  // namespace tandem::graph
