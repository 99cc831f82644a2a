// Tests operators that read windows and are partitioned along rows and columns. The expected halos
// of the first tests are computed by hand. Then random plans of random images must train exactly
// like one device.
#include <gtest/gtest.h>

#include <map>

#include "graph/text.h"
#include "lower/lower.h"
#include "lower/task_interpreter.h"
#include "lower/training_step_test_support.h"
#include "plan/random_choices_test_support.h"

namespace tandem::lower {
namespace {

using graph::Graph;
using machine::Digits;
using machine::Step;
using machine::Window;
using plan::make_digits;
using plan::named_choices;

Program lower_choices(const Graph& model, const Digits& digits,
                      const std::map<std::string, std::string>& words) {
  return lower(plan::parallelize(model, digits, named_choices(model, digits, words)), digits, {},
               plan::Optimizer::kSgd);
}

std::vector<const Task*> halos(const Program& program, Step kind) {
  std::vector<const Task*> out;
  for (const auto& task : program.tasks) {
    if (task.kind == TaskKind::kMove && task.step.kind == kind) out.push_back(&task);
  }
  return out;
}

// Returns a model that applies `op`, with a kernel of this shape, to the sum of an image and a
// weight, followed by the loss.
Graph image_model(const std::string& sizes, const std::string& kernel, const std::string& op,
                  const std::string& result) {
  return graph::parse_graph(
      fmt::format("graph g\n%x = input() shape={0}\n%b = weight() shape={0}\n"
                  "%w = weight() shape={1}\n%t = input() shape={2}\n%a = add(%x, %b)\n"
                  "%y = {3}\n%loss = mse(%y, %t)\nreturn %loss\n",
                  sizes, kernel, result, op));
}

// --- By hand -------------------------------------------------------------------------------------

// A 3 x 3 convolution of 8 rows of 4 pixels: each of 2 devices receives one row of 2 channels.
TEST(Halo, ExchangesBorderRowsOfAConvolution) {
  const auto digits = make_digits({2});
  const auto model =
      image_model("[1, 2, 8, 4]", "[3, 2, 3, 3]", "conv2d(%a, %w) padding=[1, 1]", "[1, 3, 8, 4]");
  const auto program = lower_choices(model, digits, {{"a", "d2"}, {"y", "y"}, {"loss", "d2"}});
  expect_same_step(model, program, 1);
  constexpr std::int64_t kRow = 2 * 4;
  for (auto kind : {Step::kHalo, Step::kHaloReduce}) {
    const auto moves = halos(program, kind);
    ASSERT_EQ(moves.size(), 1U) << machine::name(kind);
    const auto halo = compute_halo(program, *moves[0]);
    EXPECT_EQ(halo.digits, 1U);
    EXPECT_EQ(halo.together, 2 * kRow);
    EXPECT_EQ(halo.most, kRow);
    EXPECT_EQ(halo.messages, 1);
    EXPECT_EQ(count_moved_bytes(program, *moves[0]).value, 4 * kRow);
  }
  // The weight's all-reduce is counted too.
  EXPECT_EQ(count_communicated_elements(program), 2 * 2 * kRow + 2 * (3 * 2 * 3 * 3));
  // The shard has 4 rows, and the halo one.
  const auto& window = program.buffer(halos(program, Step::kHalo)[0]->writes[0]);
  EXPECT_EQ(window.windows[2], (Window{-1, 4, 6}));
  EXPECT_EQ(window.shard, (Shape{1, 2, 5, 4}));
  EXPECT_EQ(compute_range(window, digits, 0, 2).size, 5);
  EXPECT_EQ(compute_range(window, digits, 1, 2).offset, 3);
}

TEST(Halo, IsOneTaskOfTheProgram) {
  const auto digits = make_digits({2});
  const auto model =
      image_model("[1, 2, 8, 4]", "[3, 2, 3, 3]", "conv2d(%a, %w) padding=[1, 1]", "[1, 3, 8, 4]");
  const auto program = lower_choices(model, digits, {{"a", "d2"}, {"y", "y"}, {"loss", "d2"}});
  EXPECT_EQ("\n" + to_text(program), R"(
-> forward add %a
-> halo %a [1, 2, 8, 4] 2 -> 2 (32 B)
-> forward conv2d %y
-> forward mse %loss
<- seed mse %loss
<- backward mse %loss
<- backward conv2d %y
<- halo_reduce %a' [1, 2, 8, 4] 2 -> 2 (32 B)
<- backward add %a
<- all_reduce %w' [3, 2, 3, 3] p -> r (216 B)
<- update weight %w
<- update weight %b
)");
}

// With one row per device, a kernel of 5 needs two neighbours on either side.
TEST(Halo, ReachesBeyondTheNeighbours) {
  const auto digits = make_digits({2, 3});
  const auto model =
      image_model("[1, 1, 6, 2]", "[1, 1, 5, 1]", "conv2d(%a, %w) padding=[2, 0]", "[1, 1, 6, 2]");
  const auto program =
      lower_choices(model, digits, {{"a", "d2 d2"}, {"y", "y y"}, {"loss", "d2 d2"}});
  expect_same_step(model, program, 2);
  const auto halo = compute_halo(program, *halos(program, Step::kHalo).at(0));
  EXPECT_EQ(halo.digits, 3U);
  EXPECT_EQ(halo.messages, 4);
  EXPECT_EQ(halo.most, 4 * 2);
  EXPECT_EQ(halo.together, (2 + 3 + 4 + 4 + 3 + 2) * 2);
}

// If rows and columns are partitioned, the corners come from the diagonal neighbour.
TEST(Halo, IncludesCornersForRowsAndColumns) {
  const auto digits = make_digits({2, 2});
  const auto model =
      image_model("[1, 1, 4, 6]", "[1, 1, 3, 3]", "conv2d(%a, %w) padding=[1, 1]", "[1, 1, 4, 6]");
  const auto program =
      lower_choices(model, digits, {{"a", "d2 d3"}, {"y", "y x"}, {"loss", "d2 c"}});
  expect_same_step(model, program, 3);
  const auto halo = compute_halo(program, *halos(program, Step::kHalo).at(0));
  EXPECT_EQ(halo.messages, 3);
  EXPECT_EQ(halo.most, 3 * 4 - 2 * 3);
  EXPECT_EQ(halo.together, 4 * halo.most);
}

// Windows that do not overlap are shards.
TEST(Halo, IsEmptyForDisjointWindows) {
  const auto digits = make_digits({2});
  const auto model = graph::parse_graph(
      "graph g\n%x = input() shape=[1, 2, 8, 4]\n%w = weight() shape=[1, 2, 8, 4]\n"
      "%t = input() shape=[1, 2, 4, 2]\n%a = add(%x, %w)\n"
      "%y = max_pool2d(%a) kernel=[2, 2] stride=[2, 2]\n%loss = mse(%y, %t)\nreturn %loss\n");
  const auto program = lower_choices(model, digits, {{"a", "d2"}, {"y", "y"}, {"loss", "d2"}});
  expect_same_step(model, program, 4);
  EXPECT_TRUE(halos(program, Step::kHalo).empty());
  EXPECT_TRUE(halos(program, Step::kHaloReduce).empty());
}

// Every second row is read, so the window is smaller than the shard and no device sends anything.
TEST(Halo, AllowsWindowsSmallerThanTheShard) {
  const auto digits = make_digits({2});
  const auto model =
      image_model("[1, 2, 8, 4]", "[3, 2, 1, 1]", "conv2d(%a, %w) stride=[2, 2]", "[1, 3, 4, 2]");
  const auto program = lower_choices(model, digits, {{"a", "d2"}, {"y", "y"}, {"loss", "d2"}});
  expect_same_step(model, program, 5);
  const auto& move = *halos(program, Step::kHalo).at(0);
  EXPECT_EQ(compute_halo(program, move).together, 0);
  EXPECT_EQ(compute_halo(program, move).messages, 0);
  EXPECT_EQ(program.buffer(move.writes[0]).shard, (Shape{1, 2, 3, 4}));
}

// Two convolutions with the same windows read one buffer.
TEST(Halo, IsExchangedOnceForEqualWindows) {
  const auto digits = make_digits({2});
  const auto model = graph::parse_graph(
      "graph g\n%x = input() shape=[1, 2, 8, 4]\n%b = weight() shape=[1, 2, 8, 4]\n"
      "%w = weight() shape=[2, 2, 3, 3]\n%v = weight() shape=[2, 2, 3, 3]\n%t = input() shape=[1, "
      "2, 8, 4]\n%a = add(%x, %b)\n"
      "%y = conv2d(%a, %w) padding=[1, 1]\n%z = conv2d(%a, %v) padding=[1, 1]\n"
      "%s = add(%y, %z)\n%loss = mse(%s, %t)\nreturn %loss\n");
  const auto program = lower_choices(
      model, digits, {{"a", "d2"}, {"y", "y"}, {"z", "y"}, {"s", "d2"}, {"loss", "d2"}});
  expect_same_step(model, program, 6);
  EXPECT_EQ(halos(program, Step::kHalo).size(), 1U);
  EXPECT_EQ(halos(program, Step::kHaloReduce).size(), 2U);
}

// --- Unity, Fig 11a ------------------------------------------------------------------------------

// relu = combine(row) . relu . partition(row)
TEST(Figure11a, PartitionsReluByRows) {
  const auto digits = make_digits({2});
  const auto model = graph::parse_graph(
      "graph g\n%x = input() shape=[4, 3]\n%w = weight() shape=[4, 3]\n%t = input() shape=[4, 3]\n"
      "%a = add(%x, %w)\n%y = relu(%a)\n%loss = mse(%y, %t)\nreturn %loss\n");
  const auto mapped = plan::parallelize(model, digits, named_choices(model, digits, {{"y", "d0"}}));
  std::string operators;
  for (auto id : mapped.pcg.ids()) {
    const auto& node = mapped.pcg.node(id);
    if (node.op.role() != ops::Role::kSource) operators += std::string(node.op.name()) + " ";
  }
  EXPECT_EQ(operators, "add unreplicate partition relu combine replicate mse ");
  EXPECT_EQ(erase_parallelism(mapped.pcg).identity_hash(), model.identity_hash());
  expect_same_step(model, lower(mapped, digits, {}, plan::Optimizer::kSgd), 7);
}

// --- Random plans --------------------------------------------------------------------------------

TEST(Halo, TrainsRandomImagesLikeOneDevice) {
  int forward = 0;
  int backward = 0;
  for (const auto& counts : std::vector<std::vector<std::int64_t>>{{2}, {3}, {4}, {2, 2}}) {
    const auto digits = make_digits(counts);
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
      std::mt19937_64 random(seed);
      const auto model = plan::random_image(digits.devices(), random);
      const auto choices = plan::random_choices(model, digits, seed);
      const auto program =
          lower(plan::parallelize(model, digits, choices), digits, {}, plan::Optimizer::kSgd);
      SCOPED_TRACE(fmt::format("{} devices, seed {}\n{}\n{}", digits.devices(), seed,
                               graph::to_text(program.pcg), to_text(program)));
      expect_same_step(model, program, seed);
      if (HasFailure()) return;
      forward += static_cast<int>(halos(program, Step::kHalo).size());
      backward += static_cast<int>(halos(program, Step::kHaloReduce).size());
    }
  }
  EXPECT_GT(forward, 50);
  EXPECT_GT(backward, 30);
}

// Tests random images with micro-batches, two stages and recomputed tensors.
TEST(Halo, TrainsRandomImagePipelinesLikeOneDevice) {
  const auto digits = make_digits({2, 2}, 2);
  const plan::Schedule schedule{.micro_batches = 2, .stages = 2, .digits = 0b010};
  int recomputed = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    std::mt19937_64 random(seed);
    const auto model = plan::random_image(2, random);
    plan::Chooser chooser(model, digits, seed, schedule);
    const auto program = lower(plan::parallelize(model, digits, chooser.run(), schedule), digits,
                               {}, plan::Optimizer::kSgd);
    SCOPED_TRACE(
        fmt::format("seed {}\n{}\n{}", seed, graph::to_text(program.pcg), to_text(program)));
    expect_same_step(model, program, seed);
    if (HasFailure()) return;
    for (const auto* task : halos(program, Step::kHalo)) recomputed += task->recomputed ? 1 : 0;
  }
  EXPECT_GT(recomputed, 5);
}

}  // namespace
}  // namespace tandem::lower
