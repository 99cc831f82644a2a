#include "models/inference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "graph/sequential.h"
#include "models/model.h"
#include "models/small_models_test_support.h"

namespace tandem::models {
namespace {

using graph::Graph;
using graph::NodeId;

Graph build(const std::string& text, std::int64_t batch = 2) {
  return parse_model(text).build(batch, DType::kFp64);
}

TEST(Inference, StopsAtThePrediction) {
  for (const auto& [name, small] : small_models()) {
    SCOPED_TRACE(name);
    const auto model = build(name + ":" + small.settings, 4);
    const auto inference = convert_to_inference(model);
    const auto prediction = model.inputs(model.outputs()[0])[0];
    EXPECT_EQ(inference.node(inference.outputs()[0]).name, model.node(prediction).name);
    EXPECT_EQ(count_parameters(inference), count_parameters(model));
    for (auto id : inference.ids()) EXPECT_NE(inference.node(id).name, "target");
    EXPECT_EQ(convert_to_inference(inference).size(), inference.size());
  }
}

TEST(Inference, DropsNothing) {
  const std::string sizes = "gpt2:layers=2,hidden=8,heads=2,ffn=12,vocab=11,seq=5";
  EXPECT_EQ(convert_to_inference(build(sizes + ",dropout=true")).identity_hash(),
            convert_to_inference(build(sizes)).identity_hash());
  EXPECT_EQ(build(sizes + ",cache=3,dropout=true").identity_hash(),
            build(sizes + ",cache=3").identity_hash());
}

// Returns the elements of `x` with index in [begin, begin + size) of `dim`.
Dense<double> slice(const Dense<double>& x, std::size_t dim, std::int64_t begin,
                    std::int64_t size) {
  auto sizes = x.shape;
  sizes[dim] = size;
  Dense<double> out(sizes);
  std::int64_t behind = 1;
  for (std::size_t d = dim + 1; d < sizes.rank(); ++d) behind *= sizes[d];
  for (std::size_t i = 0; i < out.data.size(); ++i) {
    const auto n = static_cast<std::int64_t>(i);
    const auto row = n / (size * behind);
    const auto within = n % (size * behind);
    out.data[i] =
        x.data[static_cast<std::size_t>(row * x.shape[dim] * behind + begin * behind + within)];
  }
  return out;
}

double difference(const Dense<double>& a, const Dense<double>& b) {
  EXPECT_EQ(a.shape, b.shape);
  double most = 0;
  for (std::size_t i = 0; i < a.data.size(); ++i) {
    most = std::max(most, std::abs(a.data[i] - b.data[i]));
  }
  return most;
}

// Checks that a token computed with the cache of the tokens before it is the last one of a pass
// over all of them.
void expect_decodes(const std::string& name, const std::string& settings) {
  SCOPED_TRACE(name + ":" + settings);
  constexpr std::int64_t kContext = 5;
  const auto whole =
      convert_to_inference(build(fmt::format("{}:{},seq={}", name, settings, kContext)));
  const auto step = build(fmt::format("{}:{},cache={}", name, settings, kContext - 1));
  const auto feed = graph::make_feed_values<double>(whole);
  const auto all = graph::run_forward<double>(whole, feed);
  ASSERT_EQ(whole.outputs().size(), step.outputs().size());

  // The values by name: weights are those of the whole pass, the token is its last one.
  std::map<std::string, Dense<double>> given;
  for (auto id : whole.ids()) given[whole.node(id).name] = all[id.index()];
  given["tokens"] = slice(given["tokens"], 1, kContext - 1, 1);
  std::size_t cache = 1;
  const auto one = graph::run_forward<double>(step, [&](NodeId id) {
    const auto& node = step.node(id);
    if (!node.name.ends_with("_cache")) return given.at(node.name);
    return slice(all[whole.outputs()[cache++].index()], 2, 0, kContext - 1);
  });
  EXPECT_EQ(cache, step.outputs().size());
  const auto result = [](const Graph& graph, const auto& values, std::size_t output) {
    return values[graph.outputs()[output].index()];
  };
  EXPECT_LE(difference(result(step, one, 0), slice(result(whole, all, 0), 1, kContext - 1, 1)),
            1e-12);
  for (std::size_t o = 1; o < step.outputs().size(); ++o) {
    EXPECT_LE(difference(result(step, one, o), result(whole, all, o)), 1e-12) << o;
  }
}

TEST(Inference, ComputesTheSameTokenFromTheCache) {
  const std::string sizes = "layers=2,hidden=8,heads=2,ffn=12,vocab=11";
  const std::string grouped = "layers=2,hidden=16,heads=4,kv_heads=2,ffn=12,vocab=11";
  for (const std::string attention : {",attention=plain", ",attention=fused"}) {
    expect_decodes("gpt2", sizes + attention);
    expect_decodes("llama3_8b", grouped + attention);
    expect_decodes("mixtral_8x7b", grouped + ",experts=3,active_experts=2" + attention);
  }
}

}  // namespace
}  // namespace tandem::models
