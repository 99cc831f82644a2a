#include "search/neighbours/weight_storage.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "machine/machine.h"
#include "models/model.h"
#include "strategies/grid.h"

namespace tandem::search {
namespace {

Candidate make_candidate(const char* strategy, const graph::Graph& model,
                         const machine::Digits& digits) {
  auto s = strategies::make_named_strategies(strategy, model, digits).at(0);
  return {s.name, std::move(s.choices), s.schedule};
}

// Weights that are looked up in, or used twice, are stored as they are used. All other replicated
// weights are sharded.
TEST(WeightStorage, LeavesTablesAsTheyAreUsed) {
  const auto model = models::parse_model("bert_large:layers=2").build(24, DType::kFp32);
  const auto machine = machine::load_machine("summit:1");
  const Options options;
  CandidatePool pool(model, machine, options);
  const auto from = make_candidate("dp", model, pool.digits());
  enter_storage_variants(pool, from);
  const auto entered = pool.list_leaders(nullptr);
  ASSERT_EQ(entered.size(), 3U);  // over sockets, over GPUs, over both
  const auto consumers = model.consumers();
  std::size_t most_in_parts = 0;
  for (const auto& plan : entered) {
    std::size_t whole = 0;
    std::size_t in_parts = 0;
    for (auto id : model.ids()) {
      if (!is_weight(model.node(id))) continue;
      const auto& source = plan.choices[id.index()].source;
      const bool is_whole = source.digits(machine::DigitRole::kReplica) == pool.digits().all();
      const auto& readers = consumers[id.index()];
      const auto& reader = model.node(readers[0]);
      if (readers.size() > 1 || reader.op.spec().row_sparse_operand) {
        EXPECT_TRUE(is_whole) << model.node(id).name;
        ++whole;
      } else if (!is_whole) {
        ++in_parts;
      }
    }
    EXPECT_GT(whole, 0U);
    most_in_parts = std::max(most_in_parts, in_parts);
  }
  EXPECT_GT(most_in_parts, 20U);
}

// There are seven sets of three levels, each also with gathered weights saved for backward.
TEST(WeightStorage, TriesEverySetOfLevels) {
  const auto model =
      models::parse_model("mlp:layers=4,inputs=96,hidden=96,outputs=96").build(96, DType::kFp32);
  const auto machine = machine::load_machine("summit:2");
  const Options options;
  for (const bool regathers : {false, true}) {
    CandidatePool pool(model, machine, options);
    auto from = make_candidate("dp", model, pool.digits());
    for (auto id : model.ids()) {
      if (is_weight(model.node(id))) from.choices[id.index()].recompute = regathers;
    }
    enter_storage_variants(pool, from);
    EXPECT_EQ(pool.result().candidates, regathers ? 14U : 7U);
  }
}

TEST(WeightStorage, LeavesPipelinesAlone) {
  const auto model = models::parse_model("mlp:layers=4").build(24, DType::kFp32);
  const auto machine = machine::load_machine("summit:1");
  const Options options;
  CandidatePool pool(model, machine, options);
  enter_storage_variants(pool, make_candidate("megatron:tp=1,pp=2,micro=4", model, pool.digits()));
  EXPECT_EQ(pool.result().candidates, 0U);
}

}  // namespace
}  // namespace tandem::search
