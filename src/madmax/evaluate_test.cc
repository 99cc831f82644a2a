// Comparison with the paper, and with the public code's output if it is available.
#include "madmax/evaluate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "madmax/published_test_support.h"

namespace tandem::madmax {
namespace {

constexpr double kOnePercent = 0.01;

void expect_near(double value, double published, double tolerance) {
  EXPECT_NEAR(value / published, 1, tolerance) << value << " for " << published;
}

// ---- The paper ----------------------------------------------------------------------------------

IterationResult train_dlrm(const Model& model, const LayerStrategy& mlp, double batch,
                           const System& system) {
  return evaluate(model, system, recommendation_task(Purpose::kPretrain, mlp, batch, system));
}

// Table 1: data-parallel MLPs, distributed tables, 64 K samples on 128 A100.
TEST(MadMax, TableOneDlrmA) {
  const auto system = a100_system(128);
  const auto r = train_dlrm(dlrm_a(), flat(Method::kReplicate, system), 65536, system);
  expect_near(r.serialized().value, 65.3e-3, kOnePercent);
  expect_near(100 * r.exposed_share(), 75.46, kOnePercent);
  expect_near(r.throughput(), 1.21e6, kOnePercent);
}

// 256 K samples, 3.06 M per second. The paper does not state the strategy; FSDP and DDP bracket it.
TEST(MadMax, TableOneDlrmB) {
  const auto system = a100_system(128);
  for (const auto method : {Method::kShard, Method::kReplicate}) {
    expect_near(train_dlrm(dlrm_b(), flat(method, system), 262144, system).throughput(), 3.06e6,
                0.04);
  }
}

// GPU hours of 306,000 steps, days for 1.4 T tokens, on 2048 A100.
TEST(MadMax, TableOneLlama) {
  const auto system = a100_system(2048);
  const auto model = llama_65b();
  const auto strategy = nested(Method::kShard, Method::kReplicate, system);
  const auto r = evaluate(model, system, language_task(model, strategy, 2048, system));
  constexpr double kHour = 3600;
  expect_near(306e3 * r.iteration.value * system.devices / kHour, 863397, kOnePercent);
  const double steps = 1.4e12 / (2048 * model.transformer.tokens);
  expect_near(steps * r.iteration.value / (24 * kHour), 19.21, kOnePercent);
}

// Figure 9: throughput relative to FSDP.
TEST(MadMax, FigureNineDlrmA) {
  const auto system = a100_system(128);
  const auto throughput = [&](const LayerStrategy& mlp) {
    return train_dlrm(dlrm_a(), mlp, 65536, system).throughput();
  };
  const double fsdp = throughput(flat(Method::kShard, system));
  const auto nested_tp = nested(Method::kTensor, Method::kReplicate, system);
  expect_near(throughput(nested_tp) / fsdp, 1.14, 0.02);
  expect_near(throughput(flat(Method::kTensor, system)) / fsdp, 0.19, 0.02);
}

// Figure 8: the best strategy relative to FSDP for DLRM-A-MoE, 2.24 in training and 5.27 in
// inference.
TEST(MadMax, FigureEightExperts) {
  const auto system = a100_system(128);
  const auto model = with_experts(dlrm_a());
  const auto best_over_fsdp = [&](Purpose purpose) {
    const auto throughput = [&](const LayerStrategy& mlp) {
      return evaluate(model, system, recommendation_task(purpose, mlp, 65536, system)).throughput();
    };
    const double fsdp = throughput(flat(Method::kShard, system));
    return std::max({throughput(flat(Method::kReplicate, system)),
                     throughput(nested(Method::kTensor, Method::kReplicate, system)),
                     throughput(nested(Method::kReplicate, Method::kTensor, system))}) /
           fsdp;
  };
  expect_near(best_over_fsdp(Purpose::kPretrain), 2.24, kOnePercent);
  expect_near(best_over_fsdp(Purpose::kInference), 5.27, kOnePercent);
}

// Section 5: (TP, DDP) 1.34, DDP 1.68 without the memory limit, (DDP, TP) 0.18.
TEST(MadMax, Gpt3OverFsdp) {
  const auto system = a100_system(2048);
  const auto throughput = [&](const LayerStrategy& strategy) {
    return evaluate(gpt3(), system, language_task(gpt3(), strategy, 2048, system)).throughput();
  };
  const double fsdp = throughput(flat(Method::kShard, system));
  const auto tensor_inside = nested(Method::kTensor, Method::kReplicate, system);
  const auto tensor_across = nested(Method::kReplicate, Method::kTensor, system);
  expect_near(throughput(tensor_inside) / fsdp, 1.34, kOnePercent);
  expect_near(throughput(flat(Method::kReplicate, system)) / fsdp, 1.68, kOnePercent);
  expect_near(throughput(tensor_across) / fsdp, 0.18, 0.02);
}

// ---- Properties ---------------------------------------------------------------------------------

TEST(MadMax, BoundsTheIterationByTheBusierStreamAndTheSum) {
  const auto system = a100_system(128);
  const auto strategies = {flat(Method::kShard, system), flat(Method::kReplicate, system),
                           flat(Method::kTensor, system),
                           nested(Method::kShard, Method::kTensor, system)};
  for (const auto& strategy : strategies) {
    for (const auto& r :
         {train_dlrm(dlrm_a(), strategy, 65536, system),
          evaluate(gpt3(), system, language_task(gpt3(), strategy, 2048, system))}) {
      const auto busier = std::max(r.compute(), r.communication());
      EXPECT_GE(r.iteration.value, busier.value * (1 - 1e-12));
      EXPECT_LE(r.iteration.value, r.serialized().value * (1 + 1e-12));
    }
  }
}

TEST(MadMax, ExposesNothingWithoutCommunication) {
  const auto system = a100_system(8);
  auto task = language_task(gpt3(), flat(Method::kReplicate, system), 64, system);
  task.purpose = Purpose::kInference;
  const auto r = evaluate(gpt3(), system, task);
  EXPECT_EQ(r.communication(), Seconds{});
  EXPECT_EQ(r.exposed(), Seconds{});
  EXPECT_EQ(r.exposed_share(), 0);
  // 96 blocks of 4 d^2 + 2 d ff values of 2 bytes, tokens and positions.
  expect_near(r.weights.value,
              2.0 * (96 * (4.0 * 12288 * 12288 + 2.0 * 12288 * 49152) + 12288.0 * (50257 + 2048)),
              1e-12);
}

// ---- The public code's output -------------------------------------------------------------------

std::map<std::string, double> to_recorded_keys(const IterationResult& r) {
  const auto ms = [](Seconds time) { return time.value * 1e3; };
  const auto& t = r.totals;
  return {{"global_bs", r.global_batch},
          {"iter_ms", ms(r.iteration)},
          {"qps", r.throughput()},
          {"gemm_ms", ms(t.get_time(Compute::kGemm))},
          {"emb_ms", ms(t.get_time(Compute::kEmbedding))},
          {"all2all_ms", ms(t.get_time(Collective::kAllToAll))},
          {"allreduce_ms", ms(t.get_time(Collective::kAllReduce))},
          {"allgather_ms", ms(t.get_time(Collective::kAllGather))},
          {"reducescatter_ms", ms(t.get_time(Collective::kReduceScatter))},
          {"exposed_ms", ms(r.exposed())},
          {"exposed_pct", 100 * r.exposed_share()},
          {"overlapped_ms", ms(r.overlapped())},
          {"serialized_ms", ms(r.serialized())},
          {"weight_gb_per_device", r.weights.value / 1e9}};
}

// Records {model_cfg, system_cfg, task_cfg, out} of the public code. They may not be distributed
// with Tandem. They are read from $TANDEM_SHARED/madmax, by default next to the repository.
TEST(MadMax, EveryRecord) {
  const char* shared = std::getenv("TANDEM_SHARED");
  const auto directory =
      std::filesystem::path(shared != nullptr ? shared : TANDEM_SOURCE_DIR "/../shared");
  std::ifstream file(directory / "madmax" / "recorded.json");
  if (!file) GTEST_SKIP() << "no records in " << directory / "madmax";
  const auto records = nlohmann::json::parse(file);
  for (std::size_t i = 0; i < records.size(); ++i) {
    const auto& record = records[i];
    const auto model = parse_model(record["model_cfg"].dump(), "model");
    const auto system = parse_system(record["system_cfg"].dump(), "system");
    const auto task = parse_task(record["task_cfg"].dump(), "task", model, system);
    const auto& published = record["out"];
    // Differences of sums are compared relative to the sums.
    const double rounding = 1e-9 * published["serialized_ms"].get<double>();
    for (const auto& [key, value] : to_recorded_keys(evaluate(model, system, task))) {
      const auto expected = published[key].get<double>();
      EXPECT_NEAR(value, expected, std::max(1e-6 * std::abs(expected), rounding))
          << key << " of record " << i << ", " << model.name;
    }
  }
}

}  // namespace
}  // namespace tandem::madmax
