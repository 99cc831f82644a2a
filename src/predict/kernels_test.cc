// Tests which operators of small graphs are fused into one kernel.
#include "predict/kernels.h"

#include <gtest/gtest.h>

#include "graph/text.h"
#include "predict/task_work.h"

namespace tandem::predict {
namespace {

using graph::Graph;
using machine::Fusion;
using machine::Software;

// A linear layer with a bias, gelu, another linear layer with a bias, dropout, and the residual.
const char* const kBlock =
    "graph g\n"
    "%x = input() shape=[64, 32]\n"
    "%w1 = weight() shape=[128, 32]\n"
    "%b1 = weight() shape=[128]\n"
    "%p1 = linear(%x, %w1)\n"
    "%a1 = add(%p1, %b1)\n"
    "%g = gelu(%a1)\n"
    "%w2 = weight() shape=[32, 128]\n"
    "%b2 = weight() shape=[32]\n"
    "%p2 = linear(%g, %w2)\n"
    "%a2 = add(%p2, %b2)\n"
    "%d = dropout(%a2) p=0.1\n"
    "%r = add(%d, %x)\n"
    "%t = input() shape=[64, 32]\n"
    "%loss = mse(%r, %t)\n"
    "return %loss\n";

struct Roles {
  Graph graph;
  std::vector<KernelRole> roles;

  Roles(const std::string& text, const Software& software)
      : graph(graph::parse_graph(text)), roles(find_kernel_roles(graph, software)) {}

  [[nodiscard]] graph::NodeId find(const std::string& name) const {
    for (auto id : graph.ids()) {
      if (graph.node(id).name == name) return id;
    }
    ADD_FAILURE() << name;
    return {};
  }
  [[nodiscard]] KernelRole of(const std::string& name) const { return get_role(roles, find(name)); }

  // Returns the bytes of all operators together: [forward, backward].
  [[nodiscard]] std::array<double, 2> bytes() const {
    std::array<double, 2> out{};
    const auto wants = graph::mark_gradient_nodes(graph);
    for (auto id : graph.ids()) {
      const auto& node = graph.node(id);
      if (node.op.role() != ops::Role::kCompute) continue;
      const auto types = graph.input_types(id);
      ops::InputMask mask = 0;
      for (std::size_t i = 0; i < types.size(); ++i) {
        if (wants[graph.inputs(id)[i].index()]) mask |= ops::InputMask{1} << i;
      }
      out[0] += forward_work(node.op, types, node.type, get_role(roles, id)).bytes.value;
      out[1] += backward_work(node.op, types, node.type, mask, get_role(roles, id)).bytes.value;
    }
    return out;
  }
};

Software fusing(Fusion fusion) {
  Software s;
  s.fusion = fusion;
  return s;
}

TEST(Kernels, AreOperatorsWithoutFusion) {
  EXPECT_TRUE(Roles(kBlock, {}).roles.empty());
  EXPECT_EQ(Roles(kBlock, {}).of("g"), KernelRole{});
}

TEST(Kernels, FuseABiasIntoItsMatmul) {
  const Roles roles(kBlock, fusing(Fusion::kBias));
  for (const auto* name : {"a1", "a2"}) {
    EXPECT_EQ(roles.of(name).forward, 0) << name;
    EXPECT_EQ(roles.of(name).forward_passes, 0) << name;
    EXPECT_EQ(roles.of(name).backward, 1) << name;
  }
  for (const auto* name : {"p1", "g", "p2", "d", "r", "loss"}) {
    EXPECT_EQ(roles.of(name), KernelRole{}) << name;
  }
}

TEST(Kernels, FuseAChainOfElementwiseOperators) {
  const Roles roles(kBlock, fusing(Fusion::kElementwise));
  EXPECT_EQ(roles.of("g"), KernelRole{});  // alone: the bias before it is fused into the matmul
  EXPECT_TRUE(roles.of("d").hidden);
  EXPECT_EQ(roles.of("d").forward, 0);
  EXPECT_EQ(roles.of("d").backward, 0);
  EXPECT_EQ(roles.of("r").inside, 0b01U);
  EXPECT_EQ(roles.of("r").forward, 1);
  EXPECT_FALSE(roles.of("r").hidden);
}

// Only tensors that cross the border of a kernel count.
TEST(Kernels, MoveOnlyTensorsAcrossTheirBorder) {
  constexpr double kX = 64 * 32 * 4;
  constexpr double kH = 64 * 128 * 4;
  constexpr double kW = 128 * 32 * 4;
  constexpr double kSmall = 4 * (128 + 32);
  const auto apart = Roles(kBlock, {}).bytes();
  const auto fused = Roles(kBlock, fusing(Fusion::kElementwise)).bytes();
  const double matmuls = 2 * (kX + kW + kH);
  const double loss = 2 * kX + 4;
  // gelu reads and writes; dropout and the residual read two tensors and write one.
  EXPECT_DOUBLE_EQ(fused[0], matmuls + loss + 2 * kH + 3 * kX);
  EXPECT_DOUBLE_EQ(apart[0], fused[0] + 2 * kH + 2 * kX + kSmall + 2 * kX);
  // Backward: the first matmul computes only its weight's gradient. Biases' gradients are summed.
  // gelu reads its operand. dropout reads the residual's gradient and writes its own.
  const double backward = (kX + kW + kH + kW) + (kX + kW + kH + kW + kH) + (3 * kH) + kH + kX +
                          2 * kX + 2 * kX + kX + 4 + kSmall;
  EXPECT_DOUBLE_EQ(fused[1], backward);
  EXPECT_DOUBLE_EQ(apart[1], backward);
}

TEST(Kernels, DoNotFuseTensorsWithTwoReaders) {
  const Roles roles(
      "graph g\n%x = input() shape=[8, 4]\n%a = relu(%x)\n%b = tanh(%a)\n%c = add(%a, %b)\n"
      "return %c\n",
      fusing(Fusion::kElementwise));
  EXPECT_FALSE(roles.of("a").hidden);
  EXPECT_TRUE(roles.of("b").hidden);
  EXPECT_EQ(roles.of("c").inside, 0b10U);
}

TEST(Kernels, ExcludeSumsAndBroadcasts) {
  const Roles roles(
      "graph g\n%x = input() shape=[8, 4]\n%a = relu(%x)\n%s = softmax(%a)\n%b = tanh(%s)\n"
      "%y = input() shape=[4]\n%c = relu(%y)\n%d = add(%b, %c)\nreturn %d\n",
      fusing(Fusion::kElementwise));
  EXPECT_FALSE(roles.of("a").hidden);
  EXPECT_FALSE(roles.of("s").hidden);
  EXPECT_TRUE(roles.of("b").hidden);
  EXPECT_FALSE(roles.of("c").hidden);  // it has fewer elements
  EXPECT_EQ(roles.of("d").inside, 0b01U);
}

TEST(Kernels, SplitAnOperatorIntoSeveral) {
  Software software = fusing(Fusion::kElementwise);
  software.kernels["softmax"] = {4, 3};
  software.kernels["relu"] = {2, 2};
  const Roles roles(
      "graph g\n%w = weight() shape=[8, 4]\n%a = relu(%w)\n%b = tanh(%a)\n%s = softmax(%b)\n"
      "return %s\n",
      software);
  EXPECT_FALSE(roles.of("a").hidden);
  EXPECT_EQ(roles.of("s").forward, 4);
  EXPECT_EQ(roles.of("s").backward_passes, 3);
  EXPECT_EQ(roles.bytes()[0], 128 * (2 * 2 + 2 + 2 * 4));
  EXPECT_EQ(roles.bytes()[1], 128 * (3 * 2 + 3 + 3 * 3));
}

// Two samples of three heads on a device are six matrices.
TEST(Kernels, LimitTheNumberOfMatrices) {
  Software software;
  for (const double unless : {4, 6, 3, 5}) {
    software.kernels["softmax"] = {5, 6, unless};
    const Roles roles("graph g\n%x = input() shape=[2, 3, 8, 8]\n%s = softmax(%x)\nreturn %s\n",
                      software);
    const bool several = unless == 4 || unless == 5;
    EXPECT_EQ(roles.of("s").forward, several ? 5 : 1) << unless;
    EXPECT_EQ(roles.of("s").backward_passes, several ? 6 : 1) << unless;
  }
}

TEST(Kernels, JoinMatmulsOfOneTensor) {
  Software software;
  software.fused_qkv = true;
  const Roles roles(
      "graph g\n%x = input() shape=[64, 32]\n%a = relu(%x)\n%wq = weight() shape=[96, 32]\n"
      "%wk = weight() shape=[32, 32]\n%q = linear(%a, %wq)\n%k = linear(%a, %wk)\n"
      "%y = contract(%q, %k) index=\"s d, s t -> d t\"\nreturn %y\n",
      software);
  EXPECT_DOUBLE_EQ(roles.of("q").joined, 128.0 / 96);
  EXPECT_DOUBLE_EQ(roles.of("k").joined, 4);
  EXPECT_EQ(roles.of("q").forward, 0.5);
  EXPECT_TRUE(roles.of("q").gradient_joined);
  EXPECT_FALSE(roles.of("k").gradient_joined);
  EXPECT_EQ(roles.of("y"), KernelRole{});

  // Together they take as long as one matmul with all columns.
  machine::Device d;
  d.peak = {{DType::kFp32, FlopsPerSecond{1e12}}};
  d.units = 7;
  d.bandwidth = BytesPerSecond{1e30};
  const auto time = [&](const std::string& name) {
    const auto id = roles.find(name);
    const auto& node = roles.graph.node(id);
    return task_time(d,
                     forward_work(node.op, roles.graph.input_types(id), node.type, roles.of(name)),
                     DType::kFp32);
  };
  const MatmulShape whole{.rows = 64, .columns = 128, .depth = 32};
  EXPECT_NEAR((time("q") + time("k")).value, matmul_time(d, whole, FlopsPerSecond{1e12}).value,
              1e-18);
}

}  // namespace
}  // namespace tandem::predict
