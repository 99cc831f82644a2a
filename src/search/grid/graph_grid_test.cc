#include <gtest/gtest.h>

#include <limits>

#include "base/fewer_test_support.h"
#include "models/model.h"
#include "search/grid/graph_grid_model.h"
#include "search/grid/grid.h"

namespace tandem::search {
namespace {

struct GraphQuestion {
  const char* model;
  const char* machine;
  std::int64_t batch;
  plan::Optimizer optimizer = plan::Optimizer::kSgd;
  bool is_mixed = false;  // whether every second node is half as fast
  bool is_stale = false;
  std::size_t least = 50;  // least number of strategies in the grid
};

// Evaluates every strategy of the grid, with its bound.
GridResult evaluate_all(const GraphQuestion& q) {
  auto machine = machine::load_machine(q.machine);
  if (q.is_mixed) {
    auto slow = machine.device;
    for (auto& [type, peak] : slow.peak) peak = 0.5 * peak;
    machine.groups = {{"fast", machine.device, 1}, {"slow", slow, 1}};
    machine.device = slow;
  }
  const auto graph = models::parse_model(q.model).build(q.batch, DType::kFp32);
  Options options;
  options.optimizer = q.optimizer;
  CandidatePool pool(graph, machine, options);
  const strategies::Problem problem(graph, pool.digits());
  GraphGridModel model(pool, problem, q.batch, [](const auto&) { return true; });
  const Case on{.values = {},
                .problem = &problem,
                .machine = &machine,
                .batch = q.batch,
                .optimizer = q.optimizer,
                .limits = pool.result().limits};
  return evaluate_grid(on, model,
                       {.stale = q.is_stale, .near = std::numeric_limits<double>::infinity()});
}

// Covers tensor parallel layers, delayed updates, tables whose gradients are summed whole or as
// rows, recomputation and ZeRO. It also covers towers of which a stage may compute one before it
// hears from the others.
TEST(GraphGrid, BoundsEveryStrategy) {
  const std::vector<GraphQuestion> questions = {
      {"mlp:layers=4,hidden=512", "summit:2", 48},
      {"mlp:layers=4,hidden=96", "summit:1,software=serial", 24, plan::Optimizer::kAdam},
      {"mlp:layers=4,hidden=512", "summit:2", 24, plan::Optimizer::kSgd, true},
      {"mlp:layers=8,hidden=512", "summit:2", 24, plan::Optimizer::kAdam, false, true},
      {"gpt2:layers=4,hidden=96,heads=6,ffn=192,vocab=120,seq=24", "summit:2", 24,
       plan::Optimizer::kSgd, false, true},
      // Devices that no switch connects.
      {"mlp:layers=8,hidden=64,inputs=64,outputs=64", "dgx_v100:1", 9, plan::Optimizer::kSgd, false,
       true, 2},
      {"mlp:layers=4,hidden=64,inputs=64,outputs=64", "dgx_v100:1", 12},
      {"dlrm:tables=3,rows=1000", "summit:1", 12},
      {"dlrm:tables=3,rows=100000", "summit:1,software=pytorch-tables", 12},
      {"candle_uno:towers=3,layers=2,hidden=256,features=96-32-64,top_layers=2", "summit:1", 12},
      {"bert_large:layers=2,hidden=96,heads=6,ffn=192,vocab=120,seq=24", "dgx_a100:1", 8,
       plan::Optimizer::kAdam},
      {"gpt2:layers=2,hidden=96,heads=6,ffn=192,vocab=120,seq=24", "dgx_a100:1,software=megatron",
       8},
      {"mixtral_8x7b:layers=2,hidden=64,heads=4,kv_heads=2,ffn=96,vocab=120,seq=16", "dgx_a100:1",
       8},
      // Cells are recomputed from a large tensor that is freed before their end.
      {"nasnet_a:image=96,classes=10,width=8,stem=64,cells=1,bn_group=2", "dgx_a100:1", 16},
  };
  unsigned round = 0;
  for (const auto& question : questions) {
    if (round++ % kFewer != 0) continue;
    const auto found = evaluate_all(question);
    EXPECT_GT(found.evaluated.size(), question.least);
    for (const auto& e : found.evaluated) {
      constexpr double kRounding = 1 + 1e-9;
      ASSERT_LE(e.bound, kRounding * e.time().value)
          << question.model << " on " << question.machine << ": " << e.name;
    }
  }
}

}  // namespace
}  // namespace tandem::search
