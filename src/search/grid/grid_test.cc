#include "search/grid/grid.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"
#include "base/fewer_test_support.h"
#include "search/evaluated.h"
#include "search/grid/folded_grid_model.h"

namespace tandem::search {
namespace {

using strategies::Family;
using strategies::Setting;

struct GridQuestion {
  const char* model;
  const char* machine;
  std::int64_t batch;
  double near = 1.3;
};

// Returns every strategy one by one, from loops that use no bounds.
std::vector<Setting> all_settings(const strategies::Problem& problem, std::int64_t batch,
                                  std::int64_t layers) {
  std::vector<Setting> out = {{.family = Family::kFsdp}};
  const auto devices = problem.digits.devices();
  for (std::int64_t tp = 1; tp <= devices; ++tp) {
    for (std::int64_t pp = 1; tp * pp <= devices && pp <= layers; ++pp) {
      for (std::int64_t cp = 1; tp * pp * cp <= devices; ++cp) {
        if (devices % (tp * pp * cp) != 0) continue;
        const auto dp = devices / (tp * pp * cp);
        for (std::int64_t size = 1; batch % dp == 0 && size <= batch / dp; size *= 2) {
          if (batch / dp % size != 0) continue;
          const auto micro = batch / dp / size;
          for (const std::int64_t v : {1, 2, 3}) {
            if (v > 1 && (pp == 1 || micro % pp != 0)) continue;
            for (const std::int64_t zero : {0, 1, 2, 3}) {
              using strategies::Recompute;
              for (const auto recompute :
                   {Recompute::kNone, Recompute::kSaveMatmuls, Recompute::kFull}) {
                for (const bool sp : {false, true}) {
                  if (sp && tp == 1) continue;
                  Setting s{.family = Family::kMegatron, .tp = {tp}, .dp = dp, .sp = sp};
                  s.pp = pp;
                  s.cp = cp;
                  s.interleave = v;
                  if (zero > 0) s.zero = zero;
                  if (micro > 1 || pp > 1) s.micro = micro;
                  s.recompute = recompute;
                  out.push_back(std::move(s));
                }
              }
            }
          }
        }
      }
    }
  }
  return out;
}

double fastest(const std::vector<Evaluated>& evaluated) {
  double out = std::numeric_limits<double>::infinity();
  for (const auto& e : evaluated) {
    if (e.feasible) out = std::min(out, e.time().value);
  }
  return out;
}

// Returns the largest ratio of a strategy's lower bound to its time. Above 1 a bound is wrong.
double closest_bound(const GridResult& result) {
  double out = 0;
  for (const auto& e : result.evaluated) {
    out = std::max(out, e.bound / e.time().value);
  }
  return out;
}

class AskedGrid {
 public:
  explicit AskedGrid(const GridQuestion& q, Bytes memory)
      : model_(models::parse_model(q.model)),
        machine_(machine::load_machine(q.machine)),
        digits_(machine_),
        graph_(model_.build(q.batch, DType::kBf16)),
        problem_(graph_, digits_) {
    on = {.values = {},
          .problem = &problem_,
          .machine = &machine_,
          .batch = q.batch,
          .optimizer = plan::Optimizer::kAdam,
          .limits = {memory},
          .network = &model_,
          .dtype = DType::kBf16};
  }
  [[nodiscard]] const strategies::Problem& problem() const { return problem_; }
  [[nodiscard]] std::int64_t layers() const { return model_.settings.size("layers"); }

  Case on;

 private:
  models::ConfiguredModel model_;
  machine::Machine machine_;
  machine::Digits digits_;
  graph::Graph graph_;
  strategies::Problem problem_;
};

const std::vector<GridQuestion> kQuestions = {
    {"gpt2:layers=12,hidden=1024,heads=16,ffn=4096,seq=1024,vocab=8192", "dgx_a100:1", 32},
    {"llama3_8b:layers=10,hidden=1024,heads=16,kv_heads=8,ffn=4096,seq=1024,vocab=8192",
     "dgx_h100:1", 16},
    {"gpt2:layers=9,hidden=2048,heads=16,ffn=8192,seq=512,vocab=8192", "dgx_a100:3", 24},
};

std::vector<Setting> possible_settings(const AskedGrid& asked) {
  std::vector<Setting> out;
  for (auto& s : all_settings(asked.problem(), asked.on.batch, asked.layers())) {
    try {
      const auto complete = strategies::complete(s, asked.problem());
      out.insert(out.end(), complete.begin(), complete.end());
    } catch (const UserError&) {  // these devices cannot be grouped
    }
  }
  return out;
}

// Pruned strategies are slower: none of the whole grid is faster than the best evaluated one, with
// much memory and with little.
TEST(Grid, OmitsNothingFaster) {
  unsigned round = 0;
  for (const auto& question : kQuestions) {
    for (const double memory : {80e9, 3e9, 1e9}) {
      if (round++ % kFewer != 0) continue;
      AskedGrid asked(question, Bytes{memory});
      Estimates estimates(asked.on);
      FoldedGridModel model(asked.on, estimates);
      const auto result = evaluate_grid(asked.on, model, {.near = 1});
      const auto& found = result.evaluated;
      EXPECT_LE(closest_bound(result), 1.002) << question.model << " on " << question.machine;
      const auto possible = possible_settings(asked);
      const auto all = estimate_all(estimates, possible);
      EXPECT_LE(fastest(found), fastest(all))
          << question.model << " on " << question.machine << " with " << memory
          << " bytes: " << found.size() << " of " << possible.size() << " evaluated";
      EXPECT_LT(found.size(), possible.size() / 2) << question.model;
    }
  }
}

// Checks not only strategies near the best: strategies far from it are evaluated, too.
TEST(Grid, BoundsEveryStrategyFromBelow) {
  const std::vector<GridQuestion> questions = {
      {"llama3_8b", "dgx_h100:3", 512},
      {"llama3_70b", "dgx_h100:10,software=megatron", 512},
      {"llama3_8b", "dgx_h100:2,software=torchtitan", 128},
      {"mixtral_8x7b", "dgx_h100:4", 64},
      {"gpt2", "dgx_a100:4,software=megatron-deepspeed", 128},
      {"bert_large", "dgx_a100:3", 96},
      // Gradients of every micro-batch are exposed here, in addition to tensor parallel
      // communication.
      {"llama3_70b:layers=12", "dgx_v100:2", 48, 2.5},
      // Stages end inside layers, where gradients are summed over tensor parallel devices.
      {"mixtral_8x7b:layers=4,vocab=32768", "summit:9", 64, 1.5},
  };
  unsigned round = 0;
  for (const auto& question : questions) {
    if (round++ % kFewer != 0) continue;
    AskedGrid asked(question, Bytes{76e9});
    Estimates estimates(asked.on);
    FoldedGridModel model(asked.on, estimates);
    const auto result = evaluate_grid(asked.on, model, {.near = question.near});
    EXPECT_LE(closest_bound(result), 1.0001) << question.model << " on " << question.machine;
    EXPECT_GT(closest_bound(result), 0.8) << question.model << " on " << question.machine;
  }
}

// A strategy with more micro-batches could not become a plan.
TEST(Grid, LimitsMicroBatchesToThoseSimulated) {
  AskedGrid asked(
      {"gpt2:layers=4,hidden=256,heads=4,ffn=512,seq=64,vocab=512", "dgx_a100:1", 1U << 20U},
      Bytes{30e9});
  Estimates estimates(asked.on);
  for (const bool smallest : {false, true}) {
    FoldedGridModel model(asked.on, estimates);
    const auto found = evaluate_grid(asked.on, model, {.smallest = smallest}).evaluated;
    ASSERT_FALSE(found.empty());
    const auto most = get_max_micro_batches(asked.problem().model);
    for (const auto& e : found) EXPECT_LE(e.setting->micro.value_or(1), most) << e.name;
  }
}

// Bounds are computed with more samples than a step has, up to the largest possible tensors.
TEST(Grid, AcceptsBatchesOfManyLongSequences) {
  AskedGrid asked({"mixtral_8x7b:layers=4,seq=65536", "dgx_h100:32", 512}, Bytes{76e9});
  Estimates estimates(asked.on);
  FoldedGridModel model(asked.on, estimates);
  const auto found = evaluate_grid(asked.on, model, {});
  EXPECT_LT(fastest(found.evaluated), std::numeric_limits<double>::infinity());
}

double least_memory(const std::vector<Evaluated>& evaluated) {
  double out = std::numeric_limits<double>::infinity();
  for (const auto& e : evaluated) out = std::min(out, e.simulation.memory.value);
  return out;
}

std::string smallest_of(const std::vector<Evaluated>& evaluated) {
  if (evaluated.empty()) return "nothing";
  return std::ranges::min(evaluated, {}, [](const auto& e) { return e.simulation.memory; }).name;
}

// If nothing fits, no strategy of the whole grid needs noticeably less memory than the one found.
// This also holds if some dimensions cannot be divided by all devices. Strategies that nominally
// shard the most then store the most.
TEST(Grid, FindsTheLeastMemoryIfNothingFits) {
  auto questions = kQuestions;
  questions.insert(
      questions.end(),
      {{"mixtral_8x7b:layers=6,hidden=1536,heads=12,kv_heads=4,ffn=4096,seq=2048,vocab=8192",
        "summit:3", 36},
       {"mixtral_8x7b:layers=5,hidden=1024,heads=16,ffn=3584,experts=4,seq=4096,vocab=8192",
        "summit:5", 60},
       {"gpt2:layers=10,hidden=1280,heads=20,ffn=5120,seq=1024,vocab=8192", "dgx_a100:5", 40},
       {"llama3_8b:layers=14,hidden=1792,heads=14,kv_heads=2,ffn=4864,seq=2048,vocab=8192",
        "dgx_h100:7", 56}});
  unsigned round = 0;
  for (const auto& question : questions) {
    if (round++ % kFewer != 0) continue;
    AskedGrid asked(question, Bytes{1e6});
    Estimates estimates(asked.on);
    const auto everything = estimate_all(estimates, possible_settings(asked));
    const auto all = least_memory(everything);
    for (const bool smallest : {false, true}) {
      FoldedGridModel model(asked.on, estimates);
      const auto found = evaluate_grid(asked.on, model, {.smallest = smallest}).evaluated;
      for (const auto& e : found) EXPECT_FALSE(e.feasible);
      EXPECT_LE(least_memory(found), 1.02 * all)
          << question.model << " on " << question.machine << ": " << smallest_of(found) << " for "
          << smallest_of(everything) << " of " << found.size() << " evaluated";
    }
  }
}

// The search for the least memory ends with the first strategy that surely fits.
TEST(Grid, StopsAtTheFirstFitIfOnlyMemoryMatters) {
  AskedGrid asked(kQuestions[0], Bytes{60e9});
  Estimates estimates(asked.on);
  FoldedGridModel model(asked.on, estimates);
  const auto found = evaluate_grid(asked.on, model, {.smallest = true}).evaluated;
  ASSERT_EQ(found.size(), 1);
  EXPECT_TRUE(found[0].feasible);
}

}  // namespace
}  // namespace tandem::search
