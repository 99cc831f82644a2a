// Tests that rules partition every operator of the built-in networks along each of its factors.
#include "plan/operator_cut.h"

#include <gtest/gtest.h>

#include <set>

#include "base/text.h"
#include "models/model.h"
#include "plan/random_choices_test_support.h"

namespace tandem::plan {
namespace {

std::string shapes_text(const graph::Graph& model, graph::NodeId id) {
  const auto& op = model.node(id).op;
  std::string out = op.spec().name + " " + op.attribute_text();
  for (auto i : model.inputs(id)) out += " " + to_text(model.node(i).type.shape);
  return out;
}

// Adds the operators and factors that no rule partitions: "split axis=1 parts=2 [4, 8] over c".
void add_uncut(const graph::Graph& model, std::set<std::string>& seen, std::set<std::string>& out) {
  for (auto id : model.ids()) {
    if (model.node(id).op.role() != ops::Role::kCompute) continue;
    const auto what = shapes_text(model, id);
    if (!seen.insert(what).second) continue;
    const auto& s = get_node_signature(model, id);
    for (ops::FactorId f = 0; f < s.map.factors.size(); ++f) {
      const auto digits = make_digits({2});
      machine::NodeLayout layout;
      if (!machine::may_cut(s, f) || !may_cut_next(s, f, layout, digits, 0)) continue;
      layout.uses[0] = machine::DigitUse::factor(f);
      if (!find_cutting_steps(model, id, layout, digits)) {
        out.insert(fmt::format("{} over {}", what, s.map.factors[f].name));
      }
    }
  }
}

TEST(Parallelization, HasARuleForEveryFactorOfABuiltInNetwork) {
  std::set<std::string> seen;
  std::set<std::string> uncut;
  for (const auto* spec : models::all_models()) {
    add_uncut(models::parse_model(spec->name).build(8, DType::kFp32), seen, uncut);
  }
  EXPECT_EQ(join({uncut.begin(), uncut.end()}, "\n"), "");
}

}  // namespace
}  // namespace tandem::plan
