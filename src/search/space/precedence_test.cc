#include "search/space/precedence.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "graph/text.h"

namespace tandem::search {
namespace {

using graph::NodeId;

// Returns a graph of three inputs and `operators` sums of two earlier tensors, any of which may be
// read again.
graph::Graph random_graph(std::mt19937& random, int operators) {
  std::string text = "graph random\n";
  for (int i = 0; i < 3; ++i) text += "%x" + std::to_string(i) + " = input() shape=[4, 8]\n";
  const auto name = [](unsigned n) {
    return n < 3 ? "%x" + std::to_string(n) : "%y" + std::to_string(n - 3);
  };
  for (int o = 0; o < operators; ++o) {
    const auto before = static_cast<unsigned>(o) + 3;
    const auto last = name(before - 1);
    const auto other = name(static_cast<unsigned>(random()) % before);
    const bool follows = random() % 4 != 0;
    const auto first = follows ? last : name(static_cast<unsigned>(random()) % before);
    text += "%y" + std::to_string(o) + " = add(" + first + ", " + other + ")\n";
  }
  return graph::parse_graph(text + "return " + name(static_cast<unsigned>(operators) + 2) + "\n");
}

// Returns, by node, the operators that depend on it, including itself if it is an operator.
std::vector<std::set<std::size_t>> operators_after(const graph::Graph& graph) {
  std::vector<std::set<std::size_t>> out(graph.size());
  for (std::size_t n = graph.size(); n-- > 0;) {
    if (graph.node(NodeId(n)).op.role() != ops::Role::kSource) out[n].insert(n);
    for (auto i : graph.inputs(NodeId(n))) out[i.index()].insert(out[n].begin(), out[n].end());
  }
  return out;
}

TEST(Precedence, SplitsAPassIntoSegments) {
  const auto graph = graph::parse_graph(R"(graph diamond
%x = input() shape=[4, 8]
%a = relu(%x)
%b = relu(%a)
%c = gelu(%a)
%d = add(%b, %c)
%e = relu(%d)
return %e
)");
  const Precedence precedence(graph);
  std::vector<Segment> of;
  std::vector<Segment> after;
  for (auto id : graph.ids()) {
    of.push_back(precedence.get_segment(id));
    after.push_back(precedence.get_segment_after(id));
  }
  using enum Segment;
  EXPECT_EQ(of, (std::vector{kAnytime, kChain, kBranches, kBranches, kBranches, kChain}));
  EXPECT_EQ(after, (std::vector{kAnytime, kBranches, kBranches, kBranches, kChain, kChain}));
  EXPECT_TRUE(precedence.has(kChain) && precedence.has(kBranches));
}

TEST(Precedence, EqualsThatOfAllPaths) {
  std::mt19937 random(7);
  std::size_t blocking = 0;
  for (int round = 0; round < 300; ++round) {
    const auto graph = random_graph(random, 1 + round % 9);
    const auto after = operators_after(graph);
    std::set<std::size_t> all;
    for (const auto& some : after) all.insert(some.begin(), some.end());
    const auto is_before = [&](std::size_t n, NodeId id) { return after[n].contains(id.index()); };
    const Precedence precedence(graph);
    for (auto id : graph.ids()) {
      const auto blocks = [&](NodeId to) {
        return std::ranges::all_of(
            all, [&](std::size_t n) { return is_before(n, id) || after[to.index()].contains(n); });
      };
      EXPECT_EQ(precedence.blocks(id), blocks(id)) << to_text(graph) << id.index();
      for (auto from : graph.inputs(id)) {
        const bool expected = std::ranges::all_of(all, [&](std::size_t n) {
          return is_before(n, from) || after[id.index()].contains(n);
        });
        EXPECT_EQ(precedence.blocks(from, id), expected) << to_text(graph) << id.index();
        blocking += expected ? 1 : 0;
      }
    }
  }
  EXPECT_GT(blocking, 100U);
}

}  // namespace
}  // namespace tandem::search
