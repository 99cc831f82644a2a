#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "graph/fold.h"
#include "graph/sequential.h"
#include "graph/text.h"
#include "models/model.h"
#include "models/small_models_test_support.h"
#include "ops/attributes.h"
#include "ops/registry.h"

namespace tandem::models {
namespace {

using graph::Graph;
using graph::NodeId;

Graph build(std::string_view text, std::int64_t batch = 8) {
  return parse_model(text).build(batch, DType::kFp32);
}

std::int64_t parameters(std::string_view text) { return count_parameters(build(text)); }

std::string small(const std::string& name) { return name + ":" + small_models().at(name).settings; }

// --- Parameters and operations, counted by hand --------------------------------------------------

TEST(Models, MlpParameters) {
  EXPECT_EQ(parameters("mlp:layers=2,inputs=784,hidden=512,outputs=10"), 784 * 512 + 512 * 10);
  EXPECT_EQ(parameters("mlp:variant=artifact,layers=2,inputs=3,hidden=5,outputs=7"),
            2 * (3 * 5 + 5 * 7));
}

TEST(Models, BertLargeParameters) {
  // A layer has Q, K, V and the output projection, two FFN matrices, all with biases, and two
  // norms.
  const std::int64_t h = 1024;
  const std::int64_t layer = 4 * (h * h + h) + 2 * h * 4096 + 4096 + h + 2 * 2 * h;
  const std::int64_t embedding = (30522 + 512 + 2) * h + 2 * h;
  const std::int64_t head = h * h + h + 2 * h + 30522;
  EXPECT_EQ(parameters("bert_large"), embedding + 24 * layer + head);
  EXPECT_EQ(parameters("bert_large:layers=1"), embedding + layer + head);
  EXPECT_EQ(count_weight_bytes(parse_model("bert_large").build(8, DType::kBf16)).value,
            2.0 * static_cast<double>(embedding + 24 * layer + head));
  // Head count and sequence length change nothing, up to the 512 positions that are learned.
  EXPECT_EQ(parameters("bert_large:layers=1,heads=8,seq=64"), embedding + layer + head);
  EXPECT_EQ(parameters("bert_large:layers=1,seq=1024"), embedding + 512 * h + layer + head);
}

TEST(Models, DecoderParameters) {
  // Llama has grouped heads, three matrices per feed-forward block and two norms; a table, a norm
  // and an LM head.
  EXPECT_EQ(parameters("llama3_8b:layers=2,hidden=16,heads=4,kv_heads=2,ffn=20,vocab=30,seq=8"),
            2 * (2 * 16 * 16 + 2 * 8 * 16 + 3 * 16 * 20 + 2 * 16) + 30 * 16 + 16 + 30 * 16);
  // Every expert has the three matrices; there is one router.
  EXPECT_EQ(parameters("mixtral_8x7b:layers=1,hidden=16,heads=4,kv_heads=1,ffn=20,vocab=30,seq=8,"
                       "experts=5"),
            2 * 16 * 16 + 2 * 4 * 16 + 5 * 3 * 16 * 20 + 5 * 16 + 2 * 16 + 2 * 30 * 16 + 16);
  // GPT-2 has biases, 1024 positions and the LM head tied to the table.
  EXPECT_EQ(parameters("gpt2:layers=1,hidden=16,heads=4,ffn=20,vocab=30,seq=8"),
            4 * (16 * 16 + 16) + 2 * 16 * 20 + 20 + 16 + 4 * 16 + (30 + 1024) * 16 + 2 * 16);
}

TEST(Models, DlrmParameters) {
  const std::int64_t tables = 26LL * 1000000 * 64;
  const std::int64_t bottom = 13 * 512 + 512 * 256 + 256 * 64;
  const std::int64_t top = (64 + 26 * 64) * 512 + 512 * 256 + 256 * 1;
  EXPECT_EQ(parameters("dlrm"), tables + bottom + top);
  EXPECT_EQ(parameters("dlrm:tables=2,rows=10,dim=4,dense=3,bottom=4,top=5-1"),
            2 * 10 * 4 + 3 * 4 + (4 + 2 * 4) * 5 + 5);
}

TEST(Models, ForwardFlops) {
  const auto flops = [](std::string_view text) { return count_forward_flops(build(text)).value; };
  // There is a multiplication and an addition per weight and sample, and a little for the loss.
  const double matmuls = 2.0 * 8 * (784 * 512 + 512 * 10);
  EXPECT_GE(flops("mlp:layers=2,inputs=784,hidden=512,outputs=10"), matmuls);
  EXPECT_LE(flops("mlp:layers=2,inputs=784,hidden=512,outputs=10"), 1.01 * matmuls);
  // A layer of BERT has 2 x parameters x tokens, and the two attention matmuls.
  const double tokens = 8.0 * 512;
  const double bert = tokens * (2 * (4 * 1024.0 * 1024 + 2 * 1024 * 4096) + 4 * 512.0 * 1024);
  const double layer = flops("bert_large:layers=2") - flops("bert_large:layers=1");
  EXPECT_GE(layer, bert);
  EXPECT_LE(layer, 1.02 * bert);
}

TEST(Models, GiveEachExpertItsShareOfTheTokens) {
  const auto expert_density = [](const std::string& settings) {
    const auto graph = build(
        "mixtral_8x7b:layers=1,hidden=16,heads=4,kv_heads=4,ffn=8,vocab=9,"
        "seq=8," +
        settings);
    for (auto id : graph.ids()) {
      if (graph.node(id).name == "l0.expert_down") return graph.node(id).type.density;
    }
    return -1.0;
  };
  EXPECT_EQ(expert_density("experts=8,active_experts=2"), 0.25);
  EXPECT_EQ(expert_density("experts=8,active_experts=2,imbalance=1.5"), 0.375);
  EXPECT_EQ(expert_density("experts=8,active_experts=2,imbalance=9"), 1);
  EXPECT_EQ(expert_density("experts=4,active_experts=4"), 1);
  // Twice the experts cost parameters, but no operations.
  const auto flops = [](std::string_view text) { return count_forward_flops(build(text)).value; };
  EXPECT_NEAR(flops("mixtral_8x7b:experts=16,layers=1") / flops("mixtral_8x7b:layers=1"), 1, 0.001);
}

TEST(Models, BatchNormGroups) {
  const auto group = [](const std::string& model, std::int64_t batch) {
    const auto graph = build(model, batch);
    for (auto id : graph.ids()) {
      const auto& op = graph.node(id).op;
      if (op.is(ops::kBatchNorm)) return op.get<ops::BatchNorm>().group;
    }
    return std::int64_t{-1};
  };
  for (const std::string model : {"resnext50", "inception_v3"}) {
    EXPECT_EQ(group(model, 64), 64);
    EXPECT_EQ(group(model, 128), 64);
    EXPECT_EQ(group(model, 96), 0);
    EXPECT_EQ(group(model, 32), 0);
  }
  for (const std::string model : {"resnet50", "nasnet_a"}) {
    EXPECT_EQ(group(model, 96), 32);
    EXPECT_EQ(group(model, 16), 0);
  }
  EXPECT_EQ(group("resnet50:bn_group=8", 64), 8);
  EXPECT_EQ(group("resnet50:bn_group=128", 128), 128);
}

// --- Properties of every network ----------------------------------------------------------------

// Rows that pad a vocabulary change nothing: the loss and the other rows' gradients are the same,
// and their own gradient is zero. (Weights are fed by name and index, so the real rows are equal.)
TEST(Models, PadTheVocabularyWithoutEffect) {
  using term::Field;
  const auto step = [](const Graph& g) {
    const auto values = graph::run_forward(g, graph::make_feed_values<Field>(g, 7));
    auto gradients = graph::run_backward(g, values, graph::make_loss_gradient<Field>(g));
    return std::pair(values[g.outputs()[0].index()], std::move(gradients));
  };
  for (const auto* name : {"gpt2", "llama3_8b"}) {  // with tied and untied LM head
    const auto plain = build(small(name), 2);
    const auto padded = build(small(name) + ",vocab_pad=8", 2);
    const auto expected = step(plain);
    const auto actual = step(padded);
    EXPECT_EQ(actual.first, expected.first) << name;
    std::map<std::string, NodeId> by_name;
    for (auto id : padded.ids()) by_name[padded.node(id).name] = id;
    int larger = 0;
    for (auto id : plain.ids()) {
      if (!is_weight(plain.node(id))) continue;
      auto wanted = expected.second[id.index()].data;
      const auto& got = actual.second[by_name.at(plain.node(id).name).index()];
      const bool has_more = got.data.size() > wanted.size();
      larger += has_more ? 1 : 0;
      if (has_more) {
        EXPECT_EQ(got.shape[0], 16);  // 11 rows and 5 of padding
      }
      wanted.resize(got.data.size());
      EXPECT_EQ(got.data, wanted) << name << " " << plain.node(id).name;
    }
    EXPECT_EQ(larger, plain.name() == "gpt2" ? 1 : 2);
  }
}

TEST(Models, LeadEveryInputWithTheBatch) {
  for (const auto* spec : all_models()) {
    const auto graph = parse_model(spec->name).build(24, DType::kFp16);
    for (auto id : graph.ids()) {
      const auto& node = graph.node(id);
      SCOPED_TRACE(spec->name + " " + node.name);
      EXPECT_TRUE(!is_input(node) || node.type.shape.sizes[0] == 24);
      EXPECT_TRUE(is_integer(node.type.dtype) || node.type.dtype == DType::kFp16);
    }
    ASSERT_EQ(graph.outputs().size(), 1U);
    EXPECT_EQ(graph.node(graph.outputs()[0]).type.shape.rank(), 0U) << spec->name;
  }
}

TEST(Models, RoundTripText) {
  for (const auto* spec : all_models()) {
    SCOPED_TRACE(spec->name);
    const auto graph = build(spec->name, spec->train_batch);
    const auto text = graph::to_text(graph);
    const auto again = graph::parse_graph(text);
    EXPECT_EQ(graph::to_text(again), text);
    EXPECT_EQ(again.identity_hash(), graph.identity_hash());
    EXPECT_EQ(again.shape_hash(), graph.shape_hash());
  }
}

TEST(Models, RoundTripFoldedText) {
  std::vector<std::string> texts = {"mlp:layers=1",           "mlp:layers=3",
                                    "mlp:layers=5,hidden=64", "bert_large:layers=1",
                                    "bert_large:layers=2",    "dlrm:tables=2"};
  for (const auto* spec : all_models()) texts.push_back(spec->name);
  for (const auto& text : texts) {
    SCOPED_TRACE(text);
    const auto graph = build(text);
    const auto again = graph::parse_graph(graph::to_folded_text(graph));
    EXPECT_EQ(graph::to_text(again), graph::to_text(graph));
    EXPECT_EQ(again.identity_hash(), graph.identity_hash());
    EXPECT_EQ(again.shape_hash(), graph.shape_hash());
  }
}

TEST(Models, FoldLayers) {
  const auto lines = [](const std::string& text) { return graph::fold(build(text)).size(); };
  EXPECT_EQ(lines("bert_large"), lines("bert_large:layers=1") + 3);
  for (const auto* spec : all_models()) {
    const Settings settings(spec->name, spec->hyperparameters);
    for (const std::string key : {"layers", "tables"}) {
      if (!settings.has(key)) continue;
      // The tables of MAD-Max's networks are one tensor.
      EXPECT_EQ(lines(fmt::format("{}:{}=40", spec->name, key)),
                lines(fmt::format("{}:{}=10", spec->name, key)))
          << spec->name << " " << key;
    }
  }
  EXPECT_EQ(lines("resnet50:blocks=9"), lines("resnet50:blocks=4"));
  EXPECT_EQ(lines("candle_uno:towers=9,features=5"), lines("candle_uno:towers=4,features=5"));
}

TEST(Models, DeclareWeightsBeforeTheirFirstUse) {
  for (const auto* spec : all_models()) {
    const auto graph = build(spec->name);
    const auto consumers = graph.consumers();
    for (auto id : graph.ids()) {
      if (!is_weight(graph.node(id))) continue;
      ASSERT_FALSE(consumers[id.index()].empty());
      for (auto i = id.index(); i < consumers[id.index()][0].index(); ++i) {
        EXPECT_EQ(graph.node(NodeId(i)).op.role(), ops::Role::kSource)
            << spec->name << " " << graph.node(id).name << " before " << graph.node(NodeId(i)).name;
      }
    }
  }
}

TEST(Models, DependOnEveryHyperparameter) {
  ASSERT_EQ(small_models().size(), all_models().size());
  for (const auto* spec : all_models()) {
    const auto graph = build(small(spec->name));
    for (const auto& h : spec->hyperparameters) {
      SCOPED_TRACE(spec->name + " " + h.key);
      if (h.key == "aux") continue;  // needs a large image
      const auto& others = small_models().at(spec->name).others;
      const auto other = others.find(h.key);
      if (other == others.end()) {
        // The sizes of these two come from the artifact, because the paper gives none.
        EXPECT_TRUE(h.key == "variant" && (spec->name == "xdl" || spec->name == "candle_uno"));
        const auto same = build(small(spec->name) + ",variant=artifact");
        EXPECT_EQ(same.identity_hash(), graph.identity_hash());
        continue;
      }
      const auto changed = build(fmt::format("{},{}={}", small(spec->name), h.key, other->second));
      EXPECT_NE(changed.shape_hash(), graph.shape_hash());
    }
  }
  EXPECT_NE(build("inception_v3:aux=true").shape_hash(), build("inception_v3").shape_hash());
}

// The loss is a number, and changes with every weight that can change it.
TEST(Models, DifferentiateEveryWeight) {
  for (const auto& [name, model] : small_models()) {
    for (const std::string variant : {"published", "artifact"}) {
      const bool has_variant = model.others.contains("variant");
      if (variant == "artifact" && !has_variant) continue;
      SCOPED_TRACE(name + " " + variant);
      const auto graph = build(small(name) + (has_variant ? ",variant=" + variant : ""), 4);
      const auto values =
          graph::run_forward<double>(graph, graph::make_feed_values<double>(graph, 1, 0));
      EXPECT_TRUE(std::isfinite(values[graph.outputs()[0].index()].data[0]));
      const auto gradients =
          graph::run_backward<double>(graph, values, graph::make_loss_gradient<double>(graph));
      for (auto id : graph.ids()) {
        if (!is_weight(graph.node(id))) continue;
        const auto& g = gradients[id.index()].data;
        EXPECT_TRUE(std::ranges::any_of(g, [](double v) { return v != 0; })) << graph.node(id).name;
        EXPECT_TRUE(std::ranges::all_of(g, [](double v) { return std::isfinite(v); }));
      }
    }
  }
}

TEST(Models, AreSortedAndDocumented) {
  std::string last;
  for (const auto* spec : all_models()) {
    EXPECT_LT(last, spec->name);
    last = spec->name;
    EXPECT_FALSE(spec->doc.empty());
    for (const auto& h : spec->hyperparameters) EXPECT_FALSE(h.doc.empty()) << spec->name << h.key;
  }
}

// --- Settings ------------------------------------------------------------------------------------

TEST(Models, OverrideDefaultsOfTheArtifact) {
  EXPECT_EQ(parameters("dlrm:variant=artifact,tables=2"),
            parameters("dlrm:tables=2,variant=artifact"));
  EXPECT_EQ(parameters("dlrm:variant=artifact") - parameters("dlrm:variant=artifact,tables=3"),
            1000000 * 64 + 64 * 64);
  EXPECT_EQ(parameters("dlrm:variant=published"), parameters("dlrm"));
}

TEST(ModelErrors, NameTheCauseAndTheAlternatives) {
  struct Case {
    std::string_view text, message;
  };
  const Case cases[] = {
      {"mpl", "mpl: unknown model (did you mean 'mlp'?)"},
      {"llama3_8", "llama3_8: unknown model (did you mean 'llama3_8b'?)"},
      {"transformer", "transformer: unknown model (`tandem models` lists the models)"},
      {"", "unknown model (`tandem models` lists the models)"},
      {"mlp:depth=2",
       "mlp: has no hyperparameter 'depth' (hyperparameters: layers, hidden, inputs, outputs, "
       "variant)"},
      {"mlp:layers", "mlp: 'layers' does not have the form key=value"},
      {"mlp:layers=2,,hidden=4", "mlp: '' does not have the form key=value"},
      {"gpt2:layers=1048577",
       "gpt2: 'layers' cannot be '1048577' (expected at most 1048576 layers)"},
      {"mlp:layers=two", "mlp: 'layers' cannot be 'two' (expected an integer of at least 1)"},
      {"mlp:layers=0", "mlp: 'layers' cannot be '0' (expected an integer of at least 1)"},
      {"mlp:hidden=1e3", "mlp: 'hidden' cannot be '1e3' (expected an integer of at least 1)"},
      {"mlp:hidden=", "mlp: 'hidden' cannot be '' (expected an integer of at least 1)"},
      {"mlp:variant=paper", "mlp: 'variant' cannot be 'paper' (expected published or artifact)"},
      {"xdl:variant=paper", "xdl: 'variant' cannot be 'paper' (expected published or artifact)"},
      {"candle_uno:variant=",
       "candle_uno: 'variant' cannot be '' (expected published or artifact)"},
      {"resnet50:variant=artifact",
       "resnet50: has no hyperparameter 'variant' (hyperparameters: image, classes, width, "
       "bn_group, "
       "blocks)"},
      {"dlrm:top=5-x", "dlrm: 'top' cannot be '5-x' (expected sizes like 512-256-64)"},
      {"dlrm:bottom=3x", "dlrm: 'bottom' cannot be '3x' (expected sizes like 512-256-64)"},
      {"dlrm:bottom=0x4", "dlrm: 'bottom' cannot be '0x4' (expected sizes like 512-256-64)"},
      {"dlrm:bottom=2x3x4", "dlrm: 'bottom' cannot be '2x3x4' (expected sizes like 512-256-64)"},
      {"dlrm:bottom=9999999999x4",
       "dlrm: 'bottom' cannot be '9999999999x4' (expected sizes like 512-256-64)"},
      {"dlrm:bottom=5--4", "dlrm: 'bottom' cannot be '5--4' (expected sizes like 512-256-64)"},
      {"bert_large:hidden=8,heads=3", "bert_large: hidden 8 is not a multiple of heads 3"},
      {"gpt2:attention=flash",
       "gpt2: 'attention' cannot be 'flash' (expected plain or fused or wide)"},
      {"llama3_8b:kv_heads=5", "llama3_8b: heads 32 is not a multiple of kv_heads 5"},
      {"llama3_8b:kv_heads=64", "llama3_8b: heads 32 is not a multiple of kv_heads 64"},
      {"llama_65b:kv_heads=all",
       "llama_65b: 'kv_heads' cannot be 'all' (expected an integer of at least 1)"},
      {"llama_65b:hidden=9,heads=3",
       "llama_65b: hidden 9 / heads 3 is odd, but rotary embeddings need an even head width"},
      {"mixtral_8x7b:experts=1", "mixtral_8x7b: active_experts 2 is more than experts 1"},
      {"mixtral_8x7b:imbalance=0.5",
       "mixtral_8x7b: imbalance must be at least 1, which is perfect balance"},
      {"mixtral_8x7b:imbalance=even",
       "mixtral_8x7b: 'imbalance' cannot be 'even' (expected a number above 0)"},
      {"mixtral_8x7b:imbalance=0",
       "mixtral_8x7b: 'imbalance' cannot be '0' (expected a number above 0)"},
      {"dlrm:tables=63", "dlrm: 'tables' is 63, but may be at most 62"},
      {"xdl:tables=64", "xdl: 'tables' is 64, but may be at most 63"},
      {"inception_v3:image=74", "inception_v3: image 74 is smaller than 75"},
      {"inception_v3:image=298,aux=true",
       "inception_v3: image 298 is smaller than 299, which the auxiliary head needs"},
      {"inception_v3:aux=yes", "inception_v3: 'aux' cannot be 'yes' (expected false or true)"},
      {"inception_v3:width=5",
       "inception_v3: width 5 gives 12.5 filters, not an integer (80 * width / 32)"},
      {"nasnet_a:image=31", "nasnet_a: image 31 is smaller than 32"},
      {"nasnet_a:width=6", "nasnet_a: width 6 is not a multiple of 4"},
      {"resnet50:bn_group=3", "resnet50: batch 4 is not a multiple of bn_group 3"},
      {"resnet50:bn_group=-1",
       "resnet50: 'bn_group' cannot be '-1' (expected an integer of at least 0)"},
  };
  for (const auto& c : cases) {
    try {
      (void)build(c.text, 4);
      ADD_FAILURE() << c.text << " was accepted";
    } catch (const UserError& e) {
      EXPECT_EQ(e.what(), std::string(c.message));
      EXPECT_EQ(e.kind, "model");
    }
  }
}

TEST(ModelErrors, IgnoreSpacesAndOrder) {
  EXPECT_EQ(parameters("mlp: hidden = 6, layers=2 ,inputs=4,outputs=2"), 4 * 6 + 6 * 2);
  EXPECT_EQ(parameters("mlp:"), parameters("mlp"));
  EXPECT_EQ(build("dlrm:bottom=2x8-3x5").identity_hash(),
            build("dlrm:bottom=8-8-5-5-5").identity_hash());
}

}  // namespace
}  // namespace tandem::models
