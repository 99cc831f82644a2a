#include "search/neighbours/layout_search.h"

#include <gtest/gtest.h>

#include "models/model.h"
#include "search/search.h"

namespace tandem::search {
namespace {

Seconds find_plan_time(const std::string& network, std::int64_t batch,
                       const machine::Machine& machine, std::optional<Bytes> memory) {
  const auto known = models::parse_model(network);
  const auto model = known.build(batch, DType::kBf16);
  Options options;
  options.optimizer = plan::Optimizer::kAdam;
  options.network = KnownNetwork{&known, batch, DType::kBf16};
  options.memory = memory;
  options.algebra = RewriteSearch::kNone;
  options.tolerance = 0;
  return search(model, machine, options).best.value().time();
}

// The best layouts are the cheapest only in a small range of prices. With less memory the search
// meets them while it looks for layouts that fit.
TEST(LayoutSearch, IsNoSlowerWithMoreMemory) {
  const auto five = std::string(TANDEM_SOURCE_DIR "/tests/search/machines/five.machine:4,use=4/4");
  const auto machine = machine::load_machine(five);
  for (const std::string network :
       {"mixtral_8x7b:layers=2,experts=4,seq=2048", "mixtral_8x7b:layers=3,experts=4,seq=2048"}) {
    SCOPED_TRACE(network);
    Seconds before{std::numeric_limits<double>::infinity()};
    for (const double gigabytes : {8, 12, 24}) {
      const auto now = find_plan_time(network, 16, machine, Bytes{gigabytes * 1e9});
      EXPECT_LE(now, 1.002 * before) << gigabytes << " GB";
      before = std::min(before, now);
    }
  }
}

// Gradients of the embedding table are ready last, and nothing overlaps their collectives.
TEST(LayoutSearch, IsNoSlowerWithMoreBandwidth) {
  const std::string network = "gpt2:hidden=5120,heads=40,ffn=20480,layers=1,seq=1024";
  for (const std::size_t level : {0, 1}) {
    SCOPED_TRACE(level);
    Seconds before{std::numeric_limits<double>::infinity()};
    for (const double times : {1.0, 1.5, 4.0}) {
      auto machine = machine::load_machine("dgx_a100_40gb:4");
      auto& bandwidth = machine.levels[level].bandwidth;
      bandwidth = times * bandwidth;
      const auto now = find_plan_time(network, 64, machine, std::nullopt);
      EXPECT_LE(now, 1.002 * before) << times << " x the bandwidth";
      before = std::min(before, now);
    }
  }
}

}  // namespace
}  // namespace tandem::search
