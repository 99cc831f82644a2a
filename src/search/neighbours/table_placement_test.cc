#include "search/neighbours/table_placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "machine/machine.h"
#include "models/model.h"
#include "strategies/grid.h"

namespace tandem::search {
namespace {

graph::Graph fp32_model(const std::string& model, std::int64_t batch) {
  return models::parse_model(model).build(batch, DType::kFp32);
}

Candidate data_parallel_with_tables_in_parts(const graph::Graph& model,
                                             const machine::Digits& digits) {
  const strategies::Problem problem(model, digits);
  auto made = strategies::make_strategies({{.family = strategies::Family::kExpert}}, problem);
  return {"expert", std::move(made.at(0).choices), made.at(0).schedule};
}

// The places of all tables that are whole, and the number of sharded ones.
struct Places {
  std::set<machine::NodeLayout> whole;
  std::size_t in_parts = 0;
};

Places places_of(const Candidate& candidate, const graph::Graph& model,
                 const machine::Digits& digits) {
  const strategies::Problem problem(model, digits);
  Places out;
  for (auto id : model.ids()) {
    if (!problem.is_table(id)) continue;
    const auto& layout = candidate.choices[id.index()].node;
    const auto* end = layout.uses.begin() + digits.count();
    if (std::all_of(layout.uses.begin(), end, [](auto use) { return use.is_idle(); })) {
      out.whole.insert(layout);
    } else {
      ++out.in_parts;
    }
  }
  return out;
}

// Four tables on six devices: at most one of them is sharded.
TEST(TablePlacement, PlacesUnshardedTablesOnDevices) {
  const auto model = fp32_model("xdl", 6144);
  const auto machine = machine::load_machine("summit:1");
  const Options options;
  CandidatePool pool(model, machine, options);
  const auto from = data_parallel_with_tables_in_parts(model, pool.digits());
  const auto before = pool.enter({from})[0]->simulation.iteration;
  place_tables(pool, {from});
  EXPECT_LT(pool.result().best->simulation.iteration, 0.8 * before);
  const auto places = places_of(*pool.best_candidate(), model, pool.digits());
  EXPECT_GE(places.whole.size(), 3U);  // each on a device of its own
  EXPECT_EQ(places.whole.size() + places.in_parts, 4U);
}

// There are more tables than devices, and not a multiple of them.
TEST(TablePlacement, ShardsFewTables) {
  const auto model = fp32_model("dlrm:rows=100000", 6144);
  const auto machine = machine::load_machine("summit:1");
  const Options options;
  CandidatePool pool(model, machine, options);
  const auto from = data_parallel_with_tables_in_parts(model, pool.digits());
  const auto before = pool.enter({from})[0]->simulation.iteration;
  place_tables(pool, {from});
  EXPECT_LT(pool.result().best->simulation.iteration, before);
}

// Tables hold a small part of the weights, or there are none: nothing is tried.
TEST(TablePlacement, AppliesOnlyIfTablesAreMostOfTheWeights) {
  for (const char* name : {"bert_large:layers=2", "mlp:layers=4"}) {
    const auto model = fp32_model(name, 24);
    const auto machine = machine::load_machine("summit:1");
    const Options options;
    CandidatePool pool(model, machine, options);
    const strategies::Problem problem(model, pool.digits());
    const auto made = strategies::make_strategies({{.family = strategies::Family::kDp}}, problem);
    const Candidate from{"dp", made.at(0).choices, made.at(0).schedule};
    place_tables(pool, {from});
    EXPECT_EQ(pool.result().candidates, 0U) << name;
  }
}

// Each change is a simulation: the search ends when it may run no more.
TEST(TablePlacement, StopsWithTheSearch) {
  const auto model = fp32_model("xdl", 6144);
  const auto machine = machine::load_machine("summit:1");
  Options options;
  options.until.candidates = 5;
  CandidatePool pool(model, machine, options);
  const auto from = data_parallel_with_tables_in_parts(model, pool.digits());
  pool.enter({from});
  place_tables(pool, {from});
  EXPECT_EQ(pool.result().candidates, 5U);
  EXPECT_EQ(pool.result().stop_reason, StopReason::kCandidates);
}

}  // namespace
}  // namespace tandem::search
