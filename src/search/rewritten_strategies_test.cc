#include <gtest/gtest.h>

#include "models/model.h"
#include "search/neighbours/setting_changes.h"
#include "search/search.h"
#include "strategies/grid.h"

namespace tandem::search {
namespace {

// Rewrites change which strategy is best: they shorten the stages of some more than of others.
TEST(RewrittenStrategies, AreLocallyOptimal) {
  constexpr std::int64_t kBatch = 20480;
  int rewritten = 0;
  const std::string five = TANDEM_SOURCE_DIR "/tests/search/machines/five.machine";
  for (const auto& name : {five + ":8", five + ":16", std::string("dgx_a100:10")}) {
    for (const std::string layers : {"8", "16"}) {
      SCOPED_TRACE(name + ", layers=" + layers);
      const auto known = models::parse_model("mlp:hidden=4096,layers=" + layers);
      const auto model = known.build(kBatch, DType::kFp32);
      const auto machine = machine::load_machine(name);
      Options options;
      options.network = KnownNetwork{&known, kBatch, DType::kFp32};
      options.algebra = RewriteSearch::kJoint;
      options.tolerance = 0;
      const auto best = search(model, machine, options).best.value();
      constexpr std::string_view kBegin = "search:megatron:";
      if (!best.rewritten || !best.name.starts_with(kBegin)) continue;
      ++rewritten;
      const machine::Digits digits(machine);
      const strategies::Problem problem(best.rewritten->graph, digits);
      const auto setting = strategies::parse_setting(best.name.substr(best.name.find(':') + 1));
      for (const auto& changed : list_single_changes(setting, problem, kBatch)) {
        auto made = make_strategy(changed, problem);
        const auto* strategy = std::get_if<strategies::Strategy>(&made);
        if (strategy == nullptr) continue;
        const auto costed = cost_choices(
            best.rewritten->graph, machine, strategy->name, strategy->choices, strategy->schedule,
            options.optimizer, compute_memory_limits(machine, options.memory, options.margin));
        if (!costed.feasible) continue;
        EXPECT_GE(costed.time(), best.time()) << strategy->name;
      }
    }
  }
  EXPECT_GT(rewritten, 0);
}

}  // namespace
}  // namespace tandem::search
