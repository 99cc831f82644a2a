#include "report/mapped_model.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "graph/text.h"
#include "lower/lower.h"
#include "plan/random_choices_test_support.h"
#include "report/dot.h"
#include "report/mapped_text.h"

namespace tandem::report {
namespace {

using plan::Order;

// Checks that the view shows all communication and all weights of the program exactly once.
void expect_nothing_lost(const lower::Program& program, const MappedModel& mapped) {
  double sent = 0;
  for (const auto& task : program.tasks) {
    const bool moves = task.kind == lower::TaskKind::kMove || task.kind == lower::TaskKind::kSend;
    if (!moves || is_local(task.step.kind)) continue;
    const auto times = task.when == lower::When::kEach ? program.digits.micro_batches() : 1;
    sent += static_cast<double>(times) * count_moved_bytes(program, task).value;
  }
  double weights = 0;
  for (const auto& buffer : program.buffers) {
    if (buffer.kind == lower::BufferKind::kWeight) weights += buffer.bytes().value;
  }
  for (const auto& node : mapped.nodes) {
    for (const auto& move : node.moves) {
      sent -= static_cast<double>(move.times) * move.bytes.value;
    }
    weights -= node.weights.value;
  }
  EXPECT_EQ(sent, 0);
  EXPECT_EQ(weights, 0);
}

TEST(MappedModel, CoversAllTasksOfRandomPrograms) {
  struct Case {
    std::vector<std::int64_t> counts;
    machine::DigitMask ranks;  // the pipeline's digits; the first digit is time, if any
    std::int64_t micro_batches, stages;
  };
  const std::vector<Case> cases = {
      {{2, 3}, 0, 1, 1}, {{2, 2}, 0b10, 2, 2}, {{2}, 0, 2, 3}, {{2, 2}, 0b110, 4, 4}};
  for (const auto& c : cases) {
    const auto machine = plan::make_machine(c.counts);
    const auto digits = plan::make_digits(c.counts, c.micro_batches);
    for (std::uint64_t seed = 0; seed < 30; ++seed) {
      if (seed % 3 == 1 && c.micro_batches > 2) continue;  // attention's batch is 2
      const auto model = plan::random_model(digits.devices() * c.micro_batches, seed);
      const plan::Schedule schedule{.order = Order::kGpipe,
                                    .micro_batches = c.micro_batches,
                                    .stages = c.stages,
                                    .digits = c.ranks};
      const auto choices = plan::Chooser(model, digits, seed, schedule).run();
      const auto program = lower::lower(parallelize(model, digits, choices, schedule), digits, {},
                                        plan::Optimizer::kAdam);
      const auto mapped = make_mapped_model(program);
      SCOPED_TRACE(to_text(program));
      expect_nothing_lost(program, mapped);
      ASSERT_EQ(mapped.nodes.size(), model.size());
      for (auto id : model.ids()) {
        EXPECT_EQ(mapped.model.node(id).name, model.node(id).name);
        if (model.node(id).op.role() == ops::Role::kSource) continue;
        EXPECT_EQ(mapped.nodes[id.index()].stage, choices[id.index()].stage);
      }
      const auto blocks = split_into_blocks(mapped.model, [](auto, auto) { return false; });
      EXPECT_FALSE(mapped_text(mapped, blocks, machine, program).empty());
      if (HasFailure()) return;
    }
  }
}

TEST(MappedText, ListsStagesAndMicroBatches) {
  auto machine = plan::make_machine({2});
  machine.levels[0].name = "gpu";
  const machine::Digits digits(machine, 4);  // time 4, gpu 2
  plan::MappedGraph mapped;
  mapped.schedule = {.order = Order::k1F1B, .micro_batches = 4, .stages = 2, .digits = 0b10};
  graph::GraphBuilder b("two");
  const auto add = [&](graph::NodeId node, std::uint16_t stage, char role) {
    mapped.layouts.push_back(
        machine::parse_layout(fmt::format("{}{}", role, stage == 0 ? '.' : 'A')).value());
    mapped.stage.push_back(stage);
    mapped.recompute.push_back(false);
    return node;
  };
  ParallelShape rows({8, 4});
  rows.degrees = {4, 1};
  ParallelShape copies({4, 4});
  copies.replicas = 4;
  const auto x = add(b.input("x", rows, DType::kFp32), 0, '0');
  const auto w1 = add(b.weight("w1", copies, DType::kFp32), 0, 'r');
  const auto h = add(b.add(ops::kLinear, {x, w1}, "h"), 0, '0');
  const auto sent = add(b.add(ops::make_op(ops::kSend, ops::NoAttributes{}), {h}), 1, '0');
  const auto w2 = add(b.weight("w2", copies, DType::kFp32), 1, 'r');
  const auto y = add(b.add(ops::kLinear, {sent, w2}, "y"), 1, '0');
  const auto target = add(b.input("target", rows, DType::kFp32), 1, '0');
  const auto loss = add(b.add(ops::kMse, {y, target}, "loss"), 1, 'p');
  mapped.pcg = b.finish({loss});
  check_mapped(mapped, digits);
  const auto program = lower::lower(mapped, digits, machine.device.software, plan::Optimizer::kSgd);
  const auto view = make_mapped_model(program);
  const auto blocks = split_into_blocks(view.model, [](auto, auto) { return false; });
  EXPECT_EQ(mapped_text(view, blocks, machine, program),
            "                shape   per device  weights  layout\n"
            "  h     linear  [8, 4]        32 B     64 B  stage 0, batch over micro-batch 4\n"
            "  y     linear  [8, 4]        32 B     64 B  stage 1, batch over micro-batch 4\n"
            "    from h: 4 times send 32 B over gpu 2 (forward), 4 times send 32 B (backward)\n"
            "  loss  mse     []             4 B           stage 1, batch over micro-batch 4\n");
}

TEST(Dot, QuotesNames) {
  const auto model = graph::parse_graph(
      "graph a\\b\n%x&y; = input() shape=[2]\n"
      "%z' = relu(%x&y;)\nreturn %z'\n");
  EXPECT_EQ(to_dot(model, split_into_blocks(model, [](auto, auto) { return true; })),
            "digraph \"a\\\\b\" {\n"
            "  node [shape=box fontname=Helvetica fontsize=10];\n"
            "  edge [fontname=Helvetica fontsize=9];\n"
            "  n0 [label=\"x&amp;y;\\ninput [2]\" shape=ellipse];\n"
            "  n1 [label=\"z'\\nrelu [2]\"];\n"
            "  n0 -> n1 [label=\"[2]\"];\n"
            "}\n");
}

}  // namespace
}  // namespace tandem::report
