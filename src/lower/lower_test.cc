// Tests lowering in three ways: with the task interpreter against the sequential one, with the
// figures of Unity's Fig 2, and with golden text.
#include "lower/lower.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "base/error_test_support.h"
#include "graph/text.h"
#include "lower/task_interpreter.h"
#include "lower/training_step_test_support.h"
#include "models/model.h"
#include "ops/attributes.h"
#include "ops/registry.h"
#include "plan/random_choices_test_support.h"

namespace tandem::lower {
namespace {

using graph::Graph;
using machine::Digits;
using plan::Choice;
using plan::make_digits;
using plan::named_choices;
using plan::Optimizer;
using plan::parallelize;
using term::Field;

Program lower_choices(const Graph& model, const Digits& digits, const std::vector<Choice>& choices,
                      Optimizer optimizer = Optimizer::kSgd, Mode mode = Mode::kTraining) {
  return lower(parallelize(model, digits, choices), digits, {}, optimizer, mode);
}

// --- Same loss, gradients and weights as one device ----------------------------------------------

TEST(Lower, TrainsRandomPlansLikeOneDevice) {
  std::map<std::string, int> moves;
  int through = 0;
  for (const auto& counts :
       std::vector<std::vector<std::int64_t>>{{2}, {2, 2}, {2, 3}, {2, 2, 2}}) {
    const auto digits = make_digits(counts);
    for (std::uint64_t seed = 0; seed < 150; ++seed) {
      const auto model = plan::random_model(digits.devices(), seed);
      plan::Chooser chooser(model, digits, seed);
      const auto program = lower_choices(model, digits, chooser.run());
      SCOPED_TRACE(fmt::format("{} devices, seed {}\n{}\n{}", digits.devices(), seed,
                               graph::to_text(program.pcg), to_text(program)));
      expect_same_step(model, program, seed);
      if (HasFailure()) return;
      through += chooser.through_count();
      for (const auto& task : program.tasks) {
        const bool moves_it = task.kind == TaskKind::kMove || task.kind == TaskKind::kSend;
        if (moves_it) ++moves[std::string(machine::name(task.step.kind))];
      }
    }
  }
  EXPECT_GT(through, 100);
  // Every kind except mask occurs: no legal plan converts an unsharded value to partial sums.
  EXPECT_EQ(moves.size(), 13U) << "a kind of step was never met";
  for (const auto& [kind, count] : moves) EXPECT_GE(count, 10) << kind;
}

// Tests random plans with doubles, where only rounding may differ.
TEST(Lower, TrainsRandomPlansLikeOneDeviceInDouble) {
  const auto digits = make_digits({2, 2});
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    const auto model = plan::random_model(4, seed);
    const auto program = lower_choices(model, digits, plan::random_choices(model, digits, seed));
    const auto values = graph::run_forward(model, graph::make_feed_values<double>(model, seed));
    const auto gradients =
        graph::run_backward(model, values, graph::make_loss_gradient<double>(model));
    const auto step = assemble_step_result(
        program, run_program(program, graph::make_feed_values<double>(program.pcg, seed), 0.1));
    const double loss = values[model.outputs()[0].index()].data[0];
    EXPECT_NEAR(step.loss.data[0], loss, 1e-12 * loss);
    for (auto id : model.ids()) {
      if (!is_weight(model.node(id))) continue;
      const auto& expected = gradients[id.index()].data;
      const auto& actual = step.gradients.at(model.node(id).name).data;
      for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 1e-11);
    }
  }
}

// Tests that the interpreter notices a wrong program. The tests above rely on that.
TEST(TaskInterpreter, DetectsAWrongCollective) {
  const auto digits = make_digits({2});
  const auto model =
      models::parse_model("mlp:layers=2,inputs=4,hidden=6,outputs=2").build(4, DType::kFp32);
  const auto good = lower_choices(
      model, digits,
      named_choices(model, digits,
                    {{"linear1", "d0"}, {"relu1", "d0"}, {"linear2", "d0"}, {"loss", "d0"}}));
  expect_same_step(model, good, 1);
  auto bad = good;
  int changed = 0;
  for (auto& task : bad.tasks) {
    if (task.kind != TaskKind::kMove) continue;
    task.step.kind = machine::Step::kBroadcast;  // replaces the all-reduce by rank 0's summand
    ++changed;
  }
  EXPECT_EQ(changed, 2);
  const auto of = [&](const Program& p) {
    return assemble_step_result(p,
                                run_program(p, graph::make_feed_values<Field>(p.pcg, 1), Field(3)));
  };
  EXPECT_EQ(of(bad).loss, of(good).loss);
  for (const auto* w : {"w1", "w2"}) EXPECT_NE(of(bad).gradients.at(w), of(good).gradients.at(w));
}

TEST(TaskInterpreterDeathTest, ReadsOnlyWrittenBuffers) {
  const auto digits = make_digits({2});
  const auto model = plan::random_model(2, 0);
  auto program = lower_choices(model, digits, plan::random_choices(model, digits, 0));
  std::ranges::reverse(program.tasks);
  EXPECT_DEATH(run_program(program, graph::make_feed_values<Field>(program.pcg), Field(3)),
               "CHECK|data.empty");
}

// --- Golden text ---------------------------------------------------------------------------------

Graph small_mlp() {
  return models::parse_model("mlp:layers=2,inputs=4,hidden=6,outputs=2").build(8, DType::kFp32);
}

std::vector<Choice> data_parallel(const Graph& model, const Digits& digits) {
  return named_choices(model, digits,
                       {{"linear1", "d0"}, {"relu1", "d0"}, {"linear2", "d0"}, {"loss", "d0"}});
}

// Returns a plan with linear1 column-parallel and linear2 row-parallel.
std::vector<Choice> megatron(const Graph& model, const Digits& digits) {
  return named_choices(model, digits, {{"linear1", "n"}, {"relu1", "d1"}, {"linear2", "k"}});
}

TEST(LowerText, DataParallelMlp) {
  const auto digits = make_digits({2});
  const auto model = small_mlp();
  EXPECT_EQ("\n" + to_text(lower_choices(model, digits, data_parallel(model, digits))), R"(
-> forward linear %linear1
-> forward relu %relu1
-> forward linear %linear2
-> forward mse %loss
<- seed mse %loss
<- backward mse %loss
<- backward linear %linear2
<- all_reduce %w2' [2, 6] p -> r (48 B)
<- backward relu %relu1
<- backward linear %linear1
<- all_reduce %w1' [6, 4] p -> r (96 B)
<- update weight %w2
<- update weight %w1
)");
}

TEST(LowerText, MegatronMlp) {
  const auto digits = make_digits({2});
  const auto model = small_mlp();
  EXPECT_EQ("\n" + to_text(lower_choices(model, digits, megatron(model, digits))), R"(
-> forward linear %linear1
-> forward relu %relu1
-> forward linear %linear2
-> all_reduce %linear2 [8, 2] p -> r (64 B)
-> forward mse %loss
<- seed mse %loss
<- backward mse %loss
<- all_reduce %replicate8' [8, 2] p -> r (64 B)
<- backward linear %linear2
<- backward relu %relu1
<- backward linear %linear1
<- update weight %w2
<- update weight %w1
)");
}

// --- Unity, Fig 2 --------------------------------------------------------------------------------

Graph figure_2() {
  return models::parse_model("mlp:layers=2,inputs=784,hidden=512,outputs=10")
      .build(64, DType::kFp32);
}

TEST(Figure2, DataParallelismSendsTwiceTheWeights) {
  const auto digits = make_digits({2});
  const auto model = figure_2();
  const auto program = lower_choices(model, digits, data_parallel(model, digits));
  EXPECT_EQ(count_communicated_elements(program), 2 * (784 * 512 + 512 * 10));
  EXPECT_EQ(count_communicated_elements(program), 813056);
}

TEST(Figure2, ReductionSendsTheHiddenLayerFourTimes) {
  const auto digits = make_digits({2});
  const auto model = figure_2();
  const auto program = lower_choices(
      model, digits,
      named_choices(model, digits,
                    {{"linear1", "k"}, {"relu1", "*"}, {"linear2", "n"}, {"loss", "c"}}));
  EXPECT_EQ(count_communicated_elements(program), 4 * 64 * 512);
  EXPECT_EQ(count_communicated_elements(program), 131072);
  expect_same_step(
      small_mlp(),
      lower_choices(
          small_mlp(), digits,
          named_choices(small_mlp(), digits,
                        {{"linear1", "k"}, {"relu1", "*"}, {"linear2", "n"}, {"loss", "c"}})),
      0);
}

// --- Buffers and phases --------------------------------------------------------------------------

double count_bytes(const Program& program, BufferKind kind) {
  Bytes total;
  for (const auto& buffer : program.buffers) {
    if (buffer.kind == kind) total += buffer.bytes();
  }
  return total.value;
}

TEST(Lower, AllocatesTwoAdamStatesPerWeight) {
  const auto digits = make_digits({2});
  const auto model = small_mlp();
  const auto choices = megatron(model, digits);
  const auto sgd = lower_choices(model, digits, choices);
  const auto adam = lower_choices(model, digits, choices, Optimizer::kAdam);
  EXPECT_EQ(count_bytes(sgd, BufferKind::kState), 0);
  EXPECT_EQ(count_bytes(sgd, BufferKind::kWeight), 4 * (4 * 6 + 6 * 2) / 2);
  EXPECT_EQ(count_bytes(adam, BufferKind::kWeight), count_bytes(sgd, BufferKind::kWeight));
  EXPECT_EQ(count_bytes(adam, BufferKind::kState), 2 * count_bytes(sgd, BufferKind::kWeight));
}

// Compares momentum's weights after two steps with those of SGD. Momentum's first step is a step of
// SGD; its second step adds the decayed first gradient to that of SGD.
TEST(Lower, AllocatesAVelocityForMomentum) {
  const auto digits = make_digits({2});
  const auto model = small_mlp();
  const auto choices = megatron(model, digits);
  const auto sgd = lower_choices(model, digits, choices);
  const auto momentum = lower_choices(model, digits, choices, Optimizer::kMomentum);
  EXPECT_EQ(count_bytes(momentum, BufferKind::kState), count_bytes(sgd, BufferKind::kWeight));
  const Field rate(3);
  const Field minus_rate = term::Numbers<Field>::from_index(-1) * rate;
  const Field decay = term::Numbers<Field>::from(plan::kVelocityDecay);
  const auto feed = [](const Program& program) {
    return [&program](graph::NodeId id, std::int64_t step) {
      return graph::make_feed_values<Field>(program.pcg, 5, static_cast<std::uint64_t>(step))(id);
    };
  };
  const auto after = [&](const Program& program, std::int64_t steps) {
    return assemble_step_result(program, run_steps<Field>(program, feed(program), steps, rate));
  };
  const auto first = after(sgd, 1);
  const auto second = after(sgd, 2);
  EXPECT_EQ(after(momentum, 1).weights, first.weights);
  for (const auto& [name, weight] : after(momentum, 2).weights) {
    auto expected = second.weights.at(name);
    for (std::size_t i = 0; i < expected.data.size(); ++i) {
      expected.data[i] += minus_rate * decay * first.gradients.at(name).data[i];
    }
    EXPECT_EQ(weight, expected) << name;
  }
}

// The wider types that mixed precision stores in addition to bf16 and fp16 weights change no value.
TEST(Lower, ComputesTheSameStepInMixedPrecision) {
  for (const char* dtype : {"fp16", "bf16"}) {
    const auto digits = make_digits({2});
    const auto model = graph::parse_graph(fmt::format(
        "graph g\n%x = input() shape=[4, 8] dtype={0}\n%t = input() shape=[4, 6] dtype={0}\n"
        "%w = weight() shape=[6, 8] dtype={0}\n%y = linear(%x, %w)\n%r = relu(%y)\n"
        "%loss = mse(%r, %t)\nreturn %loss\n",
        dtype));
    plan::Schedule schedule;
    schedule.precision = {.master = true, .wide_gradients = true};
    const auto choices = named_choices(model, digits, {{"y", "d0"}, {"r", "d0"}, {"loss", "d0"}});
    const auto program =
        lower(parallelize(model, digits, choices, schedule), digits, {}, Optimizer::kSgd);
    expect_same_step(model, program, 11);
    for (const auto& b : program.buffers) {
      const bool is_wide = b.kind == BufferKind::kState ||
                           (b.kind == BufferKind::kGradient && b.sizes == Shape{6, 8});
      EXPECT_EQ(b.dtype == DType::kFp32, is_wide) << program.pcg.node(b.node).name;
    }
    EXPECT_EQ(count_bytes(program, BufferKind::kState), 4 * 6 * 8);
  }
}

// Returns the model with each of its weights frozen or not, at random.
Graph with_random_frozen(const Graph& model, std::mt19937_64& random) {
  graph::GraphBuilder builder(model.name());
  std::vector<graph::NodeId> image;
  for (auto id : model.ids()) {
    const auto& node = model.node(id);
    std::vector<graph::NodeId> inputs;
    for (auto i : model.inputs(id)) inputs.push_back(image[i.index()]);
    if (is_weight(node) && random() % 2 == 0) {
      auto weight = node.op.get<ops::Weight>();
      weight.frozen = true;
      image.push_back(builder.add(ops::make_op(ops::kWeight, weight), {}, node.name));
    } else {
      image.push_back(builder.copy_node(model, id, inputs));
    }
  }
  return builder.finish({image[model.outputs()[0].index()]});
}

// The sequential interpreter computes the gradients of frozen weights too and does not apply them.
// The gradients of the other weights must be equal to the last bit, and nothing else may be
// computed.
TEST(Lower, OmitsOnlyGradientsOfFrozenWeights) {
  std::mt19937_64 random(20);
  int frozen = 0;
  int fewer = 0;
  for (const auto& counts : std::vector<std::vector<std::int64_t>>{{2}, {2, 2}, {2, 3}}) {
    const auto digits = make_digits(counts);
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
      const auto whole = plan::random_model(digits.devices(), seed);
      const auto model = with_random_frozen(whole, random);
      plan::Chooser chooser(model, digits, seed);
      const auto choices = chooser.run();
      const auto program = lower_choices(model, digits, choices, Optimizer::kAdam);
      SCOPED_TRACE(fmt::format("{} devices, seed {}\n{}\n{}", digits.devices(), seed,
                               graph::to_text(program.pcg), to_text(program)));
      expect_same_step(model, lower_choices(model, digits, choices), seed);
      if (HasFailure()) return;
      std::set<std::string> of_trained;  // nodes that depend on a trained weight
      for (auto id : program.pcg.ids()) {
        const auto& node = program.pcg.node(id);
        const auto inputs = program.pcg.inputs(id);
        const bool fed = std::ranges::any_of(
            inputs, [&](auto i) { return of_trained.contains(program.pcg.node(i).name); });
        const bool is_frozen = is_weight(node) && node.op.get<ops::Weight>().frozen;
        if (fed || (is_weight(node) && !is_frozen)) of_trained.insert(node.name);
        frozen += is_frozen ? 1 : 0;
      }
      for (const auto& buffer : program.buffers) {
        const bool of_training =
            buffer.kind == BufferKind::kGradient || buffer.kind == BufferKind::kState;
        const auto& name = program.pcg.node(buffer.node).name;
        if (of_training && program.pcg.node(buffer.node).type.shape.rank() > 0) {
          EXPECT_TRUE(of_trained.contains(name)) << name;
        }
      }
      fewer += program.tasks.size() < lower_choices(whole, digits, choices).tasks.size() ? 1 : 0;
    }
  }
  EXPECT_GT(frozen, 200);
  EXPECT_GT(fewer, 200);
}

// An operand that only a frozen weight's gradient would read is not saved for backward.
TEST(Lower, AllocatesNoStateForAFrozenWeight) {
  const auto digits = make_digits({1});
  const auto reads = [&](const char* frozen) {
    const auto model = graph::parse_graph(fmt::format(
        "graph g\n%x = input() shape=[4, 8]\n%w0 = weight() shape=[6, 8]\n"
        "%w = weight() shape=[5, 6] {}\n%t = input() shape=[4, 5]\n%h = linear(%x, %w0)\n"
        "%y = linear(%h, %w)\n%loss = mse(%y, %t)\nreturn %loss\n",
        frozen));
    const auto program = lower_choices(model, digits, named_choices(model, digits, {}));
    for (const auto& task : program.tasks) {
      const auto& name = program.pcg.node(task.node).name;
      if (task.kind == TaskKind::kBackward && name == "y") return task.reads[0] != Program::kNone;
    }
    return false;
  };
  EXPECT_TRUE(reads(""));
  EXPECT_FALSE(reads("frozen=true"));
}

TEST(Lower, EmitsOnlyForwardTasksForInference) {
  const auto digits = make_digits({2});
  const auto model = graph::parse_graph(
      "graph g\n%x = input() shape=[4, 8]\n%w = weight() shape=[6, 8]\n%y = linear(%x, %w)\n"
      "return %y\n");
  const auto program = lower_choices(model, digits, named_choices(model, digits, {{"y", "n"}}),
                                     Optimizer::kAdam, Mode::kInference);
  ASSERT_EQ(program.tasks.size(), 1U);
  EXPECT_EQ(program.tasks[0].kind, TaskKind::kForward);
  EXPECT_EQ(program.loss, program.tensor[program.pcg.outputs()[0].index()]);
  EXPECT_EQ(count_bytes(program, BufferKind::kGradient) + count_bytes(program, BufferKind::kState),
            0);
  const auto execution =
      run_program(program, graph::make_feed_values<Field>(program.pcg), Field(3));
  EXPECT_EQ(assemble(program, execution, program.loss),
            graph::run_forward(model, graph::make_feed_values<Field>(model))[2]);
}

// If nothing else reads a table's gradient, plain SGD needs only the looked-up rows.
TEST(Lower, UsesRowSparseTableGradientsIfEquivalent) {
  const auto digits = make_digits({2});
  const auto elements = [&](const char* table, plan::Optimizer optimizer, int batch = 4) {
    const auto model = models::parse_model("dlrm:tables=1,rows=64,dim=8,dense=4,bottom=8,top=4")
                           .build(batch, DType::kFp32);
    const std::map<std::string, std::string> spread = {
        {"bottom1", "d0"}, {"bag0", table}, {"features", "a0"}, {"top1", "d0"}, {"loss", "d0"}};
    const auto program =
        lower(plan::parallelize(model, digits, named_choices(model, digits, spread)), digits, {},
              optimizer);
    for (const auto& task : program.tasks) {
      if (task.kind == TaskKind::kUpdate && program.pcg.node(task.node).name == "table0") {
        return program.buffer(task.reads[1]).sparse_elements.value_or(-1);
      }
    }
    return std::int64_t{-2};
  };
  EXPECT_EQ(elements("v", plan::Optimizer::kSgd), 4 * 8);  // 4 indices, rows of 8
  EXPECT_EQ(elements("d", plan::Optimizer::kSgd), 4 * 4);  // rows of half the width
  EXPECT_EQ(elements("d0", plan::Optimizer::kSgd), -1);    // dense, because all-reduced
  EXPECT_EQ(elements("v", plan::Optimizer::kAdam), -1);    // Adam changes every row
  // With as many indices as a device has rows, row-sparse storage is not shorter.
  EXPECT_EQ(elements("v", plan::Optimizer::kSgd, 32), -1);
  EXPECT_EQ(elements("v", plan::Optimizer::kSgd, 30), 30 * 8);
}

TEST(Lower, PlacesUpdatesLast) {
  const auto digits = make_digits({2});
  const auto model = small_mlp();
  const auto program = lower_choices(model, digits, data_parallel(model, digits));
  const auto is_update = [](const Task& t) { return t.kind == TaskKind::kUpdate; };
  const auto first = std::ranges::find_if(program.tasks, is_update);
  EXPECT_EQ(std::count_if(first, program.tasks.end(), is_update), 2);
  EXPECT_TRUE(std::all_of(first, program.tasks.end(), is_update));
}

// --- Errors --------------------------------------------------------------------------------------

TEST(LowerErrors, NameTheCause) {
  const auto digits = make_digits({2, 2});
  const auto model = graph::parse_graph(
      "graph g\n%x = input() shape=[4, 8]\n%w = weight() shape=[6, 8]\n%y = linear(%x, %w)\n"
      "return %y\n");
  const auto good = parallelize(model, digits, named_choices(model, digits, {{"y", "d0 *"}}));
  EXPECT_EQ(get_error([&] { lower(good, digits, {}, Optimizer::kSgd); }),
            "%y: training requires a scalar loss, but the output has shape [4/2, 6]*2");

  const auto error = [&](std::size_t node, std::string_view layout) {
    auto bad = good;
    bad.layouts[node] = machine::parse_layout(layout).value();
    return get_error([&] { lower(bad, digits, {}, Optimizer::kSgd, Mode::kInference); });
  };
  EXPECT_EQ(error(0, "0r"), "no error");
  EXPECT_EQ(error(0, "0"), "input %x: layout '0' has 1 digits, but the machine has 2");
  EXPECT_EQ(error(1, "0r"), "weight %w: layout '0r' does not match the type [6, 8]*4");
  EXPECT_EQ(error(0, "r0"),
            "linear %y: the layouts of its operands and its result are inconsistent");

  const auto delayed = [&](plan::Schedule schedule) {
    auto bad = good;
    bad.schedule = schedule;
    bad.schedule.semantics = plan::Semantics::kDelayed1;
    return get_error([&] { lower(bad, digits, {}, Optimizer::kSgd, Mode::kInference); });
  };
  EXPECT_EQ(delayed({}), "no error");
  EXPECT_EQ(delayed({.order = plan::Order::kGpipe}),
            "schedule: delays updates, which requires 1f1b with one stage per rank");
  EXPECT_EQ(delayed({.stages = 2}),
            "schedule: delays updates, which requires 1f1b with one stage per rank");
  EXPECT_EQ(delayed({.stages = 2, .digits = 0b01}),
            "schedule: delays updates over 2 ranks, but has only 1 micro-batches (use at least as "
            "many micro-batches as ranks)");
}

}  // namespace
}  // namespace tandem::lower
