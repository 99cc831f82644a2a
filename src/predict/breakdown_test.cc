// Tests the breakdown on timelines written by hand, and its sums on random plans.
#include "predict/breakdown.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "lower/lower.h"
#include "plan/random_choices_test_support.h"
#include "predict/breakdown_test_support.h"

namespace tandem::predict {
namespace {

using lower::Program;

machine::Machine ordinary_machine(const std::vector<std::int64_t>& counts) {
  auto m = plan::make_machine(counts);
  m.device.peak = {{DType::kFp32, FlopsPerSecond{1e9}}};
  m.device.bandwidth = BytesPerSecond{1e9};
  m.device.launch = Seconds{1e-6};
  for (auto& level : m.levels) {
    level.bandwidth = BytesPerSecond{1e9};
    level.latency = Seconds{1e-6};
  }
  return m;
}

Program random_program(const std::vector<std::int64_t>& counts, std::uint64_t seed) {
  const auto digits = plan::make_digits(counts);
  const auto model = plan::random_model(digits.devices(), seed);
  const auto choices = plan::random_choices(model, digits, seed);
  return lower::lower(plan::parallelize(model, digits, choices), digits, {}, plan::Optimizer::kSgd);
}

bool has_kind(const Program& program, std::string_view kind) {
  return std::ranges::any_of(
      program.tasks, [&](const auto& task) { return get_task_kind(program, task) == kind; });
}

// Returns a program that has tasks of these kinds.
Program program_with(const std::vector<std::string_view>& kinds) {
  for (std::uint64_t seed = 0;; ++seed) {
    auto program = random_program({2, 2}, seed);
    const auto has = [&](auto kind) { return has_kind(program, kind); };
    if (std::ranges::all_of(kinds, has)) return program;
  }
}

std::uint32_t task_of_kind(const Program& program, std::string_view kind) {
  for (std::uint32_t t = 0; t < program.tasks.size(); ++t) {
    if (get_task_kind(program, program.tasks[t]) == kind) return t;
  }
  ADD_FAILURE() << "no task of kind " << kind;
  return 0;
}

TEST(Breakdown, SharesJointlyExposedTime) {
  const auto program = program_with({"compute", "all_gather", "reduce_scatter"});
  const auto compute = task_of_kind(program, "compute");
  const auto gather = task_of_kind(program, "all_gather");
  const auto scatter = task_of_kind(program, "reduce_scatter");
  //            0  1  2  3  4  5  6  7  8  9
  // compute    [-----------]
  // gather           [-----------]
  // scatter                   [--------]       idle from 8 to 9
  Simulation s;
  s.iteration = Seconds{9};
  const auto span = [&](std::uint32_t task, double start, double end, std::uint32_t of = 0) {
    s.timeline.push_back({task, 0, of, task == compute ? 0U : 1U, Seconds{start}, Seconds{end}, 0});
  };
  span(compute, 0, 4);
  span(gather, 2, 6);
  span(scatter, 5, 8);
  span(scatter, 0, 9, 1);  // of another class
  const auto shares = break_down(program, s);
  ASSERT_EQ(shares.size(), 3U);
  EXPECT_EQ(shares[0].kind, "compute");
  EXPECT_EQ(shares[0].serialized, Seconds{4});
  EXPECT_EQ(shares[0].exposed, Seconds{2});
  EXPECT_EQ(shares[1].kind, "all_gather");
  EXPECT_EQ(shares[1].serialized, Seconds{4});
  EXPECT_EQ(shares[1].exposed, Seconds{1 + 0.5});
  EXPECT_EQ(shares[1].overlapped(), Seconds{2.5});
  EXPECT_EQ(shares[1].digits, program.tasks[gather].step.digits);
  EXPECT_EQ(shares[1].bytes, count_moved_bytes(program, program.tasks[gather]));
  EXPECT_EQ(shares[2].kind, "reduce_scatter");
  EXPECT_EQ(shares[2].exposed, Seconds{0.5 + 2});
}

TEST(Breakdown, WrapsTasksAroundTheIteration) {
  const auto program = program_with({"compute", "all_reduce"});
  Simulation s;
  s.iteration = Seconds{10};
  s.timeline = {{task_of_kind(program, "compute"), 0, 0, 0, Seconds{1}, Seconds{9}, 0},
                {task_of_kind(program, "all_reduce"), 0, 0, 1, Seconds{8}, Seconds{12}, 0}};
  const auto shares = break_down(program, s);
  EXPECT_EQ(shares[1].serialized, Seconds{4});
  EXPECT_EQ(shares[1].exposed, Seconds{2});  // from 9 to 10 and from 0 to 1
}

// The shares sum to the totals that the simulator computes separately.
TEST(Breakdown, AddsUpToTheIteration) {
  int exposed = 0;
  for (const auto& counts : std::vector<std::vector<std::int64_t>>{{2}, {2, 2}, {2, 3}}) {
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
      SCOPED_TRACE(seed);
      const auto program = random_program(counts, seed);
      const auto s = simulate(program, ordinary_machine(counts));
      expect_adds_up(break_down(program, s), s);
      exposed += s.exposed_comm > Seconds{} ? 1 : 0;
    }
  }
  EXPECT_GT(exposed, 100);
}

}  // namespace
}  // namespace tandem::predict
