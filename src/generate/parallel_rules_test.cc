#include "generate/parallel_rules.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "generate/side_graph_test_support.h"
#include "graph/virtual_devices.h"
#include "rewrite/rule_text.h"

namespace tandem::generate {
namespace {

const std::vector<rewrite::Rule>& all_rules() {
  static const auto rules = [] {
    std::vector<rewrite::Rule> out;
    for (auto& made : make_parallel_rules(operator_set("all"))) {
      out.push_back(std::move(made.rule));
      std::ranges::move(made.literal, std::back_inserter(out));
    }
    return out;
  }();
  return rules;
}

bool has(const std::string& text) {
  return std::ranges::any_of(all_rules(), [&](const rewrite::Rule& rule) {
    const auto written = rewrite::to_text(rule);
    return written.substr(written.find(": ") + 2).starts_with(text);
  });
}

TEST(ParallelRules, IncludeTheFiguresOfUnity) {
  // Figures 11a and 11b, and the matmul of a reduction.
  EXPECT_TRUE(
      has("(relu ?x) => (combine (relu (partition ?x dim=?i degree=?d)) dim=?i degree=?d)"));
  EXPECT_TRUE(has("(add ?x ?y) => (reduce (join ?x ?y) degree=2)"));
  EXPECT_TRUE(
      has("(matmul (reduce ?x degree=?d) ?y) => "
          "(reduce (matmul ?x (replicate ?y degree=?d)) degree=?d)"));
  // Megatron's linear layers: column-parallel, then row-parallel.
  EXPECT_TRUE(
      has("(linear ?x ?y act=?act) => (combine (linear (replicate ?x degree=?d) "
          "(partition ?y degree=?d) act=?act) dim=1 degree=?d)"));
  EXPECT_TRUE(
      has("(linear ?x ?y act=?act) => (reduce (linear (partition ?x dim=1 degree=?d) "
          "(partition ?y dim=1 degree=?d) act=?act) degree=?d)"));
  EXPECT_TRUE(
      has("(embedding ?x ?y) => (reduce (embedding (replicate ?x degree=?d) "
          "(partition ?y degree=?d)) degree=?d)"));
}

// If a rule with a symbol is too general, it also exists with numbers. Examples are a dimension
// that cannot be sharded, and an unusual order of dimensions.
TEST(ParallelRules, CoverDimensionsAndAttributes) {
  EXPECT_TRUE(
      has("(softmax ?x) => (combine (softmax (partition ?x degree=?d)) degree=?d) choose ?d"));
  EXPECT_TRUE(
      has("(matmul ?x ?y) => (combine (matmul (partition ?x degree=?d) (replicate ?y degree=?d)) "
          "degree=?d) choose ?d"));
  EXPECT_TRUE(
      has("(transpose ?x perm=[1, 0]) => (combine (transpose (partition ?x degree=?d) "
          "perm=[1, 0]) dim=1 degree=?d) choose ?d"));
}

// Runs a side on virtual devices. Throws UserError if it is not legal.
std::vector<Dense<term::Field>> run(const rewrite::Side& side, const Assignment& assignment,
                                    std::vector<TensorType>& types) {
  const auto graph = make_graph(side, assignment);
  const auto output = graph.outputs()[0];
  types.push_back(graph.node(output).type);
  const auto values = graph::run_sharded_forward<term::Field>(
      graph, graph::make_feed_values<term::Field>(graph, 3));
  return {graph::assemble(values[output.index()])};
}

// Runs every rule on virtual devices, for tensors of many ranks and layouts. If both sides are
// legal and have one type, they must be equal.
TEST(ParallelRules, HoldOnVirtualDevices) {
  std::size_t run_rules = 0;
  for (const auto& rule : all_rules()) {
    bool was_run = false;
    for (const auto* layout :
         {"[6, 6]", "[6]", "[6, 6, 6]", "[6/2, 6]", "[12/4, 6]*4", "[12, 6]+4", "[6, 6]*2+2"}) {
      for (std::int64_t dim : {0, 1}) {
        Assignment assignment;
        for (std::size_t t = 0; t < rule.tensors.size(); ++t) {
          TensorType type;
          type.shape = *parse_parallel_shape(layout);
          assignment.tensors.push_back(type);
        }
        for (const auto& symbol : rule.symbols) {
          const bool is_dim = symbol == "i" || symbol == "j";
          if (symbol.size() == 1) {
            assignment.symbols.emplace_back(is_dim ? (symbol == "i" ? dim : 1 - dim) : 2);
            continue;
          }
          std::string text = "0";
          for (const auto& node : rule.source.nodes) {
            if (node.is_variable()) continue;
            for (const auto& [name, value] : node.spec->attributes) {
              if (name == symbol) text = value;
            }
          }
          assignment.symbols.emplace_back(rewrite::parse_value(text));
        }
        std::vector<TensorType> types;
        try {
          const auto source = run(rule.source, assignment, types);
          const auto target = run(rule.target, assignment, types);
          if (types[0] != types[1]) continue;
          was_run = true;
          EXPECT_EQ(source, target) << rewrite::to_text(rule) << " on " << layout;
        } catch (const UserError&) {  // not legal for this layout
        }
      }
    }
    run_rules += was_run ? 1 : 0;
  }
  EXPECT_GT(run_rules, all_rules().size() / 2);
}

}  // namespace
}  // namespace tandem::generate
