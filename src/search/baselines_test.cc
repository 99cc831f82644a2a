#include "search/baselines.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"
#include "search/estimates.h"

namespace tandem::search {
namespace {

using strategies::Family;
using strategies::Setting;

// Returns many settings of a family, from loops that use no bounds.
std::vector<Setting> list_settings(Family family, const strategies::Problem& problem,
                                   std::int64_t batch) {
  std::vector<Setting> bases = {{.family = family}};
  if (family == Family::kMegatron) {
    bases.clear();
    for (const std::int64_t pp : {1, 2, 4, 8}) {
      for (const std::int64_t zero : {0, 1, 3}) {
        bases.push_back({.family = family, .sp = true, .zero = zero, .pp = pp});
      }
    }
  }
  std::vector<Setting> out;
  for (const auto& base : bases) {
    for (std::int64_t micro = 1; micro <= batch; micro *= 2) {
      for (const auto what : {strategies::Recompute::kNone, strategies::Recompute::kFull}) {
        auto setting = base;
        if (micro > 1 || setting.pp > 1) setting.micro = micro;
        setting.recompute = what;
        try {
          const auto complete = strategies::complete(setting, problem);
          out.insert(out.end(), complete.begin(), complete.end());
        } catch (const UserError&) {  // these devices cannot be grouped
        }
      }
    }
  }
  return out;
}

struct InMemory {
  const char* model;
  const char* machine;
  std::int64_t batch;
  double memory;
};

// Each row is as fast as the fastest setting of its family that fits, or reports that none does.
TEST(Baselines, AreTheFastestSettingsThatFit) {
  constexpr auto kNetwork = "gpt2:layers=4,hidden=1024,heads=16,ffn=4096,seq=1024,vocab=8192";
  for (const auto& asked :
       {InMemory{kNetwork, "dgx_a100:1", 16, 1.5e9}, InMemory{kNetwork, "dgx_a100:1", 16, 0.5e9}}) {
    SCOPED_TRACE(fmt::format("{} in {}", asked.model, asked.memory));
    const auto network = models::parse_model(asked.model);
    const auto model = network.build(asked.batch, DType::kFp32);
    const auto machine = machine::load_machine(asked.machine);
    const machine::Digits digits(machine);
    const strategies::Problem problem(model, digits);
    Options options;
    options.optimizer = plan::Optimizer::kAdam;
    options.memory = Bytes{asked.memory};
    options.network = {&network, asked.batch, DType::kFp32};
    const auto result = search(model, machine, options);
    ASSERT_TRUE(result.best.has_value());
    Estimates estimates({.values = {},
                         .problem = &problem,
                         .machine = &machine,
                         .batch = asked.batch,
                         .optimizer = plan::Optimizer::kAdam,
                         .limits = {*options.memory},
                         .network = &network});
    std::size_t compared = 0;
    for (const auto family : {Family::kDp, Family::kFsdp, Family::kMegatron, Family::kExpert}) {
      const auto row = std::ranges::find(result.baselines, name(family), &Evaluated::family);
      ASSERT_NE(row, result.baselines.end());
      SCOPED_TRACE(row->name);
      double fastest = std::numeric_limits<double>::infinity();
      for (const auto& e : estimate_all(estimates, list_settings(family, problem, asked.batch))) {
        if (e.feasible) fastest = std::min(fastest, e.time().value);
      }
      if (fastest == std::numeric_limits<double>::infinity()) continue;
      ++compared;
      EXPECT_TRUE(row->feasible);
      EXPECT_LE(row->simulation.iteration.value, 1.01 * fastest);
      EXPECT_LE(row->simulation.memory, *options.memory);
    }
    EXPECT_GT(compared, 0U);
    for (const auto& row : result.baselines) {
      if (!row.feasible) {
        EXPECT_GT(row.over, Bytes{});
      } else {
        EXPECT_GE(row.simulation.iteration, result.best->simulation.iteration) << row.name;
      }
    }
  }
}

}  // namespace
}  // namespace tandem::search
