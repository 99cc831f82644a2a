// Checks how software profiles change the bytes that all-to-alls send.
#include <gtest/gtest.h>

#include "lower/lower.h"
#include "models/model.h"
#include "strategies/grid.h"

namespace tandem::strategies {
namespace {

// Numbers in fp32 are sent as 16-bit ones, other types unchanged.
TEST(NarrowExchange, HalvesAllToAllsInFp32) {
  for (const auto dtype : {DType::kFp32, DType::kBf16}) {
    const auto model =
        models::parse_model("dlrm:tables=4,rows=64,dim=8,dense=4,bottom=8,top=4").build(8, dtype);
    auto machine = machine::load_machine("zionex:1");
    const auto bytes = [&] {
      auto made = make_named_strategies("madmax", model, machine::Digits(machine)).at(0);
      const machine::Digits digits(machine, made.schedule.micro_batches);
      const auto program =
          lower::lower(plan::parallelize(model, digits, made.choices, made.schedule), digits,
                       machine.device.software, plan::Optimizer::kSgd);
      Bytes exchanged, others;
      for (const auto& task : program.tasks) {
        if (task.kind != lower::TaskKind::kMove || is_local(task.step.kind)) continue;
        (task.step.kind == machine::Step::kAllToAll ? exchanged : others) +=
            count_moved_bytes(program, task);
      }
      return std::pair(exchanged, others);
    };
    const auto [exchanged, others] = bytes();
    machine.device.software.narrow_exchange = true;
    const auto [narrow, same] = bytes();
    EXPECT_GT(exchanged, Bytes{});
    EXPECT_EQ(narrow, (dtype == DType::kFp32 ? 0.5 : 1) * exchanged) << name(dtype);
    EXPECT_EQ(same, others);
  }
}

}  // namespace
}  // namespace tandem::strategies
