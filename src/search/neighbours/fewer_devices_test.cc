#include "search/neighbours/fewer_devices.h"

#include <gtest/gtest.h>

namespace tandem::search {
namespace {

struct OnParts {
  const char* model;
  const char* machine;
  std::int64_t batch;
};

// A batch that does not divide over three nodes, with equal layers and without, at once and in
// micro-batches, and a network that one node trains faster than two: with more nodes no step takes
// longer.
TEST(FewerDevices, AreUsedWhereAllAreSlower) {
  for (const auto& [text, name, batch] :
       {OnParts{"gpt2:layers=6", "dgx_a100:3", 64}, OnParts{"candle_uno", "summit:3", 4096},
        OnParts{"resnet50", "summit:3", 8192}, OnParts{"dlrm", "zionex:2", 2048}}) {
    const auto known = models::parse_model(text);
    const auto model = known.build(batch, DType::kFp32);
    const auto machine = machine::load_machine(name);
    Options options;
    options.algebra = Algebra::kJoint;
    options.network = KnownNetwork{&known, batch, DType::kFp32};
    const auto all = search(model, machine, options);
    const auto fewer = search_fewer_devices(model, machine, options, all);
    ASSERT_TRUE(fewer.has_value()) << text;
    EXPECT_LT(fewer->machine.devices(), machine.devices()) << text;
    EXPECT_LT(fewer->result.best->simulation.iteration, all.best->simulation.iteration) << text;
  }
}

}  // namespace
}  // namespace tandem::search
