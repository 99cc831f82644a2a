#include "search/fitting_setting.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "search/limits.h"

namespace tandem::search {

namespace {

using strategies::Family;
using strategies::Recompute;
using strategies::Setting;

struct Changed {
  Setting setting;
  int changes = 0;
};

// Keeps all settings and appends, for each of `values` that changes one, a copy that `set` has put
// it into.
template <class Values, class Set>
void append_variants(std::vector<Changed>& all, const Values& values, Set&& set) {
  const auto own = all.size();
  for (const auto& value : values) {
    for (std::size_t i = 0; i < own; ++i) {
      auto other = all[i];
      set(other.setting, value);
      if (other.setting == all[i].setting) continue;
      ++other.changes;
      all.push_back(std::move(other));
    }
  }
}

std::vector<Changed> list_changed_settings(const Setting& setting, std::int64_t batch) {
  std::vector<Changed> out = {{setting}};
  const bool is_megatron = setting.family == Family::kMegatron;
  if (is_megatron || setting.family == Family::kDeepspeed) {
    std::vector<std::int64_t> levels;
    for (auto zero = setting.zero.value_or(0) + 1; zero <= 3; ++zero) levels.push_back(zero);
    append_variants(out, levels, [](Setting& s, std::int64_t zero) { s.zero = zero; });
  }
  if (is_megatron && std::ranges::any_of(setting.tp, [](auto n) { return n > 1; })) {
    append_variants(out, std::vector{true}, [](Setting& s, bool sp) { s.sp = sp; });
  }
  std::vector<Recompute> again = {Recompute::kSelective, Recompute::kFull};
  if (setting.recompute != Recompute::kNone) again.erase(again.begin());
  if (setting.recompute == Recompute::kFull) again.clear();
  append_variants(out, again, [](Setting& s, Recompute what) { s.recompute = what; });
  std::vector<std::int64_t> micro_batches;
  for (auto n = 2 * setting.micro.value_or(1); batch % n == 0; n *= 2) micro_batches.push_back(n);
  append_variants(out, micro_batches, [](Setting& s, std::int64_t n) { s.micro = n; });
  return out;
}

}  // namespace

std::optional<Evaluated> find_fitting_setting(Estimates& estimates, const Setting& setting,
                                              std::int64_t batch) {
  struct Fitting {
    Evaluated point;
    int changes = 0;
  };
  std::vector<Fitting> fitting;
  for (const auto& [other, changes] : list_changed_settings(setting, batch)) {
    if (changes == 0) continue;  // an estimate may be a little too low
    auto point = estimates.find(other);
    if (point && point->feasible) fitting.push_back({std::move(*point), changes});
  }
  if (fitting.empty()) return std::nullopt;
  const auto time = [](const Fitting& f) { return f.point.simulation.iteration.value; };
  const auto fastest = time(*std::ranges::min_element(fitting, {}, time));
  std::erase_if(fitting,
                [&](const Fitting& f) { return time(f) > limits::kNearlyAsFast * fastest; });
  const auto least = std::ranges::min_element(
      fitting, {}, [&](const Fitting& f) { return std::pair(f.changes, time(f)); });
  return std::move(least->point);
}

}  // namespace tandem::search
