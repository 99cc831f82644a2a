// Compares the two streams with closed forms.
#include "madmax/iteration.h"

#include <gtest/gtest.h>

namespace tandem::madmax {
namespace {

constexpr int kLayers = 7;

// Runs kLayers equal layers forward and, after a barrier, backward.
Iteration there_and_back(const Layer& layer, int synchronised = kLayers) {
  Iteration out;
  for (int i = 0; i < kLayers; ++i) out.forward(layer);
  out.barrier();
  for (int i = 0; i < kLayers; ++i) out.backward(layer, out.gather(layer), i < synchronised);
  return out;
}

TEST(Iteration, AddsComputeWithoutCommunication) {
  const auto it = there_and_back({.compute = Seconds{2}});
  EXPECT_DOUBLE_EQ(it.end().value, kLayers * 2 * 3);
  EXPECT_DOUBLE_EQ(it.totals().get_time(Compute::kGemm).value, it.end().value);
}

TEST(Iteration, OverlapsGradientsWithTheBackwardPass) {
  // Shorter than a layer's backward pass of 4: only the last gradient is exposed.
  EXPECT_DOUBLE_EQ(there_and_back({.compute = Seconds{2}, .gradient = Seconds{3}}).end().value,
                   kLayers * 2 * 3 + 3);
  // Longer gradients queue behind the first layer's backward pass.
  EXPECT_DOUBLE_EQ(there_and_back({.compute = Seconds{2}, .gradient = Seconds{5}}).end().value,
                   kLayers * 2 + 4 + kLayers * 5);
  // Three gradients are synchronized, early in the backward pass.
  EXPECT_DOUBLE_EQ(there_and_back({.compute = Seconds{2}, .gradient = Seconds{5}}, 3).end().value,
                   kLayers * 2 * 3);
}

TEST(Iteration, WaitsForActivations) {
  const Layer layer{.compute = Seconds{2}, .activation = Seconds{3}, .activation_back = Seconds{5}};
  EXPECT_DOUBLE_EQ(there_and_back(layer).end().value, kLayers * (2 + 3 + 4 + 5));
  // Nothing waits for gradients of the backward pass: they queue behind its first layer.
  auto free = layer;
  free.activation_blocks = false;
  EXPECT_DOUBLE_EQ(there_and_back(free).end().value, kLayers * (2 + 3) + 4 + kLayers * 5);
}

TEST(Iteration, ExchangesTokensBeforeAndAfterExperts) {
  const auto it = there_and_back({.compute = Seconds{2}, .exchange = Seconds{3}});
  EXPECT_DOUBLE_EQ(it.end().value, kLayers * (2 * 3 + 2 * 2 * 3));
  EXPECT_DOUBLE_EQ(it.totals().get_time(Collective::kAllToAll).value, kLayers * 2 * 2 * 3);
}

// After a layer, only the activation's communication delays the next one. A gradient that goes
// first delays the activation.
TEST(Iteration, AllowsAGradientBeforeAnActivation) {
  Layer layer{.compute = Seconds{2}, .gradient = Seconds{1}, .activation_back = Seconds{5}};
  EXPECT_DOUBLE_EQ(there_and_back(layer).end().value, kLayers * (2 + 4 + 5) + 1);
  layer.gradient_first = true;
  EXPECT_DOUBLE_EQ(there_and_back(layer).end().value, kLayers * (2 + 4 + 1 + 5));
}

TEST(Iteration, PrefetchesGathersByOneLayer) {
  const auto forward = [](double compute, double gather) {
    Iteration out;
    for (int i = 0; i < kLayers; ++i) {
      out.forward({.compute = Seconds{compute}, .gather = Seconds{gather}});
    }
    return out.end().value;
  };
  // Either only the first gather is exposed, or all gathers and the last layer's compute are.
  EXPECT_DOUBLE_EQ(forward(5, 3), 3 + kLayers * 5);
  EXPECT_DOUBLE_EQ(forward(3, 5), kLayers * 5 + 3);
  // A long layer, then three short ones. Without a limit, all gathers would overlap with the first
  // layer. With it only the second's does; the third's starts when the first layer has ended.
  Iteration limited;
  const Layer second{.compute = Seconds{1}, .gather = Seconds{2}};
  limited.forward({.compute = Seconds{100}, .gather = Seconds{2}});
  for (int i = 0; i < 3; ++i) limited.forward(second);
  EXPECT_DOUBLE_EQ(limited.end().value, 102 + 2 + 2 + 1);
}

TEST(Iteration, ModelsWaitsAndBarriers) {
  Iteration it;
  const auto looked_up = it.compute(Compute::kEmbedding, Seconds{2});
  const auto exchanged = it.communicate(Collective::kAllToAll, Seconds{10}, looked_up);
  it.forward({.compute = Seconds{3}});
  EXPECT_DOUBLE_EQ(it.compute_end().value, 5);
  it.wait(exchanged);
  it.forward({.compute = Seconds{3}});
  EXPECT_DOUBLE_EQ(it.compute_end().value, 15);
  it.barrier();
  it.communicate(Collective::kAllReduce, Seconds{1});
  EXPECT_DOUBLE_EQ(it.network_end().value, 16);
}

}  // namespace
}  // namespace tandem::madmax
