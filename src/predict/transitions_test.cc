#include "predict/transitions.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "predict/collectives.h"

namespace tandem::predict {
namespace {

using machine::DigitRole;
using machine::Layout;

std::vector<Layout> all_layouts(std::size_t digits) {
  const std::vector<DigitRole> roles = {DigitRole::kReplica, DigitRole::kPartial, DigitRole::dim(0),
                                        DigitRole::dim(1), DigitRole::idle(0)};
  std::vector<Layout> out = {Layout(digits, DigitRole::kReplica)};
  for (std::size_t d = 0; d < digits; ++d) {
    const auto before = std::move(out);
    out.clear();
    for (auto layout : before) {
      for (auto role : roles) {
        layout.set(d, role);
        out.push_back(layout);
      }
    }
  }
  return out;
}

// Asks for every pair twice, more pairs than the table initially has room for.
TEST(Transitions, CostTheSumOfTheirSteps) {
  const auto machine = machine::load_machine("summit:2");
  const machine::Digits digits(machine);
  Transitions transitions(machine, digits);
  const auto time = [&](std::uint32_t i, double bytes) {
    return transitions.time(transitions[i], bytes).value;
  };
  const auto steps_time = [&](const Layout& from, const Layout& to, double bytes) {
    Seconds out;
    for (const auto& step : machine::reshard(from, to)) {
      const auto part =
          std::max(transitions.shard_fraction(step.before), transitions.shard_fraction(step.after));
      out += collective_time(machine, digits, step.kind, step.digits, Bytes{part * bytes});
    }
    return out.value;
  };
  const auto layouts = all_layouts(digits.count());
  constexpr double kBytes = 4e7;
  for (int round = 0; round < 2; ++round) {
    for (const auto& from : layouts) {
      for (const auto& to : layouts) {
        const auto both = transitions.find_transitions(transitions.intern_layout(from),
                                                       transitions.intern_layout(to));
        const double there = steps_time(from, to, kBytes);
        const double back = steps_time(to_gradient_layout(to), to_gradient_layout(from), kBytes);
        ASSERT_NEAR(time(both.there, kBytes), there, 1e-9 + 1e-6 * there)
            << to_text(from) << " to " << to_text(to);
        ASSERT_NEAR(time(both.back, kBytes), back, 1e-9 + 1e-6 * back)
            << to_text(from) << " to " << to_text(to);
      }
    }
  }
}

// Transitions between two lists equal those between their layouts. No partial sum is created from a
// whole value.
TEST(Transitions, AgreeForListsAndLayouts) {
  const auto machine = machine::load_machine("summit:2");
  const machine::Digits digits(machine);
  Transitions transitions(machine, digits);
  Transitions::LayoutIdList from{1, {}};
  Transitions::LayoutIdList to{2, {}};
  const auto layouts = all_layouts(digits.count());
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    (i % 3 == 0 ? from : to).layouts.push_back(transitions.intern_layout(layouts[i]));
  }
  const auto at = [&](const auto& list, std::size_t i) {
    return layouts[&list == &from ? 3 * i : i / 2 * 3 + 1 + i % 2];
  };
  const auto pairs = transitions.find_transitions(from, to);
  ASSERT_EQ(pairs.size(), from.layouts.size() * to.layouts.size());
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const auto row = i / to.layouts.size();
    const auto col = i % to.layouts.size();
    const auto sums = at(to, col).digits(DigitRole::kPartial);
    const bool may = (sums & ~at(from, row).digits(DigitRole::kPartial)) == 0;
    ASSERT_EQ(pairs[i].is_possible(), may)
        << to_text(at(from, row)) << " to " << to_text(at(to, col));
    if (!may) continue;
    const auto one = transitions.find_transitions(from.layouts[row], to.layouts[col]);
    EXPECT_EQ(pairs[i].there, one.there);
    EXPECT_EQ(pairs[i].back, one.back);
  }
}

}  // namespace
}  // namespace tandem::predict
