#include "search/promising_settings.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tandem::search {
namespace {

using strategies::Setting;

Evaluated make_evaluated(Setting setting, double seconds) {
  Evaluated out{.feasible = true};
  out.simulation.iteration = Seconds{seconds};
  out.setting = setting;
  return out;
}

Setting make_setting(std::int64_t tp, std::int64_t pp, std::int64_t micro) {
  Setting out{.family = strategies::Family::kMegatron};
  out.tp = {tp};
  out.pp = pp;
  out.micro = micro;
  return out;
}

// Eight settings of one shape are the fastest. Settings of other shapes follow, up to a quarter
// slower.
TEST(PromisingSettings, IncludeTheBestOfEachShape) {
  std::vector<Evaluated> settings;
  for (int i = 0; i < 9; ++i)
    settings.push_back(make_evaluated(make_setting(2, 2, 1 + i), 1 + i / 100.0));
  const auto other_tp = make_setting(4, 2, 8);
  const auto other_depth = make_setting(2, 4, 8);
  const auto slower = make_setting(4, 2, 16);
  const auto too_slow = make_setting(8, 2, 8);
  settings.push_back(make_evaluated(other_tp, 1.2));
  settings.push_back(make_evaluated(slower, 1.21));
  settings.push_back(make_evaluated(other_depth, 1.22));
  settings.push_back(make_evaluated(too_slow, 1.3));
  const auto chosen = choose_promising_of_each_shape(settings, 8);
  const auto has = [&](const Setting& s) { return std::ranges::find(chosen, s) != chosen.end(); };
  EXPECT_EQ(chosen.size(), 10U);
  EXPECT_TRUE(has(other_tp));
  EXPECT_TRUE(has(other_depth));
  EXPECT_FALSE(has(slower));
  EXPECT_FALSE(has(too_slow));
}

}  // namespace
}  // namespace tandem::search
