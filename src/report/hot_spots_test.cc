#include "report/hot_spots.h"

#include <gtest/gtest.h>

#include <map>

#include "predict/breakdown.h"
#include "report/explained_test_support.h"

namespace tandem::report {
namespace {

const char* const kGpt2 = "gpt2:layers=4,hidden=32,heads=4,ffn=64,vocab=32,seq=8";

// Checks that the exposed times equal those of the breakdown, by kind of collective and levels.
void expect_same_exposure(const ExplainedPlan& e, const std::vector<TaskTime>& times) {
  std::map<std::pair<std::string, machine::DigitMask>, double> exposed;
  for (std::size_t t = 0; t < times.size(); ++t) {
    const auto& task = e.program.tasks[t];
    if (!predict::communicates(task)) continue;
    const std::string kind(predict::get_task_kind(e.program, task));
    exposed[std::pair(kind, task.step.digits)] += times[t].exposed.value;
  }
  for (const auto& share : predict::break_down(e.program, e.simulation)) {
    if (share.is_compute()) continue;
    EXPECT_NEAR(exposed[std::pair(share.kind, share.digits)], share.exposed.value,
                1e-9 * e.simulation.iteration.value)
        << share.kind;
  }
}

TEST(HotSpots, AddUpToTheTotal) {
  for (const char* strategy : {"dp", "fsdp", "megatron:tp=2", "megatron:tp=1,pp=2,micro=4",
                               "dp:recompute=full", "fsdp:micro=2"}) {
    SCOPED_TRACE(strategy);
    const auto e = explain_plan(kGpt2, "summit:1", 96, strategy);
    const auto times = sum_task_times(e.program, e.simulation, e.simulation.busiest);
    expect_same_exposure(e, times);
    const auto near = 1e-9 * e.simulation.iteration.value;
    Seconds by_node;
    for (const auto& time : sum_times_by_node(e.program, times)) by_node += time.total();
    EXPECT_NEAR(by_node.value, e.simulation.compute.value, near);
    Seconds by_operator;
    for (const auto& time : sum_times_by_operator(e.program, times)) by_operator += time.total();
    EXPECT_NEAR(by_operator.value, e.simulation.compute.value, near);
    Seconds exposed;
    for (const auto& t : sum_transfers_by_tensor(e.program, times)) exposed += t.exposed;
    EXPECT_NEAR(exposed.value, e.simulation.exposed_comm.value, near);
    const auto memory = e.view().memory().needs;
    Bytes held;
    for (const auto& group : list_tensors_at_peak(e.program, memory)) held += group.bytes;
    EXPECT_NEAR(held.value, (memory.peak - memory.unused).value, 5);
  }
}

TEST(HotSpots, GroupEqualLayers) {
  const auto e = explain_plan("mlp:layers=4,hidden=64,inputs=64,outputs=64", "local:2", 8, "dp");
  const auto times = sum_task_times(e.program, e.simulation, e.simulation.busiest);
  const auto nodes = sum_times_by_node(e.program, times);
  std::map<std::string, std::string> groups;
  for (const auto& time : nodes) groups[time.group.text()] = time.op;
  const std::map<std::string, std::string> expected = {
      {"linear* x4", "linear"}, {"relu* x3", "relu"}, {"loss", "mse"}, {"w* x4", "weight update"}};
  EXPECT_EQ(groups, expected);
  const auto transfers = sum_transfers_by_tensor(e.program, times);
  ASSERT_EQ(transfers.size(), 1U);
  EXPECT_EQ(transfers[0].what, "all_reduce of the gradient of w*");
  EXPECT_EQ(transfers[0].times, 4);
}

}  // namespace
}  // namespace tandem::report
