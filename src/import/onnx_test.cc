// Graphs of ONNX files, and errors of bad ones. tests/onnx/ compares values with PyTorch's and the
// ONNX project's.
#include "import/onnx.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "graph/text.h"
#include "import/onnx_file_test_support.h"
#include "models/model.h"

namespace tandem::import {
namespace {

std::string import_to_text(const File& file, const OnnxOptions& options = {}) {
  return graph::to_text(import_onnx(file.text(), "m.onnx", options).graph);
}

// Returns "where: message (hint)" of the error.
std::string get_error(const std::string& file, const OnnxOptions& options = {}) {
  try {
    import_onnx(file, "m.onnx", options);
  } catch (const UserError& e) {
    EXPECT_EQ(e.kind, "onnx");
    return e.where + ": " + e.message + (e.hint.empty() ? "" : " (" + e.hint + ")");
  }
  return "no error";
}
std::string get_error(const File& file) { return get_error(file.text()); }

bool starts_with(const std::string& text, const std::string& begin) {
  EXPECT_EQ(text.substr(0, begin.size()), begin);
  return text.starts_with(begin);
}

TEST(Onnx, ImportsALinearLayerWithItsWeights) {
  const File file{.nodes = {node("Gemm", {"x", "w", "b"}, {"h"}, integer("transB", 1)),
                            node("Relu", {"h"}, {"y"})},
                  .initializers = {weights("w", {4, 3}), weights("b", {4})}};
  EXPECT_EQ(import_to_text(file),
            "graph test\n"
            "%x = input() shape=[2, 3]\n"
            "%w = weight() shape=[4, 3]\n"
            "%b = weight() shape=[4]\n"
            "%h = linear(%x, %w, %b) : [2, 4] fp32\n"
            "%y = relu(%h) : [2, 4] fp32\n"
            "return %y\n");
}

TEST(Onnx, FoldsShapes) {
  const File file{.nodes = {node("Shape", {"x"}, {"s"}), node("Gather", {"s", "zero"}, {"d"}),
                            node("Unsqueeze", {"d", "zeros"}, {"u"}),
                            node("Concat", {"u", "rest"}, {"to"}, integer("axis", 0)),
                            node("Reshape", {"x", "to"}, {"y"})},
                  .initializers = {tensor<std::int64_t>("zero", kInt64, {}, {0}),
                                   whole("zeros", {0}), whole("rest", {1, -1})}};
  const auto model = import_onnx(file.text(), "m.onnx");
  EXPECT_EQ(graph::to_text(model.graph),
            "graph test\n"
            "%x = input() shape=[2, 3]\n"
            "%y = reshape(%x) shape=[2, 1, 3] : [2, 1, 3] fp32\n"
            "return %y\n");
  EXPECT_EQ(model.folded, (std::map<std::string, int>{
                              {"Concat", 1}, {"Gather", 1}, {"Shape", 1}, {"Unsqueeze", 1}}));
}

TEST(Onnx, ResolvesSymbolicBatchAndNamedDimensions) {
  const File file{.nodes = {node("Relu", {"x"}, {"y"})},
                  .inputs = {value_info("x", kFloat, {{0, "N"}, {0, "seq"}, {4}})}};
  EXPECT_EQ(get_error(file),
            "m.onnx: input 'x': dim 1 ('seq') has no fixed size (set it with --dim seq=SIZE "
            "or FILE.onnx:seq=SIZE)");
  const auto model = import_onnx(file.text(), "m.onnx", {.batch = 5, .dims = {{"seq", 7}}});
  EXPECT_EQ(to_text(model.graph.node(model.graph.outputs()[0]).type.shape.sizes), "[5, 7, 4]");
  EXPECT_EQ(model.batch, 5);
}

TEST(Onnx, ReplacesAFixedBatch) {
  const File file{.nodes = {node("Reshape", {"x", "to"}, {"y"})},
                  .initializers = {whole("to", {1, 12})},
                  .inputs = {value_info("x", kFloat, {{1}, {3}, {4}})}};
  const auto model = import_onnx(file.text(), "m.onnx", {.batch = 8});
  EXPECT_EQ(to_text(model.graph.node(model.graph.outputs()[0]).type.shape.sizes), "[8, 12]");
}

TEST(Onnx, AcceptsInitializersListedAsInputs) {
  const File file{
      .nodes = {node("MatMul", {"x", "w"}, {"y"})},
      .initializers = {weights("w", {3, 4})},
      .inputs = {value_info("w", kFloat, {{3}, {4}}), value_info("x", kFloat, {{2}, {3}})},
      .opset = 7};
  const auto model = import_onnx(file.text(), "m.onnx");
  EXPECT_EQ(models::count_parameters(model.graph), 12);
}

TEST(Onnx, ImportsWeightsWithoutTheirValues) {
  // The weights are inputs of the graph, or a constant of a stored shape.
  const File file{
      .nodes = {node("ConstantOfShape", {"shape"}, {"w"}), node("Gemm", {"x", "w", "b"}, {"y"})},
      .initializers = {whole("shape", {3, 4})},
      .inputs = {value_info("x", kFloat, {{2}, {3}}), value_info("b", kFloat, {{4}})}};
  EXPECT_EQ(models::count_parameters(import_onnx(file.text(), "m.onnx").graph), 16);
}

TEST(Onnx, ImportsOldConstantFillAndDropout) {
  const File file{.nodes = {node("ConstantFill", {}, {"w"}, list("shape", {3, 4})),
                            node("MatMul", {"x", "w"}, {"h"}),
                            node("Dropout", {"h"}, {"y", "mask"}, integer("is_test", 1))},
                  .opset = 6};
  const auto model = import_onnx(file.text(), "m.onnx");
  EXPECT_EQ(models::count_parameters(model.graph), 12);
  EXPECT_EQ(model.folded, (std::map<std::string, int>{{"ConstantFill", 1}, {"Dropout", 1}}));
}

TEST(Onnx, ImportsEveryVersionOfBatchNormalization) {
  for (const auto& [opset, outputs] : std::map<std::int64_t, std::vector<std::string>>{
           {6, {"y", "m", "v", "sm", "sv"}}, {9, {"y"}}, {14, {"y", "m", "v"}}}) {
    const File file{
        .nodes = {node(
            "BatchNormalization", {"x", "s", "b", "rm", "rv"}, outputs,
            opset == 6 ? list("consumed_inputs", {0, 0, 0, 1, 1}) + integer("spatial", 1) : "")},
        .initializers = {weights("s", {3}), weights("b", {3}), weights("rm", {3}),
                         weights("rv", {3})},
        .opset = opset};
    // The running statistics are no parameters.
    EXPECT_EQ(models::count_parameters(import_onnx(file.text(), "m.onnx").graph), 6);
  }
}

TEST(Onnx, ReplacesCausalMasksByAnAttribute) {
  std::vector<float> mask;
  for (int i = 0; i < 9; ++i) mask.push_back(i % 3 > i / 3 ? -INFINITY : 0);
  const File file{.nodes = {node("Add", {"x", "mask"}, {"m"}), node("Softmax", {"m"}, {"y"})},
                  .initializers = {tensor<float>("mask", kFloat, {3, 3}, mask)},
                  .inputs = {value_info("x", kFloat, {{2}, {3}, {3}})}};
  EXPECT_EQ(import_to_text(file),
            "graph test\n"
            "%x = input() shape=[2, 3, 3]\n"
            "%y = softmax(%x) causal=true : [2, 3, 3] fp32\n"
            "return %y\n");
}

TEST(Onnx, ImportsOtherMasksAsFixedInputs) {
  const File file{
      .nodes = {node("Add", {"x", "mask"}, {"y"})},
      .initializers = {tensor<float>("mask", kFloat, {3, 3}, {0, 0, 0, -1e9F, 0, 0, 0, 0, 0})},
      .inputs = {value_info("x", kFloat, {{3}, {3}})}};
  const auto model = import_onnx(file.text(), "m.onnx");
  EXPECT_EQ(models::count_parameters(model.graph), 0);
  ASSERT_EQ(model.fixed.size(), 1U);
  EXPECT_EQ(model.fixed.begin()->second.data[3], -1e9F);
}

TEST(Onnx, BoundsIndicesByTheSmallestTable) {
  const File file{.nodes = {node("Gather", {"w", "ids"}, {"a"}),
                            node("Gather", {"v", "ids"}, {"b"}), node("Add", {"a", "b"}, {"y"})},
                  .initializers = {weights("w", {9, 4}), weights("v", {5, 4})},
                  .inputs = {value_info("ids", kInt64, {{2}, {3}})}};
  EXPECT_TRUE(import_to_text(file).find("%ids = input() shape=[2, 3] dtype=int64 below=5\n") !=
              std::string::npos);
}

TEST(Onnx, AppendsALoss) {
  const File file{.nodes = {node("Relu", {"x"}, {"y"})}};
  EXPECT_EQ(import_to_text(file, {.append_loss = true}),
            "graph test\n"
            "%x = input() shape=[2, 3]\n"
            "%y = relu(%x) : [2, 3] fp32\n"
            "%target = input() shape=[2, 3]\n"
            "%loss = mse(%y, %target) : [] fp32\n"
            "return %loss, %y\n");
}

TEST(Onnx, InlinesFunctionsOfTheModel) {
  // Both calls have a tensor "h"; the attribute goes through two calls.
  const auto inner =
      function("own", "turn", {"a"}, {"b"},
               {node("Neg", {"a"}, {"h"}), node("Softmax", {"h"}, {"b"}, refer("axis", "d"))});
  const auto outer = function("own", "twice", {"a", "missing"}, {"b"},
                              {call("own", "turn", {"a"}, {"h"}, refer("d", "dim")),
                               call("own", "turn", {"h"}, {"b"}, integer("d", -1))});
  const File file{.nodes = {call("own", "twice", {"x"}, {"y"}, integer("dim", 0))},
                  .functions = {inner, outer}};
  EXPECT_EQ(import_to_text(file),
            "graph test\n"
            "%x = input() shape=[2, 3]\n"
            "%y.h.h = neg(%x) : [2, 3] fp32\n"
            "%y.h = softmax(%y.h.h) axis=0 : [2, 3] fp32\n"
            "%y.h_2 = neg(%y.h) : [2, 3] fp32\n"
            "%y = softmax(%y.h_2) : [2, 3] fp32\n"
            "return %y\n");
}

TEST(Onnx, ReplacesIntegersComputedFromInputsByInputs) {
  const File file{
      .nodes = {node("Equal", {"ids", "pad"}, {"is"}), node("Not", {"is"}, {"real"}),
                node("Equal", {"ids", "pad"}, {"again"}),
                node("Cast", {"real"}, {"m"}, integer("to", kInt64)),
                node("CumSum", {"m", "one"}, {"places"}), node("Gather", {"w", "places"}, {"e"}),
                node("ReduceSum", {"e", "two"}, {"s"}, integer("keepdims", 0)),
                node("Where", {"again", "zero", "s"}, {"y"})},
      .initializers = {weights("w", {9, 4}), whole("two", {2}),
                       tensor<std::int64_t>("pad", kInt64, {}, {1}),
                       tensor<std::int64_t>("one", kInt64, {}, {1}),
                       tensor<float>("zero", kFloat, {}, {0})},
      .inputs = {value_info("ids", kInt64, {{2}, {3}})}};
  const auto model = import_onnx(file.text(), "m.onnx");
  EXPECT_EQ(graph::to_text(model.graph),
            "graph test\n"
            "%w = weight() shape=[9, 4]\n"
            "%places = input() shape=[2, 3] dtype=int64 below=9\n"
            "%e = embedding(%places, %w) : [2, 3, 4] fp32\n"
            "%s = reduce_sum(%e) axes=[2] : [2, 3] fp32\n"
            "%y.constant = constant()\n"
            "%is = input() shape=[2, 3]\n"
            "%y = where(%is, %y.constant, %s) : [2, 3] fp32\n"
            "return %y\n");
  EXPECT_EQ(model.derived, (std::vector<std::string>{"places", "is"}));
}

TEST(Onnx, FreezesFrequencies) {
  const auto with = [](const std::string& op) {
    return File{.nodes = {node("Cast", {"x"}, {"p"}, integer("to", kFloat)),
                          node("Mul", {"p", "f"}, {"a"}), node(op, {"a"}, {"y"})},
                .initializers = {weights("f", {3})}};
  };
  const auto count = [&](const std::string& op, std::int32_t type) {
    auto file = with(op);
    file.inputs = {value_info("x", type, {{2}, {3}})};
    return models::count_parameters(import_onnx(file.text(), "m.onnx").graph);
  };
  EXPECT_EQ(count("Sin", kInt64), 0);
  EXPECT_EQ(count("Tanh", kInt64), 3);
  EXPECT_EQ(count("Sin", kFloat), 3);  // a gain on a possible layer result
}

TEST(Onnx, AddsNamedDimensions) {
  const File file{.nodes = {node("Relu", {"x"}, {"y"})},
                  .inputs = {value_info("x", kFloat, {{0, "batch"}, {0, "past + new + 1"}}),
                             value_info("p", kFloat, {{0, "batch"}, {0, "past"}}),
                             value_info("n", kFloat, {{0, "batch"}, {0, "new"}})}};
  const auto model = import_onnx(file.text(), "m.onnx", {.dims = {{"past", 0}, {"new", 3}}});
  EXPECT_EQ(to_text(model.graph.node(model.graph.outputs()[0]).type.shape.sizes), "[1, 4]");
  EXPECT_EQ(get_error(file.text(), OnnxOptions{.dims = {{"past", 0}, {"new", 3}, {"nwe", 3}}}),
            "m.onnx: no input dimension is called 'nwe' (named dimensions: batch, new, past)");
}

// --- Bad files ----------------------------------------------------------------------------------

TEST(OnnxErrors, Functions) {
  const auto with = [](const std::string& f, const std::string& n) {
    return get_error(File{.nodes = {n}, .functions = {f}});
  };
  const auto error = with(function("own", "f", {"a"}, {"b"}, {call("own", "f", {"a"}, {"b"})}),
                          call("own", "f", {"x"}, {"y"}));
  EXPECT_TRUE(error.ends_with("': functions are nested too deeply")) << error;
  EXPECT_EQ(with(function("own", "f", {"a"}, {"b"}, {node("Relu", {"x"}, {"b"})}),
                 call("own", "f", {"x"}, {"y"})),
            "m.onnx: Relu with output 'b': no earlier node of the function produces 'x'");
  EXPECT_EQ(with(function("own", "f", {"a"}, {"b"}, {node("Relu", {"a"}, {"b"})}),
                 call("own", "f", {"x", "x"}, {"y"})),
            "m.onnx: own.f with output 'y': the call has 2 inputs and 1 outputs, but the function "
            "has 1 and 1");
  EXPECT_TRUE(
      starts_with(with(function("own", "f", {"a"}, {"b"}, {}), call("other", "f", {"x"}, {"y"})),
                  "m.onnx: other.f with output 'y': the operator other.f is not supported "));
  // Calls that double at every level.
  std::vector<std::string> functions;
  for (int i = 0; i < 30; ++i) {
    const auto next = "f" + std::to_string(i + 1);
    functions.push_back(
        function("own", "f" + std::to_string(i), {"a"}, {"b"},
                 {call("own", next, {"a"}, {"h"}), call("own", next, {"h"}, {"b"})}));
  }
  functions.push_back(function("own", "f30", {"a"}, {"b"}, {node("Relu", {"a"}, {"b"})}));
  const auto many =
      get_error(File{.nodes = {call("own", "f0", {"x"}, {"y"})}, .functions = functions});
  EXPECT_TRUE(many.ends_with("the model's functions expand to too many nodes")) << many;
}

TEST(OnnxErrors, ExternalContents) {
  const auto with = [](const std::string& location) {
    const auto shape = tensor<std::int64_t>("s", kInt64, {2}, {}, false) + number(14, 1) +
                       bytes(13, bytes(1, "location") + bytes(2, location));
    const File file{.nodes = {node("Reshape", {"x", "s"}, {"y"})}, .initializers = {shape}};
    return get_error(file.text(), OnnxOptions{.directory = testing::TempDir()});
  };
  const std::string begin = "m.onnx: Reshape with output 'y': tensor 's' is stored in the file '";
  EXPECT_EQ(with("../s.bin"), begin + "../s.bin', which is not in the directory of the model");
  EXPECT_EQ(with("/etc/s"), begin + "/etc/s', which is not in the directory of the model");
  EXPECT_EQ(with("none.bin"), begin + "none.bin', which does not exist");
}

TEST(OnnxErrors, UnknownOperatorWithAlternatives) {
  const File file{.nodes = {node("NonMaxSuppression", {"x"}, {"y"}, "", "boxes")}};
  EXPECT_TRUE(
      starts_with(get_error(file),
                  "m.onnx: NonMaxSuppression 'boxes': the operator NonMaxSuppression is not "
                  "supported (supported: Abs Add And ArgMax "));
}

TEST(OnnxErrors, TruncatedFile) {
  const auto whole_file = File{.nodes = {node("Relu", {"x"}, {"y"})}}.text();
  for (std::size_t size = 0; size < whole_file.size(); ++size) {
    // A file that is cut between messages is a model without the rest.
    const auto error = get_error(whole_file.substr(0, size));
    EXPECT_TRUE(error != "no error" || size + 4 == whole_file.size()) << size;
  }
  EXPECT_EQ(get_error(std::string("")),
            "m.onnx: the file contains no graph (is it an ONNX model?)");
  EXPECT_EQ(
      get_error(std::string("graph mlp\n")),
      "m.onnx: field 12 has the unknown wire type 7 (the file is damaged, truncated or not an "
      "ONNX model)");
}

TEST(OnnxErrors, MissingAndCyclic) {
  const std::string hint = " (sort the nodes: each must come after the nodes that it reads)";
  EXPECT_EQ(get_error(File{.nodes = {node("Add", {"x", "w"}, {"y"}, "", "add")}}),
            "m.onnx: Add 'add': input 1 is 'w', which is no graph input, initializer or output of "
            "an earlier node" +
                hint);
  EXPECT_EQ(get_error(File{.nodes = {node("Add", {"x", "z"}, {"y"}), node("Relu", {"y"}, {"z"})}}),
            "m.onnx: Add with output 'y': input 1 is 'z', which is no graph input, initializer or "
            "output of an earlier node" +
                hint);
  EXPECT_EQ(get_error(File{.nodes = {node("Relu", {"x"}, {"x"})}}),
            "m.onnx: Relu with output 'x': two tensors have the name 'x'");
  EXPECT_EQ(get_error(File{}), "m.onnx: output 'y': no node produces it");
}

TEST(OnnxErrors, SizesAndTypes) {
  const auto with_input = [](const std::string& input) {
    return get_error(File{.nodes = {node("Relu", {"x"}, {"y"})}, .inputs = {input}});
  };
  EXPECT_EQ(with_input(value_info("x", kFloat, {{2}, {-3}})),
            "m.onnx: input 'x': dim 1 has the negative size -3");
  EXPECT_EQ(with_input(value_info("x", kFloat, std::vector<Dim>(9, {1}))),
            "m.onnx: input 'x': it has 9 dimensions; at most 8 are supported");
  EXPECT_EQ(with_input(value_info("x", kFloat, std::vector<Dim>(1000, {1}))),
            "m.onnx: an input: a shape has more than 64 dimensions");
  EXPECT_EQ(with_input(value_info("x", kFloat, {{1 << 30}, {1 << 30}})),
            "m.onnx: input 'x': it has more than 2^50 elements");
  EXPECT_EQ(with_input(value_info("x", kString, {{2}})),
            "m.onnx: input 'x': has the unsupported element type string");
  EXPECT_EQ(with_input(value_info("x", kInt64, {{2}})),
            "m.onnx: Relu with output 'y': 'x' is int64 and must be a floating-point tensor "
            "here (integers computed from inputs are not supported)");
  EXPECT_EQ(with_input(value_info("\xff", kFloat, {{2}})),
            "m.onnx: input '\xff': a tensor's name is not UTF-8");
}

TEST(OnnxErrors, Contents) {
  const auto with_shape = [](const std::string& shape) {
    return get_error(File{.nodes = {node("Reshape", {"x", "s"}, {"y"})}, .initializers = {shape}});
  };
  EXPECT_EQ(
      with_shape(tensor<std::int64_t>("s", kInt64, {2}, {6})),
      "m.onnx: Reshape with output 'y': tensor 's' contains 8 bytes, but its shape requires 2 "
      "elements of 8 bytes");
  EXPECT_EQ(with_shape(tensor<std::int64_t>("s", kInt64, {2}, {6}) + number(14, 1)),
            "m.onnx: Reshape with output 'y': tensor 's' is stored in an external file, which "
            "was not loaded");
  // No memory is allocated for contents that the file does not hold.
  EXPECT_EQ(with_shape(tensor<std::int64_t>("s", kInt64, {1'000'000'000}, {6})),
            "m.onnx: Reshape with output 'y': constant folding needs too many elements (only "
            "small constants are folded)");
  EXPECT_EQ(with_shape(tensor<std::int64_t>("s", kInt64, {-2}, {6})),
            "m.onnx: initializer 's': it has a size of -2");
  EXPECT_EQ(with_shape(whole("s", {5})),
            "m.onnx: Reshape with output 'y': 6 elements cannot be reshaped to 5");
}

// Found by fuzzing.
TEST(OnnxErrors, MissingOperands) {
  EXPECT_EQ(get_error(File{.nodes = {node("BatchNormalization", {"x"}, {"y"})}}),
            "m.onnx: BatchNormalization with output 'y': input 1 is missing");
  EXPECT_EQ(get_error(File{.nodes = {node("Trilu", {"x", "k"}, {"y"})},
                           .initializers = {whole("k", {})}}),
            "m.onnx: Trilu with output 'y': the diagonal must be a scalar");
  const File scalar{.nodes = {node("ReduceSum", {"x"}, {"s"}, integer("keepdims", 0)),
                              node("Expand", {"s", "to"}, {"y"})},
                    .initializers = {whole("to", {1, 4})},
                    .inputs = {value_info("x", kFloat, {{1}, {3}})}};
  EXPECT_EQ(import_onnx(scalar.text(), "m.onnx", {.batch = 4}).graph.size(), 3U);
}

TEST(OnnxErrors, UnsupportedAttributes) {
  EXPECT_EQ(get_error(File{.nodes = {node("Relu", {"x"}, {"y"}, integer("limit", 6))}}),
            "m.onnx: Relu with output 'y': attribute limit is not supported");
}

TEST(OnnxErrors, LimitsOfConstantFolding) {
  const File file{.nodes = {node("Expand", {"a", "s"}, {"b"}), node("Reshape", {"x", "b"}, {"y"})},
                  .initializers = {whole("a", {1}), whole("s", {1 << 30})}};
  EXPECT_EQ(get_error(file),
            "m.onnx: Expand with output 'b': constant folding needs too many elements (only "
            "small constants are folded)");
}

TEST(Onnx, ImportsALargeFile) {
  File file;
  file.nodes.reserve(100'000);
  std::string last = "x";
  for (int i = 0; i < 100'000; ++i) {
    const auto next = "n" + std::to_string(i);
    file.nodes.push_back(i % 4 == 0 ? node("Add", {last, "x"}, {next})
                                    : node("Relu", {last}, {next}));
    last = next;
  }
  file.outputs = {last};
  const auto text = file.text();
  EXPECT_EQ(import_onnx(text, "m.onnx").graph.size(), 100'001U);
}

}  // namespace
}  // namespace tandem::import
