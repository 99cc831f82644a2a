#include "import/collection_json.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/error_test_support.h"
#include "base/random.h"
#include "import/collection_test_support.h"
#include "rewrite/rule_text.h"

namespace tandem::import {

using rewrite::parse_rules;

namespace {

using Parameters = std::map<std::string, int>;

const Parameters kConv3 = {{"PM_KERNEL_H", 3}, {"PM_KERNEL_W", 3}, {"PM_STRIDE_H", 1},
                           {"PM_STRIDE_W", 1}, {"PM_PAD", 0},      {"PM_ACTI", 0}};

Parameters add_parameter(Parameters out, const std::string& key, int value) {
  out[key] = value;
  return out;
}
Parameters concat_on(int axis, int rank) {
  return {{"PM_NUM_INPUTS", 2}, {"PM_AXIS", axis}, {"PM_NUMDIM", rank}};
}
Parameters split_on(int axis) { return {{"PM_NUM_OUTPUTS", 2}, {"PM_AXIS", axis}}; }
Parameters parallel(int dim) { return {{"PM_PARALLEL_DIM", dim}, {"PM_PARALLEL_DEGREE", 2}}; }

struct Case {
  TestJson rule;
  std::string text;  // the expected text of the imported rule
};

// Returns cases without parallelization, whose dimensions are counted from the first.
std::vector<Case> plain_cases() {
  const auto acti = [](int a) { return Parameters{{"PM_ACTI", a}}; };
  return {
      {rule("fuse-relu", {op("OP_LINEAR", {-1, -4}, acti(0)), op("OP_RELU", {0})},
            {op("OP_LINEAR", {-1, -4}, acti(2))}),
       "fuse-relu: (relu (linear ?x1 ?w4)) => (linear ?x1 ?w4 act=relu)"},
      {rule("activations", {op("OP_SIGMOID", {-1}), op("OP_TANH", {0})},
            {op("OP_LINEAR", {-1, -4}, acti(3))}),
       "?w4 is not bound by the source"},
      {rule("add-commutes", {op("OP_EW_ADD", {-1, -2})}, {op("OP_EW_ADD", {-2, -1})}),
       "add-commutes: (add ?x1 ?x2) => (add ?x2 ?x1) if same_shape(?x1, ?x2)"},
      {rule("mul-distributes", {op("OP_EW_ADD", {-1, -2}), op("OP_EW_MUL", {0, -3})},
            {op("OP_EW_MUL", {-1, -3}), op("OP_EW_MUL", {-2, -3}), op("OP_EW_ADD", {0, 1})}),
       "mul-distributes: (mul (add ?x1 ?x2) ?x3) => (add (mul ?x1 ?x3) (mul ?x2 ?x3)) if "
       "same_shape(?x1, ?x2) and same_shape(?x1, ?x3)"},
      {rule("scalar",
            {op("OP_MUL", {-1, -2}),
             op("OP_TRANSPOSE", {0}, {{"PM_NUMDIM", 2}, {"PM_PERM", 2}, {"PM_OUTSHUFFLE", 1}})},
            {op("OP_TRANSPOSE", {-1}, {{"PM_NUMDIM", 2}, {"PM_PERM", 2}, {"PM_OUTSHUFFLE", 1}}),
             op("OP_MUL", {0, -2})}),
       "scalar: (transpose (mul ?x1 ?x2) perm=[1, 0]) => (mul (transpose ?x1 perm=[1, 0]) ?x2) if "
       "rank(?x2) == 1 and dim(?x2, 0) == 1 and rank(?x1) == 2"},
      {rule("share-matmul", {op("OP_MATMUL", {-1, -4}), op("OP_MATMUL", {-2, -4})},
            {op("OP_CONCAT", {-1, -2}, concat_on(0, 2)), op("OP_MATMUL", {0, -4}),
             op("OP_SPLIT", {1}, split_on(0))},
            {{0, {2, 0}}, {1, {2, 1}}}),
       "share-matmul: (matmul ?x1 ?w4), (matmul ?x2 ?w4) => (slice (matmul (concat ?x1 ?x2) ?w4) "
       "size=dim(?x1, 0)), (slice (matmul (concat ?x1 ?x2) ?w4) begin=dim(?x1, 0) size=dim(?x2, "
       "0)) if dim(?x1, 1) == dim(?x2, 1) and rank(?x1) == 2 and rank(?w4) == 2 and rank(?x2) == "
       "2"},
      {rule("matmul-relu", {op("OP_MATMUL", {-1, -4}, acti(0)), op("OP_RELU", {0})},
            {op("OP_MATMUL", {-1, -4}, acti(2))}),
       "matmul-relu: (relu (matmul ?x1 ?w4)) => (relu (matmul ?x1 ?w4))"},
      {rule("conv-adds",
            {op("OP_CONV2D", {-1, -4}, kConv3), op("OP_CONV2D", {-1, -5}, kConv3),
             op("OP_EW_ADD", {0, 1})},
            {op("OP_EW_ADD", {-4, -5}), op("OP_CONV2D", {-1, 0}, kConv3)}),
       "conv-adds: (add (conv2d ?x1 ?w4 padding=[1, 1] groups=(dim(?x1, 1) / dim(?w4, 1))) (conv2d "
       "?x1 ?w5 padding=[1, 1] groups=(dim(?x1, 1) / dim(?w5, 1)))) => (conv2d ?x1 (add ?w4 ?w5) "
       "padding=[1, 1] groups=(dim(?x1, 1) / dim(?w4, 1))) if dim(?w4, 2) == 3 and dim(?w4, 3) == "
       "3 "
       "and dim(?w5, 2) == 3 and dim(?w5, 3) == 3 and dim(?w4, 0) == dim(?w5, 0) and "
       "same_shape(?w4, ?w5)"},
      {rule("conv-valid",
            {op("OP_CONV2D", {-1, -4},
                {{"PM_STRIDE_H", 2},
                 {"PM_STRIDE_W", 2},
                 {"PM_PAD", 1},
                 {"PM_ACTI", 0},
                 {"PM_GROUP", 1}}),
             op("OP_RELU", {0})},
            {op("OP_CONV2D", {-1, -4},
                {{"PM_STRIDE_H", 2},
                 {"PM_STRIDE_W", 2},
                 {"PM_PAD", 1},
                 {"PM_ACTI", 2},
                 {"PM_GROUP", 1}})}),
       "conv-valid: (relu (conv2d ?x1 ?w4 stride=[2, 2])) => (conv2d ?x1 ?w4 stride=[2, 2] "
       "act=relu)"},
      {rule("enlarge",
            {op("OP_CONV2D", {-1, -4},
                {{"PM_STRIDE_H", 1},
                 {"PM_STRIDE_W", 1},
                 {"PM_PAD", 0},
                 {"PM_ACTI", 0},
                 {"PM_GROUP", 1}})},
            {op("OP_ENLARGE", {-4}, {{"PM_KERNEL_H", 5}, {"PM_KERNEL_W", 3}}),
             op("OP_CONV2D", {-1, 0},
                {{"PM_STRIDE_H", 1},
                 {"PM_STRIDE_W", 1},
                 {"PM_PAD", 0},
                 {"PM_ACTI", 0},
                 {"PM_GROUP", 1}})}),
       "enlarge: (conv2d ?x1 ?w4 padding=[(dim(?w4, 2) - 1) / 2, (dim(?w4, 3) - 1) / 2]) => "
       "(conv2d ?x1 (pad (pad ?w4 axis=2 before=((5 - dim(?w4, 2)) / 2) after=((5 - dim(?w4, 2)) / "
       "2)) axis=3 before=((3 - dim(?w4, 3)) / 2) after=((3 - dim(?w4, 3)) / 2)) padding=[2, 1])"},
      {rule("identity-conv",
            {op("OP_CONSTANT_ICONV", {}, {{"PM_KERNEL_H", 3}, {"PM_KERNEL_W", 3}}),
             op("OP_CONV2D", {-1, 0}, add_parameter(kConv3, "PM_GROUP", 1)), op("OP_RELU", {1})},
            {op("OP_RELU", {-1})}),
       "identity-conv: (relu (conv2d ?x1 (pad (pad (reshape (constant shape=[dim(?x1, 1), dim(?x1, "
       "1)] kind=\"eye\" value=1) shape=[dim(?x1, 1), dim(?x1, 1), 1, 1]) axis=2 before=1 after=1) "
       "axis=3 before=1 after=1) padding=[1, 1])) => (relu ?x1)"},
      {rule("pool-as-conv",
            {op("OP_POOL2D_AVG", {-1},
                {{"PM_KERNEL_H", 3},
                 {"PM_KERNEL_W", 3},
                 {"PM_STRIDE_H", 1},
                 {"PM_STRIDE_W", 1},
                 {"PM_PAD", 0},
                 {"PM_ACTI", 0}})},
            {op("OP_CONSTANT_POOL", {}, {{"PM_KERNEL_H", 3}, {"PM_KERNEL_W", 3}}),
             op("OP_CONV2D", {-1, 0}, add_parameter(kConv3, "PM_GROUP", 1))}),
       "pool-as-conv: (avg_pool2d ?x1 kernel=[3, 3] padding=[1, 1]) => (conv2d ?x1 (avg_pool2d "
       "(pad (pad (reshape (constant shape=[dim(?x1, 1), dim(?x1, 1)] kind=\"eye\" value=1) "
       "shape=[dim(?x1, 1), dim(?x1, 1), 1, 1]) axis=2 before=1 after=1) axis=3 before=1 after=1) "
       "kernel=[3, 3] padding=[1, 1]) padding=[1, 1])"},
      {rule("identity-matrix",
            {op("OP_CONSTANT_IMM", {}), op("OP_MATMUL", {-1, 0}), op("OP_RELU", {1})},
            {op("OP_RELU", {-1})}),
       "identity-matrix: (relu (matmul ?x1 (constant shape=[dim(?x1, 1), dim(?x1, 1)] kind=\"eye\" "
       "value=1))) => (relu ?x1) if rank(?x1) == 2"},
      {rule("identity-added",
            {op("OP_MATMUL", {-1, -4}), op("OP_EW_ADD", {-1, 0}), op("OP_MATMUL", {1, -5})},
            {op("OP_CONSTANT_IMM", {}), op("OP_EW_ADD", {-4, 0}), op("OP_MATMUL", {1, -5}),
             op("OP_MATMUL", {-1, 2})}),
       "identity-added: (matmul (add ?x1 (matmul ?x1 ?w4)) ?w5) => (matmul ?x1 (matmul (add ?w4 "
       "(constant shape=[dim(?w4, 0), dim(?w4, 0)] kind=\"eye\" value=1)) ?w5)) if dim(?x1, 1) == "
       "dim(?w4, 1) and dim(?w4, 1) == dim(?w4, 0) and rank(?x1) == 2 and rank(?w4) == 2 and "
       "rank(?w5) == 2"},
      {rule("ones-added", {op("OP_EW_MUL", {-1, -2}), op("OP_EW_ADD", {-2, 0})},
            {op("OP_CONSTANT_ONE", {}), op("OP_EW_ADD", {-1, 0}), op("OP_EW_MUL", {-2, 1})}),
       "ones-added: (add ?x2 (mul ?x1 ?x2)) => (mul ?x2 (add ?x1 (constant value=1))) if "
       "same_shape(?x2, ?x1)"},
      {rule("ones",
            {op("OP_CONCAT", {-1, -2}, concat_on(1, 2)), op("OP_CONSTANT_ONE", {}),
             op("OP_EW_MUL", {0, 1})},
            {op("OP_CONCAT", {-1, -2}, concat_on(1, 2))}),
       "ones: (mul (concat ?x1 ?x2 axis=1) (constant shape=[dim(?x1, 0), dim(?x1, 1) + dim(?x2, "
       "1)] "
       "value=1)) => (concat ?x1 ?x2 axis=1) if rank(?x1) == 2 and rank(?x2) == 2"},
      {rule("max-pool",
            {op("OP_POOL2D_MAX", {-7},
                {{"PM_KERNEL_H", 2},
                 {"PM_KERNEL_W", 2},
                 {"PM_STRIDE_H", 2},
                 {"PM_STRIDE_W", 2},
                 {"PM_PAD", 1},
                 {"PM_ACTI", 2}})},
            {op("OP_RELU", {-7}), op("OP_POOL2D_MAX", {0},
                                     {{"PM_KERNEL_H", 2},
                                      {"PM_KERNEL_W", 2},
                                      {"PM_STRIDE_H", 2},
                                      {"PM_STRIDE_W", 2},
                                      {"PM_PAD", 1},
                                      {"PM_ACTI", 0}})}),
       "max-pool: (relu (max_pool2d ?x7 kernel=[2, 2] stride=[2, 2])) => (max_pool2d (relu ?x7) "
       "kernel=[2, 2] stride=[2, 2])"},
      {rule("softmax", {op("OP_SOFTMAX", {-1}), op("OP_DROPOUT", {0})},
            {op("OP_SOFTMAX", {-1}, {{"PM_SOFTMAX_DIM", 1}}), op("OP_DROPOUT", {0})}),
       "softmax: (dropout (softmax ?x1) p=?p origin=?origin) => (dropout (softmax ?x1 axis=1) p=?p "
       "origin=?origin)"},
      {rule("embedding",
            {op("OP_EMBEDDING", {-1, -4}), op("OP_EMBEDDING", {-1, -5}), op("OP_EW_ADD", {0, 1})},
            {op("OP_EW_ADD", {-4, -5}), op("OP_EMBEDDING", {-1, 0})}),
       "embedding: (add (embedding ?x1 ?w4) (embedding ?x1 ?w5)) => (embedding ?x1 (add ?w4 ?w5)) "
       "if same_shape(?w4, ?w5)"},
      {rule("normalised", {op("OP_BATCHNORM", {-1, -4, -5}), op("OP_IDENTITY", {0})},
            {op("OP_BATCHNORM", {-1, -4, -5})}),
       "normalised: (identity (batch_norm ?x1 ?w4 ?w5)) => (batch_norm ?x1 ?w4 ?w5)"},
      {rule("split-first", {op("OP_SPLIT", {-1}, split_on(0)), op("OP_RELU", {{0, 1}})},
            {op("OP_RELU", {-1}), op("OP_SPLIT", {0}, split_on(0))}, {{1, {1, 1}}}),
       "split-first: (relu (split ?x1 parts=2 part=1)) => (split (relu ?x1) parts=2 part=1)"},
      {rule("inputs", {op("OP_INPUT", {}), op("OP_WEIGHT", {}), op("OP_MATMUL", {0, 1})},
            {op("OP_INPUT", {}), op("OP_WEIGHT", {}), op("OP_MATMUL", {0, 1})}),
       "inputs: (matmul ?input0 ?input1) => (matmul ?input0 ?input1)"},
  };
}

// Returns cases with parallelization, where dimension 0 is the replica dimension.
std::vector<Case> parallel_cases() {
  return {
      {rule("move-partition", {op("OP_PARTITION", {-1}, parallel(2)), op("OP_RELU", {0})},
            {op("OP_RELU", {-1}), op("OP_PARTITION", {0}, parallel(2))}),
       "move-partition: (relu (partition ?x1 dim=1 degree=?d)) => (partition (relu ?x1) dim=1 "
       "degree=?d)"},
      {rule("split-relu", {op("OP_RELU", {-1})},
            {op("OP_PARTITION", {-1}, parallel(1)), op("OP_RELU", {0}),
             op("OP_COMBINE", {1}, parallel(1))}),
       "split-relu: (relu ?x1) => (combine (relu (partition ?x1 degree=?d)) degree=?d) choose ?d"},
      {rule("replicas",
            {op("OP_REPLICATE", {-1}, parallel(0)), op("OP_COMBINE", {0}, parallel(0)),
             op("OP_RELU", {1})},
            {op("OP_RELU", {-1})}),
       "replicas: (relu (unreplicate (replicate ?x1 degree=?d) degree=?d)) => (relu ?x1)"},
      {rule("contract", {op("OP_LINEAR", {-1, -4}, {{"PM_ACTI", 0}})},
            {op("OP_PARTITION", {-1}, parallel(2)), op("OP_PARTITION", {-4}, parallel(2)),
             op("OP_LINEAR", {0, 1}, {{"PM_ACTI", 0}}), op("OP_REDUCE", {2}, parallel(0))}),
       "contract: (linear ?x1 ?w4) => (reduce (linear (partition ?x1 dim=1 degree=?d) (partition "
       "?w4 dim=1 degree=?d)) degree=?d) choose ?d"},
      {rule("join", {op("OP_EW_ADD", {-1, -2})},
            {op("OP_CONCAT", {-1, -2}, concat_on(0, 3)), op("OP_REDUCE", {0}, parallel(0))}),
       "join: (add ?x1 ?x2) => (reduce (join ?x1 ?x2) degree=2) if same_shape(?x1, ?x2) and "
       "rank(?x1) == 2"},
      {rule("concat", {op("OP_CONCAT", {-1, -2}, concat_on(2, 3)), op("OP_RELU", {0})},
            {op("OP_RELU", {-1}), op("OP_RELU", {-2}), op("OP_CONCAT", {0, 1}, concat_on(2, 3))}),
       "concat: (relu (concat ?x1 ?x2 axis=1)) => (concat (relu ?x1) (relu ?x2) axis=1) if "
       "rank(?x1) == 2 and rank(?x2) == 2"},
      {rule("twice", {op("OP_REPLICATE", {-1}, parallel(1)), op("OP_REDUCE", {0}, parallel(1))},
            {op("OP_EW_ADD", {-1, -1})}),
       "twice: (add (split (combine (partition (concat ?x1 ?x1) degree=2) degree=2) parts=2) "
       "(split "
       "(combine (partition (concat ?x1 ?x1) degree=2) degree=2) parts=2 part=1)) => (add ?x1 "
       "?x1)"},
      {rule("replica-dimension", {op("OP_RELU", {-1})},
            {op("OP_PARTITION", {-1}, parallel(0)), op("OP_RELU", {0})}),
       "OP_PARTITION: dimension 0 is the replica dimension, not one of the tensor"},
      {rule("pipeline", {op("OP_RELU", {-1})}, {op("OP_PIPELINE", {-1}), op("OP_RELU", {0})}),
       "OP_PIPELINE: in tandem, micro-batches are not a node of a graph, but a part of layouts"},
  };
}

void expect_imports(const std::vector<Case>& cases) {
  std::vector<TestJson> rules;
  for (const auto& c : cases) rules.push_back(c.rule);
  std::size_t i = 0;
  for_each_imported_rule(collection(rules), "test", [&](const Imported& imported) {
    const auto& expected = cases[i++].text;
    EXPECT_EQ(imported.rule ? to_text(*imported.rule) : imported.lacking, expected);
  });
  EXPECT_EQ(i, cases.size());
}

TEST(CollectionJson, ReadsEveryOperator) { expect_imports(plain_cases()); }
TEST(CollectionJson, CountsDimensionsFromReplicas) { expect_imports(parallel_cases()); }

// Every imported rule can be exported, and is then imported as the same rule.
TEST(CollectionJson, ExportsImportedRules) {
  for (const auto& cases : {plain_cases(), parallel_cases()}) {
    std::vector<TestJson> rules;
    for (const auto& c : cases) rules.push_back(c.rule);
    const auto imported = import_collection(collection(rules), "test");
    const auto exported = export_collection(imported.rules);
    for (const auto& l : exported.lacking) ADD_FAILURE() << l.name << ": " << l.lacking;
    const auto again = import_collection(exported.text, "again");
    ASSERT_EQ(again.rules.size(), imported.rules.size());
    for (std::size_t i = 0; i < again.rules.size(); ++i) {
      EXPECT_EQ(again.rules[i].name, imported.rules[i].name);
      EXPECT_EQ(to_canonical_text(again.rules[i]), to_canonical_text(imported.rules[i]));
    }
  }
}

// Exports rules from text and imports them again.
TEST(CollectionJson, ExportsOwnRules) {
  const auto rules = parse_rules(
      "a: (relu (matmul ?a ?b)) => (relu (matmul ?a ?b))\n"
      "b: (add ?a ?b) => (add ?b ?a) if same_shape(?b, ?a)\n"
      "c: (add ?a ?b) => (add ?b ?a)\n"
      "d: (gelu ?a) => (gelu ?a) if dim(?a, 0) == 7\n"
      "e: (concat ?a ?b axis=?i) => (concat ?a ?b axis=?i)\n"
      "f: (linear ?a ?b act=silu) => (silu (linear ?a ?b))\n");
  const auto exported = export_collection(rules);
  EXPECT_EQ(exported.rules, 2U);
  std::string lacking;
  for (const auto& l : exported.lacking) lacking += l.name + ": " + l.lacking + "\n";
  EXPECT_EQ(lacking,
            "c: add: OP_EW_ADD does not broadcast, and the rule does not require same_shape(?a, "
            "?b)\nd: a collection cannot express 'dim(?a, 0) == 7'\ne: concat: the axis is a "
            "symbol, but must be a number\nf: OP_LINEAR: PM_ACTI cannot be silu\n");
  const auto again = import_collection(exported.text, "again");
  EXPECT_EQ(to_canonical_text(again.rules[0]), to_canonical_text(rules[0]));
  EXPECT_EQ(to_canonical_text(again.rules[1]), to_canonical_text(rules[1]));
}

// The operators alone do not determine how dimensions are counted. A parallel operator may occur
// only in a rule's name, or in rules that a collection cannot express.
TEST(CollectionJson, ExportsHowDimensionsAreCounted) {
  for (const auto* text :
       {"OP_REDUCE: (relu (softmax ?a axis=0)) => (relu (softmax ?a axis=0))\n",
        "a: (softmax ?a axis=0) => (softmax ?a axis=0)\n"
        "b: (silu (partition ?a dim=0 degree=?d)) => (partition (silu ?a) dim=0 degree=?d)\n",
        "a: (relu (join ?a ?b)) => (relu (join ?a ?b))\n"}) {
    const auto rules = parse_rules(text);
    const auto exported = export_collection(rules);
    const auto again = import_collection(exported.text, "again");
    ASSERT_EQ(again.rules.size(), exported.rules) << exported.text;
    ASSERT_GE(again.rules.size(), 1U);
    EXPECT_EQ(to_canonical_text(again.rules[0]), to_canonical_text(rules[0]));
  }
}

// Random sides of elementwise operators, matmuls and slices: every imported rule can be exported.
TEST(CollectionJson, RoundTripsRandomRules) {
  const std::uint64_t seed = 20'240'601;
  RecordProperty("seed", std::to_string(seed));
  std::uint64_t drawn = 0;
  const auto pick = [&](int n) { return static_cast<int>(draw_uniform(seed, 0, 0, drawn++) * n); };
  const auto side = [&](bool parallel_ones) {
    std::vector<TestJson> ops;
    const int n = 1 + pick(4);
    for (int i = 0; i < n; ++i) {
      const auto any = [&] { return pick(2) == 0 && i > 0 ? pick(i) : -1 - pick(3); };
      const int kinds = parallel_ones ? 9 : 6;
      switch (pick(kinds)) {
        case 0:
          ops.push_back(op("OP_RELU", {any()}));
          break;
        case 1:
          ops.push_back(op("OP_EW_ADD", {any(), any()}));
          break;
        case 2:
          ops.push_back(op("OP_EW_MUL", {any(), any()}));
          break;
        case 3:
          ops.push_back(op("OP_MATMUL", {any(), any()}));
          break;
        case 4:
          ops.push_back(op("OP_LINEAR", {any(), any()}, {{"PM_ACTI", pick(4)}}));
          break;
        case 5:
          ops.push_back(op("OP_CONCAT", {any(), any()},
                           concat_on(parallel_ones ? pick(3) : pick(2), parallel_ones ? 3 : 2)));
          break;
        case 6:
          ops.push_back(op("OP_PARTITION", {any()}, parallel(1 + pick(2))));
          break;
        case 7:
          ops.push_back(op("OP_REPLICATE", {any()}, parallel(pick(3))));
          break;
        default:
          ops.push_back(op("OP_REDUCE", {any()}, parallel(pick(3))));
          break;
      }
    }
    return ops;
  };
  std::size_t imported = 0;
  for (int round = 0; round < 400; ++round) {
    const bool parallel_ones = round % 2 == 1;
    const auto source = side(parallel_ones);
    const auto rules =
        import_collection(
            collection({rule("r", source, round % 3 == 0 ? source : side(parallel_ones))}),
            "random")
            .rules;
    if (rules.empty()) continue;
    ++imported;
    const auto exported = export_collection(rules);
    ASSERT_EQ(exported.rules, 1U) << "seed " << seed << " round " << round << "\n"
                                  << to_text(rules[0]) << "\n"
                                  << exported.lacking[0].lacking;
  }
  EXPECT_GT(imported, 200U) << "seed " << seed;
}

TEST(CollectionJson, ReportsUnsupportedParts) {
  const auto find_lacking = [](const TestJson& r) {
    const auto c = import_collection(collection({r}), "test");
    return c.lacking.empty() ? to_text(c.rules.at(0)) : c.lacking[0].lacking;
  };
  const auto of = [&](const TestJson& o) {
    return find_lacking(rule("r", {o}, {op("OP_RELU", {-1})}));
  };
  EXPECT_EQ(of(op("OP_FROBNICATE", {-1})), "OP_FROBNICATE: unknown operator");
  EXPECT_EQ(of(op("OP_RESHAPE", {-1})), "OP_RESHAPE: the collection does not give the shape");
  EXPECT_EQ(of(op("OP_RELU", {-1, -2})), "OP_RELU: takes 1 inputs, but has 2");
  EXPECT_EQ(of(op("OP_RELU", {-1}, {{"PM_AXES", 1}})), "OP_RELU: unknown parameter PM_AXES");
  EXPECT_EQ(of(op("OP_LINEAR", {-1, -4})), "OP_LINEAR: takes 3 inputs, but has 2");
  EXPECT_EQ(of(op("OP_SIGMOID", {-1}, {{"PM_ACTI", 7}})),
            "OP_SIGMOID: PM_ACTI is 7, but must be in 0..3");
  EXPECT_EQ(of(op("OP_CONCAT", {-1, -2}, {{"PM_NUM_INPUTS", 3}, {"PM_AXIS", 0}})),
            "OP_CONCAT: PM_NUM_INPUTS is 3, but there are 2 inputs");
  EXPECT_EQ(of(op("OP_CONV2D", {-1, -4},
                  add_parameter(add_parameter(kConv3, "PM_KERNEL_H", 2), "PM_GROUP", 1))),
            "OP_CONV2D: its padding differs between the two sides");
  EXPECT_EQ(of(op("OP_TRANSPOSE", {-1}, {{"PM_NUMDIM", 2}, {"PM_PERM", 3}})),
            "OP_TRANSPOSE: [1, 1] is not a permutation");
}

TEST(CollectionJson, ReportsMalformedInput) {
  const auto message = [](const std::string& text) {
    return get_error([&] { import_collection(text, "c.json"); });
  };
  const auto relu = op("OP_RELU", {-1});
  const auto dangling = rule("r", {relu}, {op("OP_RELU", {4})});
  const auto cycle = rule("r", {op("OP_RELU", {1}), op("OP_TANH", {0})}, {relu});
  auto word = rule("r", {relu}, {relu});
  word["srcOp"][0]["input"][0]["opId"] = "one";
  auto huge = rule("r", {relu}, {relu});
  huge["srcOp"][0]["input"][0]["opId"] = 18'446'744'073'709'551'615U;
  auto twice = rule("r", {relu}, {relu});
  twice["srcOp"][0]["para"] = {{{"key", "PM_AXIS"}, {"value", 1}},
                               {{"key", "PM_AXIS"}, {"value", 2}}};
  auto missing = rule("r", {relu}, {relu});
  missing.erase("dstOp");
  auto unmapped = rule("r", {relu}, {relu});
  unmapped["mappedOutput"] = TestJson::array();
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"{", "c.json: is not JSON (line 1, column 2)"},
      {"{\n \"rule\": [}]\n}", "c.json: is not JSON (line 2, column 11)"},
      {R"({"rule": [{"name": 5e2375}]})", "c.json: is not JSON (a number is too large)"},
      {R"({"rule": [{"name": "a", "srcOp": [], "name": "b"}]})",
       "c.json: 'rule[0].name' is given twice (remove one of the two)"},
      {collection({rule("ok", {relu}, {relu})}).insert(1, R"("rule": [],)"),
       "c.json: 'rule' is given twice"},
      {"{}", "c.json: has no list 'rule'"},
      {"[1]", "c.json: has no list 'rule'"},
      {"{\"rule\": 3}", "c.json: has no list 'rule'"},
      {R"({"dimensions": "rows", "rule": []})",
       "c.json: 'dimensions' is \"rows\", but must be 'plain' or 'replicas first'"},
      {R"({"dimensions": {"a": 1}, "rule": []})", "c.json: 'dimensions' is an object"},
      {collection({rule("ok", {relu}, {relu})}).insert(1, R"("dimensions":["plain"],)"),
       "c.json: 'dimensions' is a list"},
      {R"({"rule": [)" + rule("ok", {relu}, {relu}).dump() + R"(], "dimensions": "plain"})",
       "c.json: 'dimensions' is given after the rules"},
      {"{\"rule\": [3]}", "c.json: rule 1: is 3, but must be an object"},
      {"{\"rule\": [{}]}", "c.json: rule 1: 'srcOp' is missing"},
      {collection({rule("ok", {relu}, {relu})}).substr(0, 300), "c.json: is not JSON"},
      {collection({rule("ok", {relu}, {relu}), dangling}),
       "c.json: rule 2 ('r'): dstOp 0: there is no operator 4 in 'dstOp'"},
      {collection({cycle}), "c.json: rule 1 ('r'): srcOp 0: (OP_RELU) is part of a cycle"},
      {collection({word}), "srcOp 0: 'opId' is \"one\", but must be a 32-bit integer"},
      {collection({huge}), "'opId' is 18446744073709551615, but must be a 32-bit integer"},
      {collection({twice}), "srcOp 0: 'PM_AXIS' is given twice"},
      {collection({missing}), "rule 1 ('r'): 'dstOp' is missing"},
      {collection({unmapped}), "'mappedOutput' is empty"},
      {collection({rule("r", {relu}, {op("OP_RELU", {{-1, 0}})}, {{{0, 1}, 0}})}),
       "mappedOutput: operator 0 (OP_RELU) has no output 1"},
      {collection({rule("r", std::vector<TestJson>(300, relu), {relu})}),
       "'srcOp' has 300 operators, more than 256"},
      {"{\"rules\":" + std::string(100'000, '[') + std::string(100'000, ']') + "}",
       "is nested too deeply"},
  };
  for (const auto& [text, expected] : cases) {
    const auto said = message(text);
    EXPECT_NE(said.find(expected), std::string::npos) << text.substr(0, 200) << "\n" << said;
  }
}

// A tensor that is concatenated with itself 60 times in a row has 2^60 leaves as text.
TEST(CollectionJson, LimitsTheSizeOfRules) {
  std::vector<TestJson> doubled = {op("OP_EW_ADD", {-1, -1})};
  std::vector<TestJson> concats = {op("OP_CONCAT", {-1, -1}, concat_on(0, 2))};
  for (int i = 0; i < 60; ++i) {
    doubled.push_back(op("OP_EW_ADD", {i, i}));
    concats.push_back(op("OP_CONCAT", {i, i}, concat_on(0, 2)));
  }
  concats.push_back(op("OP_SPLIT", {60}, split_on(0)));
  const auto c = import_collection(collection({rule("a", doubled, {op("OP_RELU", {-1})}),
                                               rule("b", concats, {op("OP_RELU", {-1})})}),
                                   "test");
  ASSERT_EQ(c.lacking.size(), 2U);
  EXPECT_EQ(c.lacking[0].lacking, "is too long");
}

TEST(CollectionJson, GivesUniquePlainNames) {
  const auto relu = op("OP_RELU", {-1});
  const auto c =
      import_collection(collection({rule("a b", {relu}, {relu}), rule("a b", {relu}, {relu}),
                                    rule("", {relu}, {relu})}),
                        "test");
  ASSERT_EQ(c.rules.size(), 3U);
  EXPECT_EQ(c.rules[0].name, "a-b");
  EXPECT_EQ(c.rules[1].name, "a-b-2");
  EXPECT_EQ(c.rules[2].name, "rule-3");
}

}  // namespace
}  // namespace tandem::import
