#include "graph/json.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "graph/text.h"

namespace tandem::graph {
namespace {

std::string get_error(const std::string& text) {
  try {
    parse_graph_json(text, "g.json");
  } catch (const UserError& e) {
    return e.where + ": " + e.message;
  }
  return "no error";
}

std::string document(const std::string& nodes, const std::string& outputs = R"("x")") {
  return R"({"tandem_graph": 1, "name": "g", "nodes": [)" + nodes + R"(], "outputs": [)" + outputs +
         "]}";
}

const std::string kInput = R"({"name": "x", "op": "input", "attributes": {"shape": "[2, 3]"}})";

TEST(GraphJson, WritesAndReads) {
  const auto graph = parse_graph(
      "graph g\n%x = input() shape=[2, 3]\n%w = weight() shape=[4, 3]\n"
      "%y = contract(%x, %w) index=\"a b, c b -> a c\" scale=0.5\n%z = relu(%y)\nreturn %z\n");
  const auto text = to_json(graph);
  EXPECT_TRUE(is_graph_json(text));
  EXPECT_EQ(to_text(parse_graph_json(text)), to_text(graph));
}

TEST(GraphJson, ReportsErrors) {
  EXPECT_EQ(get_error("["), "g.json: is not JSON");
  EXPECT_EQ(get_error("[]"), "g.json: is not a JSON object");
  EXPECT_EQ(get_error(document(R"({"name": "x", "op": "input", "name": "y"})")),
            "g.json: 'nodes[0].name' is given twice");
  EXPECT_EQ(get_error("{}"), "g.json: key 'tandem_graph' must be 1");
  EXPECT_EQ(get_error(document("", "")), "g.json: key 'outputs' names no node");
  EXPECT_EQ(get_error(document("1")), "g.json: node 0: must be an object");
  EXPECT_EQ(get_error(document(R"({"name": "x"})")), "g.json: node 'x': key 'op' must be a string");
  EXPECT_EQ(get_error(document(R"({"name": "x", "op": "rleu"})")),
            "g.json: node 'x': unknown operator 'rleu'");
  EXPECT_EQ(get_error(document(R"({"name": "x", "op": "relu", "inputs": ["y"]})")),
            "g.json: node 'x': there is no node 'y' before this one");
  EXPECT_EQ(get_error(document(kInput + "," + kInput)),
            "g.json: node 'x': another node already has this name");
  EXPECT_EQ(get_error(document(R"({"name": "x", "op": "input", "attributes": {"shape": 2}})")),
            "g.json: node 'x': attribute 'shape' must be a string");
  EXPECT_EQ(
      get_error(document(
          R"({"name": "x", "op": "input", "attributes": {"shape": "[2]"}, "type": "[3] fp32"})")),
      "g.json: node 'x': is written as [3] fp32, but its type is [2] fp32");
  EXPECT_EQ(get_error("{\"a\":" + std::string(5000, '[')), "g.json: is nested too deeply");
}

}  // namespace
}  // namespace tandem::graph
