#include "report/blocks.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "graph/text.h"

namespace tandem::report {
namespace {

std::string format_blocks(const std::vector<FoldedBlock>& blocks) {
  std::vector<std::string> out;
  for (const auto& block : blocks) {
    std::vector<std::string> inside;
    for (const auto& c : block.carries) {
      inside.push_back(fmt::format("{}={}/{}", c.name, c.first, c.later));
    }
    for (const auto& node : block.nodes) {
      inside.push_back(fmt::format("{}({})", node.name, join(node.operands, ",")));
    }
    if (!block.blocks.empty()) inside.push_back(format_blocks(block.blocks));
    auto text = join(inside, " ");
    if (block.count > 1) {
      text = fmt::format("{} x [{}]", block.count, text);
      if (block.from != 0) text = fmt::format("from {} {}", block.from, text);
    }
    out.push_back(text);
  }
  return join(out, "; ");
}

constexpr auto kChain = R"(graph chain
%x = input() shape=[4, 4]
repeat 5 as i from 0
  carry %in = %x then %l{i}.b
  %l{i}.a = relu(%in)
  %l{i}.b = gelu(%l{i}.a)
end
%y = relu(%l4.b)
return %y
)";

TEST(Blocks, AreRunsOfEquivalentRounds) {
  const auto chain = graph::parse_graph(kChain);
  // Nodes with the same letter are equivalent; the first is %x.
  const auto blocks = [&](const std::string& kinds) {
    return format_blocks(split_into_blocks(chain, [&](graph::NodeId a, graph::NodeId b) {
      return kinds[a.index()] == kinds[b.index()];
    }));
  };
  EXPECT_EQ(blocks("xabababababy"), "x(); 5 x [in=x/l{i}.b l{i}.a(in) l{i}.b(l{i}.a)]; y(l4.b)");
  EXPECT_EQ(blocks("xaXabababab y"),
            "x() l0.a(x) l0.b(l0.a); "
            "from 1 4 x [in=l0.b/l{i}.b l{i}.a(in) l{i}.b(l{i}.a)]; y(l4.b)");
  EXPECT_EQ(blocks("xababXbabaBy"),
            "x(); 2 x [in=x/l{i}.b l{i}.a(in) l{i}.b(l{i}.a)]; "
            "l2.a(l1.b) l2.b(l2.a) l3.a(l2.b) l3.b(l3.a) l4.a(l3.b) l4.b(l4.a) y(l4.b)");
}

TEST(Blocks, AreSingleWithoutEquivalentNodes) {
  const auto chain = graph::parse_graph(kChain);
  const auto blocks = split_into_blocks(chain, [](graph::NodeId, graph::NodeId) { return false; });
  ASSERT_EQ(blocks.size(), 1U);
  ASSERT_EQ(blocks[0].nodes.size(), chain.size());
  for (auto id : chain.ids()) {
    const auto& shown = blocks[0].nodes[id.index()];
    EXPECT_EQ(shown.id, id);
    EXPECT_EQ(shown.name, chain.node(id).name);
    for (std::size_t i = 0; i < shown.operands.size(); ++i) {
      EXPECT_EQ(shown.operands[i], chain.node(chain.inputs(id)[i]).name);
    }
  }
}

TEST(Blocks, AreNested) {
  const auto nested = graph::parse_graph(R"(graph nested
%x = input() shape=[4, 4]
repeat 3 as i from 0
  carry %in = %x then %end{i}
  %start{i} = gelu(%in)
  repeat 4 as j from 0
    %part{i}.{j} = relu(%start{i})
  end
  %end{i} = add(%part{i}.0, %part{i}.3)
end
return %end2
)");
  EXPECT_EQ(format_blocks(split_into_blocks(nested, [](auto, auto) { return true; })),
            "x(); 3 x [in=x/end{i} start{i}(in); 4 x [part{i}.{j}(start{i})]; "
            "end{i}(part{i}.0,part{i}.3)]");
  // The middle iteration differs in its third part.
  const graph::NodeId odd(1 + 6 + 3);
  EXPECT_EQ(format_blocks(
                split_into_blocks(nested, [&](auto a, auto b) { return a != odd && b != odd; })),
            "x() start0(x); 4 x [part0.{j}(start0)]; end0(part0.0,part0.3) start1(end0); "
            "2 x [part1.{j}(start1)]; part1.2(start1) part1.3(start1) end1(part1.0,part1.3) "
            "start2(end1); 4 x [part2.{j}(start2)]; end2(part2.0,part2.3)");
}

}  // namespace
}  // namespace tandem::report
