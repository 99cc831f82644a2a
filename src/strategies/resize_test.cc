// Compares programs resized for another batch with those lowered for it.
#include <gtest/gtest.h>

#include "lower/lower.h"
#include "lower/resize_program.h"
#include "models/model.h"
#include "plan/parallelize.h"
#include "strategies/grid.h"

namespace tandem::strategies {
namespace {

using lower::Program;

struct Lowered {
  plan::MappedGraph mapped;
  Program program;
};

Lowered lower_named(const std::string& model, const std::string& strategy, std::int64_t batch,
                    plan::Optimizer optimizer) {
  const auto machine = machine::load_machine("dgx_a100:2");
  const auto graph = models::parse_model(model).build(batch, DType::kBf16);
  const auto named =
      strategies::make_named_strategies(strategy, graph, machine::Digits(machine))[0];
  const machine::Digits digits(machine, named.schedule.micro_batches);
  auto mapped = plan::parallelize(graph, digits, named.choices, named.schedule);
  auto program = lower::lower(mapped, digits, machine.device.software, optimizer);
  return {std::move(mapped), std::move(program)};
}

void expect_same(const Program& a, const Program& b) {
  EXPECT_EQ(to_text(a), to_text(b));
  EXPECT_EQ(a.pcg.identity_hash(), b.pcg.identity_hash());
  ASSERT_EQ(a.buffers.size(), b.buffers.size());
  for (std::size_t i = 0; i < a.buffers.size(); ++i) {
    const auto& x = a.buffers[i];
    const auto& y = b.buffers[i];
    SCOPED_TRACE(b.pcg.node(y.node).name);
    EXPECT_EQ(x.kind, y.kind);
    EXPECT_EQ(x.node, y.node);
    EXPECT_EQ(x.layout, y.layout);
    EXPECT_EQ(x.sizes, y.sizes);
    EXPECT_EQ(x.shard, y.shard);
    EXPECT_EQ(x.dtype, y.dtype);
    EXPECT_EQ(x.density, y.density);
    EXPECT_EQ(x.each, y.each);
    EXPECT_EQ(x.is_mask, y.is_mask);
    EXPECT_EQ(x.reserved, y.reserved);
    EXPECT_EQ(x.shared, y.shared);
    EXPECT_EQ(x.sparse_elements, y.sparse_elements);
    EXPECT_EQ(x.windows, y.windows);
  }
  ASSERT_EQ(a.tasks.size(), b.tasks.size());
  for (std::size_t t = 0; t < a.tasks.size(); ++t) {
    const auto& x = a.tasks[t];
    const auto& y = b.tasks[t];
    EXPECT_EQ(x.kind, y.kind);
    EXPECT_EQ(x.node, y.node);
    EXPECT_EQ(x.when, y.when);
    EXPECT_EQ(x.saved, y.saved);
    EXPECT_EQ(x.reads, y.reads);
    EXPECT_EQ(x.writes, y.writes);
    EXPECT_EQ(x.operands, y.operands);
  }
}

constexpr const char* kGpt = "gpt2:layers=3,hidden=256,heads=16,ffn=512,seq=64,vocab=512";
constexpr const char* kDropout =
    "gpt2:layers=3,hidden=256,heads=16,ffn=512,seq=64,vocab=512,dropout=true";
constexpr const char* kLlama = "llama3_8b:layers=3,hidden=256,heads=16,kv_heads=8,ffn=512,seq=64";

TEST(LowerResize, EqualsLoweringForTheOtherBatch) {
  for (const char* model : {kGpt, kDropout, kLlama}) {
    for (const char* strategy :
         {"dp", "fsdp", "deepspeed:zero=2,micro=4", "megatron:tp=8", "megatron:tp=4,sp,micro=2",
          "megatron:tp=2,cp=2,dp=4", "megatron:tp=2,dp=8,micro=2,recompute=selective",
          "megatron:tp=2,sp,dp=8,recompute=full"}) {
      for (auto optimizer : {plan::Optimizer::kSgd, plan::Optimizer::kAdam}) {
        SCOPED_TRACE(std::string(model) + " " + strategy);
        auto small = lower_named(model, strategy, 64, optimizer);
        const auto large = lower_named(model, strategy, 256, optimizer);
        ASSERT_TRUE(resize_program(small.program, small.mapped, large.mapped));
        expect_same(small.program, large.program);
      }
    }
  }
}

TEST(LowerResize, RefusesUnequalTasks) {
  const auto refuses = [](const std::string& model, const std::string& other,
                          const std::string& strategy, const std::string& other_strategy,
                          std::int64_t batch = 64) {
    SCOPED_TRACE(model + " " + strategy + ", " + other + " " + other_strategy);
    auto program = lower_named(model, strategy, batch, plan::Optimizer::kAdam);
    const auto text = to_text(program.program);
    const auto to = lower_named(other, other_strategy, 2 * batch, plan::Optimizer::kAdam);
    EXPECT_FALSE(resize_program(program.program, program.mapped, to.mapped));
    EXPECT_EQ(to_text(program.program), text);
  };
  refuses(kGpt, kGpt, "dp", "fsdp");
  refuses(kGpt, kGpt, "dp", "dp:recompute=full");
  refuses(kGpt, kGpt, "dp", "dp:micro=2");
  refuses(kGpt, kGpt, "megatron:tp=2", "megatron:tp=4");
  refuses(kGpt, kDropout, "dp", "dp");
  refuses(kGpt, kGpt, "fsdp:bucket=25MB", "fsdp:bucket=25MB");
  refuses("resnet50", "resnet50", "dp", "dp", 512);  // convolutions read windows
}

}  // namespace
}  // namespace tandem::strategies
