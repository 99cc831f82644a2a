// The search finds strategies that people found, in cases in which these are known to be the best.
// Megatron's and DLRM's are in search_test.cc.
#include <gtest/gtest.h>

#include <algorithm>

#include "machine/machine.h"
#include "models/model.h"
#include "search/search.h"
#include "strategies/factor_kinds.h"

namespace tandem::search {
namespace {

Result find_plan(const std::string& text, const machine::Machine& machine, std::int64_t batch,
                 Options options) {
  const auto network = models::parse_model(text);
  options.network = {&network, batch, DType::kFp32};
  return search(network.build(batch, DType::kFp32), machine, options);
}

// Returns the operators whose names start with `prefix` and which have a digit that does not run
// along the batch.
std::vector<std::string> not_along_the_batch(const Evaluated& plan, const machine::Machine& machine,
                                             const std::string& prefix) {
  const machine::Digits digits(machine, plan.mapped.schedule.micro_batches);
  const auto& pcg = plan.mapped.pcg;
  const auto nodes = strategies::analyze(pcg);
  std::vector<std::string> out;
  for (auto id : pcg.ids()) {
    const auto& node = pcg.node(id);
    if (node.op.role() != ops::Role::kCompute || !node.name.starts_with(prefix)) continue;
    std::vector<machine::Layout> layouts;
    for (auto i : pcg.inputs(id)) layouts.push_back(plan.mapped.layouts[i.index()]);
    const auto made = infer_node_layout(nodes[id.index()].signature, layouts, digits);
    const auto batch = nodes[id.index()].batch();
    bool along = made && batch;
    for (std::size_t d = 0; along && d < digits.count(); ++d) {
      along = made->uses[d].is_factor() && made->uses[d].factor() == *batch;
    }
    if (!along) out.push_back(node.name);
  }
  return out;
}

// Returns the fraction of all weights that a device stores.
double stored_share(const Evaluated& plan) {
  double stored = 0;
  double whole = 0;
  const auto& pcg = plan.mapped.pcg;
  for (auto id : pcg.ids()) {
    if (!is_weight(pcg.node(id))) continue;
    const auto& shape = pcg.node(id).type.shape;
    stored += static_cast<double>(shape.shard_shape().count());
    whole += static_cast<double>(shape.sizes.count());
  }
  return stored / whole;
}

// Gradients of 25 M parameters cost less than the exchanges between parts of images.
TEST(Rediscovery, FindsDataParallelismForResnet) {
  for (const std::string name : {"dgx_v100:1", "summit:1"}) {
    SCOPED_TRACE(name);
    const auto machine = machine::load_machine(name);
    const auto result = find_plan("resnet50", machine, 64 * machine.devices(), {});
    ASSERT_TRUE(result.best.has_value());
    EXPECT_EQ(not_along_the_batch(*result.best, machine, ""), std::vector<std::string>{});
  }
}

// Weights and Adam's state take 13 GB and do not fit, so weights are sharded and gathered for every
// use. The links overlap this with the compute of a large batch. Layers run only along the batch.
TEST(Rediscovery, FindsShardedWeightsUnderTightMemory) {
  const auto machine = machine::load_machine("dgx_a100:1");
  Options options;
  options.optimizer = plan::Optimizer::kAdam;
  options.memory = Bytes{10e9};
  const auto result =
      find_plan("gpt2:layers=4,hidden=4096,heads=32,ffn=16384,vocab=2048", machine, 64, options);
  ASSERT_TRUE(result.best.has_value());
  EXPECT_EQ(not_along_the_batch(*result.best, machine, "l"), std::vector<std::string>{});
  EXPECT_LT(stored_share(*result.best), 0.2);
}

}  // namespace
}  // namespace tandem::search
