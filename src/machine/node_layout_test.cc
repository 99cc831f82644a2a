// Checks which digits may run along which factors of a matmul by what every device then holds.
#include "machine/node_layout.h"

#include <gtest/gtest.h>

#include <set>

#include "ops/attributes.h"
#include "ops/registry.h"

namespace tandem::machine {
namespace {

Digits make_digits(const std::vector<std::int64_t>& counts) {
  Machine m;
  for (auto count : counts) m.levels.emplace_back().count = count;
  return Digits(m);
}

// Returns q (kv g) d, k kv d -> (kv g): grouped query attention, query heads that share a key.
const ops::Signature& make_grouped_signature(std::int64_t kv, std::int64_t g) {
  const auto op = ops::make_op(ops::kContract, ops::Contract{"(kv g) d, kv d -> (kv g)"});
  return ops::get_signature(op, std::vector<Shape>{{kv * g, 2}, {kv, 2}});
}

// Returns whether every device holds exactly the heads of q that its ranges of kv and g give.
bool holds_its_heads(const ops::Signature& s, const NodeLayout& node, const Digits& digits,
                     std::int64_t kv, std::int64_t g) {
  const auto layout = compute_input_layout(s, node, digits.count(), 0);
  for (std::int64_t device = 0; device < digits.devices(); ++device) {
    std::int64_t first[2] = {0, 0};
    std::int64_t local[2] = {kv, g};
    for (std::size_t i = 0; i < digits.count(); ++i) {
      if (!node.uses[i].is_factor()) continue;
      const auto f = node.uses[i].factor() == static_cast<ops::FactorId>(s.map.find("kv")) ? 0 : 1;
      if (local[f] % digits[i].size != 0) return false;
      local[f] /= digits[i].size;
      first[f] += digits.coordinate(device, i) * local[f];
    }
    std::set<std::int64_t> wanted;
    for (auto a = first[0]; a < first[0] + local[0]; ++a) {
      for (auto b = first[1]; b < first[1] + local[1]; ++b) wanted.insert(a * g + b);
    }
    const auto range = compute_range(layout, digits, device, 0, kv * g);
    std::set<std::int64_t> held;
    for (auto h = range.offset; h < range.offset + range.size; ++h) held.insert(h);
    if (held != wanted) return false;
  }
  return true;
}

TEST(NodeLayout, PartitionsAMinorFactorAfterTheMajor) {
  int legal = 0;
  int refused = 0;
  for (const auto& counts : std::vector<std::vector<std::int64_t>>{{2, 2, 2}, {2, 3, 2}, {3, 2}}) {
    const auto digits = make_digits(counts);
    for (const auto& sizes : std::vector<std::pair<std::int64_t, std::int64_t>>{
             {2, 4}, {4, 2}, {2, 6}, {3, 4}, {6, 2}}) {
      const auto kv = sizes.first;
      const auto g = sizes.second;
      const auto& s = make_grouped_signature(kv, g);
      const std::array choices = {DigitUse::kReplica,
                                  DigitUse::factor(static_cast<ops::FactorId>(s.map.find("kv"))),
                                  DigitUse::factor(static_cast<ops::FactorId>(s.map.find("g")))};
      for_each_index(counts.size() == 3 ? Shape{3, 3, 3} : Shape{3, 3}, [&](const Shape& pick) {
        NodeLayout node;
        bool allowed = true;
        for (std::size_t i = 0; i < pick.rank(); ++i) {
          const auto use = choices[static_cast<std::size_t>(pick[i])];
          allowed = allowed && (!use.is_factor() || may_cut_next(s, use.factor(), node, digits, i));
          node.uses[i] = use;
        }
        EXPECT_EQ(allowed, holds_its_heads(s, node, digits, kv, g))
            << to_text(compute_input_layout(s, node, digits.count(), 0)) << " "
            << to_text(compute_input_layout(s, node, digits.count(), 1)) << " kv " << kv << " g "
            << g;
        ++(allowed ? legal : refused);
        if (!allowed) return;
        const std::vector<Layout> inputs = {compute_input_layout(s, node, digits.count(), 0),
                                            compute_input_layout(s, node, digits.count(), 1)};
        EXPECT_EQ(infer_node_layout(s, inputs, digits), std::optional(node));
      });
    }
  }
  EXPECT_GT(legal, 50);
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace tandem::machine
