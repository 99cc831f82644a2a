#include "predict/cost_model.h"

#include <gtest/gtest.h>

#include "lower/lower.h"
#include "models/model.h"
#include "strategies/grid.h"

namespace tandem::predict {
namespace {

// A weight in bf16 or fp16 has itself, its gradient, a master weight and Adam's moments. It is sent
// in the gradient's type.
TEST(CostModel, CountsWeightsByPrecision) {
  const auto machine = machine::load_machine("summit:1");
  const machine::Digits digits(machine);
  const machine::Layout replicated(digits.count(), machine::DigitRole::kReplica);
  const Shape sizes = {64, 32};
  const auto cost = [&](DType dtype, bool master, bool wide) {
    CostModel costs(machine, digits, plan::Optimizer::kAdam, {master, wide});
    return costs.weight_cost(sizes, dtype, replicated);
  };
  EXPECT_EQ(cost(DType::kFp32, false, false).memory, Bytes{64 * 32 * 16});
  EXPECT_EQ(cost(DType::kFp32, true, true).memory, Bytes{64 * 32 * 16});
  EXPECT_EQ(cost(DType::kFp16, false, false).memory, Bytes{64 * 32 * 8});
  EXPECT_EQ(cost(DType::kFp16, true, false).memory, Bytes{64 * 32 * 16});
  EXPECT_EQ(cost(DType::kFp16, true, true).memory, Bytes{64 * 32 * 18});
  EXPECT_EQ(cost(DType::kFp16, true, true).async, cost(DType::kFp32, true, true).async);
  EXPECT_EQ(cost(DType::kFp16, true, false).async, cost(DType::kFp16, false, false).async);
}

// On one device, with every optimizer and precision, the cost of a linear layer's weight equals its
// buffers in the program. Plain SGD subtracts the gradient in the matmul in both or in neither.
TEST(CostModel, AgreesWithTheBuffersOfWeights) {
  const auto machine = machine::load_machine("local:1");
  const machine::Digits digits(machine);
  int subtracted = 0;
  for (const auto dtype : {DType::kFp32, DType::kFp64, DType::kFp16, DType::kBf16}) {
    const auto model = models::parse_model("mlp:layers=2,hidden=16,inputs=8").build(4, dtype);
    const auto strategy = strategies::make_named_strategies("dp", model, digits).front();
    for (const auto optimizer :
         {plan::Optimizer::kSgd, plan::Optimizer::kMomentum, plan::Optimizer::kAdam}) {
      for (const plan::Precision precision :
           {plan::Precision{}, {.master = true}, {.wide_gradients = true}, {true, true}}) {
        auto schedule = strategy.schedule;
        schedule.precision = precision;
        const auto program =
            lower::lower(plan::parallelize(model, digits, strategy.choices, schedule), digits,
                         machine.device.software, optimizer);
        CostModel costs(machine, digits, optimizer, precision);
        for (const auto& task : program.tasks) {
          const auto& weight = program.buffer(task.writes[0]);
          const bool is_matrix = weight.shard.rank() == 2;
          if (task.kind != lower::TaskKind::kUpdate || !is_matrix) continue;
          const auto& gradient = program.buffer(task.reads[1]);
          Bytes bytes;
          for (auto b : task.writes) bytes += program.buffer(b).bytes();
          if (!gradient.fused_update) bytes += gradient.bytes();
          subtracted += gradient.fused_update ? 1 : 0;
          EXPECT_EQ(costs.weight_cost(weight.sizes, dtype, weight.layout, nullptr, true).memory,
                    bytes)
              << name(dtype) << " " << name(optimizer) << " " << precision.master
              << precision.wide_gradients;
        }
      }
    }
  }
  EXPECT_GT(subtracted, 0);
}

}  // namespace
}  // namespace tandem::predict
