#include "search/neighbours/partial_saving.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "models/model.h"
#include "strategies/grid.h"

namespace tandem::search {
namespace {

struct Ends {
  graph::Graph model =
      models::parse_model("gpt2:layers=6,hidden=64,heads=4").build(64, DType::kFp32);
  machine::Machine machine = machine::load_machine("dgx_a100:1");
  Options options = {};
  CandidatePool pool{model, machine, options};

  struct Pair {
    EvaluatedCandidate faster;
    EvaluatedCandidate fits;
  };
  Pair between(const std::string& faster, const std::string& fits) {
    const strategies::Problem problem(model, pool.digits());
    const auto a = make_strategies({strategies::parse_setting(faster)}, problem).at(0);
    const auto b = make_strategies({strategies::parse_setting(fits)}, problem).at(0);
    return {{make_candidate(a), {}}, {make_candidate(b), {}}};
  }
};

std::size_t count_recomputed(const std::vector<plan::Choice>& choices) {
  return static_cast<std::size_t>(std::ranges::count_if(choices, &plan::Choice::recompute));
}

TEST(PartialSaving, MixesOperatorByOperator) {
  Ends ends;
  const auto between = ends.between("dp", "dp:recompute=full");
  EXPECT_EQ(mix_all_stages(ends.model, between.faster.candidate.choices,
                           between.fits.candidate.choices, 0),
            between.faster.candidate.choices);
  EXPECT_EQ(mix_all_stages(ends.model, between.faster.candidate.choices,
                           between.fits.candidate.choices, 1),
            between.fits.candidate.choices);
  const auto half = mix_all_stages(ends.model, between.faster.candidate.choices,
                                   between.fits.candidate.choices, 0.5);
  const auto all = count_recomputed(between.fits.candidate.choices);
  EXPECT_NEAR(static_cast<double>(count_recomputed(half)), static_cast<double>(all) / 2,
              static_cast<double>(all) / 8);
  // The first operators recompute.
  std::size_t last = 0;
  for (std::size_t n = 0; n < half.size(); ++n) last = half[n].recompute ? n : last;
  EXPECT_LT(static_cast<double>(last), 0.6 * static_cast<double>(half.size()));
}

// A weight is stored as its first reader stores it.
TEST(PartialSaving, MovesSourcesWithTheirReaders) {
  Ends ends;
  const auto between = ends.between("dp", "fsdp");
  const auto half = mix_all_stages(ends.model, between.faster.candidate.choices,
                                   between.fits.candidate.choices, 0.5);
  std::size_t in_parts = 0;
  std::size_t whole = 0;
  for (auto id : ends.model.ids()) {
    const auto n = id.index();
    if (between.faster.candidate.choices[n] == between.fits.candidate.choices[n]) continue;
    (half[n] == between.fits.candidate.choices[n] ? in_parts : whole) += 1;
  }
  EXPECT_GT(in_parts, 10U);
  EXPECT_GT(whole, 10U);
}

// Every stage of a pipeline recomputes its first operators.
TEST(PartialSaving, GivesEveryStageItsShare) {
  Ends ends;
  const auto between = ends.between("megatron:tp=1,pp=2,micro=4,dp=4",
                                    "megatron:tp=1,pp=2,micro=4,dp=4,recompute=full");
  const auto half = mix_all_stages(ends.model, between.faster.candidate.choices,
                                   between.fits.candidate.choices, 0.5);
  std::array<std::size_t, 2> counts{};
  for (const auto& choice : half) counts.at(choice.stage) += choice.recompute ? 1 : 0;
  EXPECT_GT(counts[0], 5U);
  EXPECT_GT(counts[1], 5U);
}

TEST(PartialSaving, FindsTheLeastShareThatFits) {
  Ends ends;
  auto between = ends.between("dp", "dp:recompute=full");
  Options roomy;
  CandidatePool costs(ends.model, ends.machine, roomy);
  const auto enter = [&](const std::vector<plan::Choice>& choices) {
    return costs.enter({{"end", choices, between.fits.candidate.schedule}})[0].value();
  };
  const auto faster = enter(between.faster.candidate.choices);
  const auto fits = enter(between.fits.candidate.choices);
  Options tight;
  tight.memory = (faster.simulation.memory + fits.simulation.memory) / 2;
  between.faster.evaluated.over = faster.simulation.memory - *tight.memory;
  between.fits.evaluated.over = fits.simulation.memory - *tight.memory;
  CandidatePool pool(ends.model, ends.machine, tight);
  enter_between(pool, "between", between.faster, between.fits, 6);
  ASSERT_TRUE(pool.result().best.has_value());
  const auto& best = pool.result().best->simulation;
  EXPECT_GT(best.memory, 0.95 * *tight.memory);
  EXPECT_LT(best.iteration, fits.simulation.iteration);
  EXPECT_GT(best.iteration, faster.simulation.iteration);
}

}  // namespace
}  // namespace tandem::search
