#include "report/tensor_names.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "graph/text.h"

namespace tandem::report {
namespace {

constexpr auto kLayers = R"(graph layers
%x = input() shape=[4, 4]
repeat 12 as i from 0
  carry %in = %x then %l{i}.out
  %l{i}.act = relu(%in)
  %l{i}.out = gelu(%l{i}.act)
end
return %l11.out
)";

TEST(FindNode, AcceptsNamesAsPrinted) {
  const auto graph = graph::parse_graph(kLayers);
  const auto found = [&](const std::string& name) {
    return graph.node(find_node(graph, name, "plan.json")).name;
  };
  EXPECT_EQ(found("l11.act"), "l11.act");
  EXPECT_EQ(found("%l11.act"), "l11.act");
  EXPECT_EQ(found("l{i}.out"), "l0.out");
  EXPECT_EQ(found("%l*.out"), "l0.out");
  EXPECT_EQ(found("l1*.out"), "l10.out");
}

TEST(FindNode, SuggestsSimilarNames) {
  const auto graph = graph::parse_graph(kLayers);
  const auto message = [&](const std::string& name) -> std::string {
    try {
      find_node(graph, name, "plan.json");
    } catch (const UserError& e) {
      return e.where + " " + e.message + " (" + e.hint + ")";
    }
    return "";
  };
  EXPECT_EQ(message("l3.outt"),
            "plan.json has no node %l3.outt (did you mean %l3.out, %l0.out, %l1.out? `tandem show "
            "plan.json` lists all nodes)");
  EXPECT_EQ(message("something"),
            "plan.json has no node %something (`tandem show plan.json` lists all nodes)");
  EXPECT_EQ(message("%"),
            "plan.json has no node % (did you mean %x? `tandem show plan.json` "
            "lists all nodes)");
  EXPECT_EQ(message("*{"),
            "plan.json has no node %*{ (did you mean %x? `tandem show plan.json` "
            "lists all nodes)");
}

}  // namespace
}  // namespace tandem::report
