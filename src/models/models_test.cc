#include <gtest/gtest.h>

#include "graph/fold.h"
#include "graph/text.h"
#include "models/model.h"

namespace tandem::models {
namespace {

std::int64_t parameters(std::string_view text) {
  return count_parameters(parse_model(text).build(8, DType::kFp32));
}

TEST(Models, MlpParameters) {
  EXPECT_EQ(parameters("mlp:layers=2,inputs=784,hidden=512,outputs=10"), 784 * 512 + 512 * 10);
  EXPECT_EQ(parameters("mlp"), std::int64_t{16} * 8192 * 8192);
}

TEST(Models, BertLargeEncoderParameters) {
  // Q, K, V and the output projection, two FFN matrices, scale and shift of two norms; no biases.
  const std::int64_t h = 1024;
  const std::int64_t layer = 4 * h * h + 2 * h * 4096 + 2 * 2 * h;
  EXPECT_EQ(parameters("bert_large"), 24 * layer);
  EXPECT_EQ(parameters("bert_large:layers=1"), layer);
  // 302 M of the 340 M published; the rest are embeddings, biases and the head.
  EXPECT_EQ(parameters("bert_large"), 302088192);
  EXPECT_EQ(weights_bytes(parse_model("bert_large").build(8, DType::kBf16)).value,
            2.0 * 24 * layer);
  // Head count and sequence length change none.
  EXPECT_EQ(parameters("bert_large:layers=1,heads=8,seq=64"), layer);
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
  const auto flops = [](std::string_view text) {
    return count_forward_flops(parse_model(text).build(8, DType::kFp32)).value;
  };
  // A multiplication and an addition per weight and sample, and the small change of the loss.
  const double products = 2.0 * 8 * (784 * 512 + 512 * 10);
  EXPECT_GE(flops("mlp:layers=2,inputs=784,hidden=512,outputs=10"), products);
  EXPECT_LE(flops("mlp:layers=2,inputs=784,hidden=512,outputs=10"), 1.01 * products);
  // BERT: 2 x parameters x tokens, and the two attention products.
  const double tokens = 8.0 * 512;
  const double bert = tokens * (2 * (4 * 1024.0 * 1024 + 2 * 1024 * 4096) + 4 * 512.0 * 1024);
  EXPECT_GE(flops("bert_large:layers=1"), bert);
  EXPECT_LE(flops("bert_large:layers=1"), 1.02 * bert);
}

TEST(Models, TheBatchIsTheLeadingDimensionOfEveryInput) {
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

TEST(Models, TextParsesBack) {
  for (const auto* spec : all_models()) {
    SCOPED_TRACE(spec->name);
    const auto graph = parse_model(spec->name).build(spec->train_batch, DType::kFp32);
    const auto text = graph::to_text(graph);
    const auto again = graph::parse_graph(text);
    EXPECT_EQ(graph::to_text(again), text);
    EXPECT_EQ(again.identity_hash(), graph.identity_hash());
    EXPECT_EQ(again.shape_hash(), graph.shape_hash());
  }
}

TEST(Models, FoldedTextParsesBack) {
  std::vector<std::string> texts = {"mlp:layers=1",           "mlp:layers=3",
                                    "mlp:layers=5,hidden=64", "bert_large:layers=1",
                                    "bert_large:layers=2",    "dlrm:tables=2"};
  for (const auto* spec : all_models()) texts.push_back(spec->name);
  for (const auto& text : texts) {
    SCOPED_TRACE(text);
    const auto graph = parse_model(text).build(8, DType::kFp32);
    const auto again = graph::parse_graph(graph::to_folded_text(graph));
    EXPECT_EQ(graph::to_text(again), graph::to_text(graph));
    EXPECT_EQ(again.identity_hash(), graph.identity_hash());
    EXPECT_EQ(again.shape_hash(), graph.shape_hash());
  }
}

TEST(Models, LayersFold) {
  const auto lines = [](std::string_view text) {
    return graph::fold(parse_model(text).build(8, DType::kFp32)).size();
  };
  EXPECT_EQ(lines("bert_large"), lines("bert_large:layers=1") + 3);
  EXPECT_EQ(lines("bert_large:layers=96"), lines("bert_large"));
  EXPECT_EQ(lines("mlp:layers=100"), lines("mlp:layers=10"));
  EXPECT_EQ(lines("dlrm:tables=26"), lines("dlrm:tables=10"));
}

TEST(Models, AreInAlphabeticalOrderAndDocumented) {
  std::string last;
  for (const auto* spec : all_models()) {
    EXPECT_LT(last, spec->name);
    last = spec->name;
    EXPECT_FALSE(spec->doc.empty());
    for (const auto& h : spec->hyperparameters) EXPECT_FALSE(h.doc.empty()) << spec->name << h.key;
  }
}

TEST(ModelErrors, SayWhatIsWrongAndWhatThereIs) {
  struct Case {
    std::string_view text, message;
  };
  const Case cases[] = {
      {"mpl", "mpl: there is no such model (did you mean 'mlp'?)"},
      {"bert", "bert: there is no such model (`tandem models` lists them)"},
      {"", "there is no such model (`tandem models` lists them)"},
      {"mlp:depth=2",
       "mlp: has no hyperparameter 'depth' (it has: layers, hidden, inputs, outputs)"},
      {"mlp:layers", "mlp: 'layers' is not key=value"},
      {"mlp:layers=2,,hidden=4", "mlp: '' is not key=value"},
      {"mlp:layers=two", "mlp: 'layers' cannot be 'two' (expected a whole number from 1)"},
      {"mlp:layers=0", "mlp: 'layers' cannot be '0' (expected a whole number from 1)"},
      {"mlp:hidden=1e3", "mlp: 'hidden' cannot be '1e3' (expected a whole number from 1)"},
      {"mlp:hidden=", "mlp: 'hidden' cannot be '' (expected a whole number from 1)"},
      {"dlrm:top=5-x", "dlrm: 'top' cannot be '5-x' (expected sizes like 512-256-64)"},
      {"dlrm:bottom=5--4", "dlrm: 'bottom' cannot be '5--4' (expected sizes like 512-256-64)"},
      {"bert_large:hidden=8,heads=3", "bert_large: hidden 8 is not a multiple of heads 3"},
  };
  for (const auto& c : cases) {
    try {
      (void)parse_model(c.text).build(4, DType::kFp32);
      ADD_FAILURE() << c.text << " was accepted";
    } catch (const UserError& e) {
      EXPECT_EQ(e.what(), std::string(c.message));
      EXPECT_EQ(e.kind, "model");
    }
  }
}

TEST(ModelErrors, SpacesAndOrderDoNotMatter) {
  EXPECT_EQ(parameters("mlp: hidden = 6, layers=2 ,inputs=4,outputs=2"), 4 * 6 + 6 * 2);
  EXPECT_EQ(parameters("mlp:"), parameters("mlp"));
}

}  // namespace
}  // namespace tandem::models
