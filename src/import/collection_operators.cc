#include "import/collection_operators.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.h"
#include "import/collection_rule.h"
#include "rewrite/rule_text.h"

namespace tandem::import {

using rewrite::parse_rule;

namespace {

struct Text {
  const char* type;
  const char* when;
  const char* pattern;
  const char* rest;  // `choose` for parameters that equal no attribute, `if` for conditions
};

// "Same" padding keeps the image's size: it is (k - 1) / 2 for an odd window size k. An average
// divides by the full window size. The sizes of a convolution's operands give its `groups`, so one
// line serves any number of groups.
constexpr std::array kLines = {
    // Activations and other functions of one tensor.
    Text{"OP_RELU", "", "(relu ?x)", ""},
    Text{"OP_SIGMOID", "", "(sigmoid ?x)", ""},
    Text{"OP_TANH", "", "(tanh ?x)", ""},
    Text{"OP_GELU", "", "(gelu ?x)", ""},
    Text{"OP_EXP", "", "(exp ?x)", ""},
    Text{"OP_LOG", "", "(log ?x)", ""},
    Text{"OP_SQRT", "", "(sqrt ?x)", ""},
    Text{"OP_RSQRT", "", "(rsqrt ?x)", ""},
    Text{"OP_SIN", "", "(sin ?x)", ""},
    Text{"OP_COS", "", "(cos ?x)", ""},
    Text{"OP_IDENTITY", "", "(identity ?x)", ""},
    Text{"OP_NOOP", "", "(identity ?x)", ""},
    Text{"OP_FLAT", "", "(flatten ?x)", ""},
    Text{"OP_DROPOUT", "", "(dropout ?x p=?dropout_p origin=?dropout_origin)", ""},
    Text{"OP_SOFTMAX", "PM_SOFTMAX_DIM", "(softmax ?x axis=?softmax_dim)", ""},
    Text{"OP_SOFTMAX", "", "(softmax ?x)", ""},
    // Elementwise operators of several tensors. OP_EW_* do not broadcast; OP_MUL broadcasts one
    // scalar.
    Text{"OP_MUL", "", "(mul ?x ?scalar)", "if rank(?scalar) == 1 and dim(?scalar, 0) == 1"},
    Text{"OP_EW_ADD", "", "(add ?x ?y)", "if same_shape(?x, ?y)"},
    Text{"OP_EW_SUB", "", "(sub ?x ?y)", "if same_shape(?x, ?y)"},
    Text{"OP_EW_MUL", "", "(mul ?x ?y)", "if same_shape(?x, ?y)"},
    Text{"OP_EW_DIV", "", "(div ?x ?y)", "if same_shape(?x, ?y)"},
    Text{"OP_EW_MAX", "", "(max ?x ?y)", "if same_shape(?x, ?y)"},
    Text{"OP_EW_MIN", "", "(min ?x ?y)", "if same_shape(?x, ?y)"},
    Text{"OP_PRELU", "", "(prelu ?x ?y)", ""},
    Text{"OP_WHERE", "", "(where ?c ?x ?y)", ""},
    // Matmuls and embedding.
    Text{"OP_LINEAR", "", "(linear ?x ?w act=?acti)", ""},
    Text{"OP_LINEAR", "", "(linear ?x ?w ?bias act=?acti)", ""},
    Text{"OP_MATMUL", "", "(matmul ?x ?y)", ""},
    Text{"OP_BATCHMATMUL", "", "(batch_matmul ?x ?y)", ""},
    Text{"OP_EMBEDDING", "", "(embedding ?x ?w)", ""},
    // Convolution, pooling, and enlarged kernels.
    Text{"OP_CONV2D", "PM_PAD=0",
         "(conv2d ?x ?w stride=[?stride_h, ?stride_w] padding=[((?kernel_h - 1) / 2), ((?kernel_w "
         "- 1) / 2)] groups=(dim(?x, 1) / dim(?w, 1)) act=?acti)",
         "choose ?kernel_h, ?kernel_w if dim(?w, 2) == ?kernel_h and dim(?w, 3) == ?kernel_w"},
    Text{"OP_CONV2D", "PM_PAD=1",
         "(conv2d ?x ?w stride=[?stride_h, ?stride_w] groups=(dim(?x, 1) / dim(?w, 1)) act=?acti)",
         "choose ?kernel_h, ?kernel_w if dim(?w, 2) == ?kernel_h and dim(?w, 3) == ?kernel_w"},
    Text{"OP_CONV2D", "PM_PAD=0",
         "(conv2d ?x ?w stride=[?stride_h, ?stride_w] padding=[((dim(?w, 2) - 1) / 2), ((dim(?w, "
         "3) - 1) / 2)] groups=(dim(?x, 1) / dim(?w, 1)) act=?acti)",
         ""},
    Text{"OP_CONV2D", "PM_PAD=1",
         "(conv2d ?x ?w stride=[?stride_h, ?stride_w] groups=(dim(?x, 1) / dim(?w, 1)) act=?acti)",
         ""},
    Text{"OP_CONV2D", "",
         "(conv2d ?x ?w stride=[?stride_h, ?stride_w] padding=[?padding_h, ?padding_w] "
         "groups=(dim(?x, 1) / dim(?w, 1)) act=?acti)",
         "choose ?kernel_h, ?kernel_w if dim(?w, 2) == ?kernel_h and dim(?w, 3) == ?kernel_w"},
    Text{"OP_POOL2D_MAX", "PM_PAD=0",
         "(max_pool2d ?x kernel=[?kernel_h, ?kernel_w] stride=[?stride_h, ?stride_w] "
         "padding=[((?kernel_h - 1) / 2), ((?kernel_w - 1) / 2)])",
         ""},
    Text{"OP_POOL2D_MAX", "PM_PAD=1",
         "(max_pool2d ?x kernel=[?kernel_h, ?kernel_w] stride=[?stride_h, ?stride_w])", ""},
    Text{"OP_POOL2D_AVG", "PM_PAD=0",
         "(avg_pool2d ?x kernel=[?kernel_h, ?kernel_w] stride=[?stride_h, ?stride_w] "
         "padding=[((?kernel_h - 1) / 2), ((?kernel_w - 1) / 2)])",
         ""},
    Text{"OP_POOL2D_AVG", "PM_PAD=1",
         "(avg_pool2d ?x kernel=[?kernel_h, ?kernel_w] stride=[?stride_h, ?stride_w])", ""},
    Text{"OP_ENLARGE", "",
         "(pad (pad ?w axis=2 before=((?kernel_h - dim(?w, 2)) / 2) after=((?kernel_h - dim(?w, "
         "2)) / 2)) axis=3 before=((?kernel_w - dim(?w, 3)) / 2) after=((?kernel_w - dim(?w, 3)) / "
         "2))",
         "choose ?kernel_h, ?kernel_w"},
    // Normalizations with their scale and shift as operands.
    Text{"OP_BATCHNORM", "", "(batch_norm ?x ?scale ?shift)", ""},
    Text{"OP_LAYERNORM", "", "(layer_norm ?x ?scale ?shift)", ""},
    Text{"OP_RMS_NORM", "", "(rms_norm ?x ?scale)", ""},
    // Constants, of the size that their reader needs. An averaging kernel has a window of equal
    // elements where the input channel is the output channel.
    Text{"OP_CONSTANT_IMM", "", "(constant shape=[?size, ?size] kind=\"eye\" value=1)", ""},
    Text{"OP_CONSTANT_ICONV", "",
         "(pad (pad (reshape (constant shape=[?size, ?size] kind=\"eye\" value=1) shape=[?size, "
         "?size, 1, 1]) axis=2 before=((?kernel_h - 1) / 2) after=((?kernel_h - 1) / 2)) axis=3 "
         "before=((?kernel_w - 1) / 2) after=((?kernel_w - 1) / 2))",
         "choose ?kernel_h, ?kernel_w"},
    Text{"OP_CONSTANT_POOL", "",
         "(avg_pool2d (pad (pad (reshape (constant shape=[?size, ?size] kind=\"eye\" value=1) "
         "shape=[?size, ?size, 1, 1]) axis=2 before=((?kernel_h - 1) / 2) after=((?kernel_h - 1) / "
         "2)) axis=3 before=((?kernel_w - 1) / 2) after=((?kernel_w - 1) / 2)) kernel=[?kernel_h, "
         "?kernel_w] padding=[((?kernel_h - 1) / 2), ((?kernel_w - 1) / 2)])",
         ""},
    Text{"OP_CONSTANT_ONE", "", "(constant shape=?shape value=1)", ""},
    Text{"OP_TRANSPOSE", "", "(transpose ?x perm=?perm)", ""},
    // Parallelization. Dimension 0 is that of replicas and of partial sums; the others are counted
    // from 1. Replicating a tensor along one of the others concatenates copies of it along that
    // dimension.
    Text{"OP_PARTITION", "", "(partition ?x dim=?parallel_dim degree=?parallel_degree)", ""},
    Text{"OP_COMBINE", "PM_PARALLEL_DIM=0", "(unreplicate ?x degree=?parallel_degree)", ""},
    Text{"OP_COMBINE", "", "(combine ?x dim=?parallel_dim degree=?parallel_degree)", ""},
    Text{"OP_REPLICATE", "PM_PARALLEL_DIM=0", "(replicate ?x degree=?parallel_degree)", ""},
    Text{"OP_REPLICATE", "PM_PARALLEL_DEGREE=2",
         "(partition (concat ?x ?x axis=?parallel_dim) dim=?parallel_dim degree=2)", ""},
    Text{"OP_REDUCE", "PM_PARALLEL_DIM=0", "(reduce ?x degree=?parallel_degree)", ""},
    Text{"OP_REDUCE", "PM_PARALLEL_DEGREE=2",
         "(add (split (combine ?x dim=?parallel_dim degree=2) axis=?parallel_dim parts=2) (split "
         "(combine ?x dim=?parallel_dim degree=2) axis=?parallel_dim parts=2 part=1))",
         ""},
};

struct Reason {
  const char* type;
  const char* why;
};
constexpr std::array kReasons = {
    Reason{"OP_PIPELINE",
           "in tandem, micro-batches are not a node of a graph, but a part of layouts"},
    Reason{"OP_FUSED_PARALLEL", "write the parallelization operators that it fuses"},
    Reason{"OP_FUSED", "write the operators that it fuses"},
    Reason{"OP_MERGE_GCONV", "it rearranges a kernel that the collection does not describe"},
    Reason{"OP_RESHAPE", "the collection does not give the shape"},
    Reason{"OP_SCALAR_MULTIPLY", "the collection does not give the number"},
    Reason{"OP_SCALAR_ADD", "the collection does not give the number"},
    Reason{"OP_SCALAR_SUB", "the collection does not give the number"},
    Reason{"OP_SCALAR_TRUE_DIV", "the collection does not give the number"},
    Reason{"OP_LEAKYRELU", "the collection does not give the slope"},
    Reason{"OP_POW", "the collection does not give the exponent"},
    Reason{"OP_CAST", "the collection does not give the type"},
    Reason{"OP_PAD", "the collection does not give the width"},
    Reason{"OP_SLICE", "the collection does not give the range"},
};

OperatorLine make_operator_line(const Text& text, const std::string& pattern) {
  OperatorLine out{
      text.type, {}, parse_rule("line: " + pattern + " => " + pattern + " " + text.rest)[0]};
  for (auto part : split_words(text.when)) {
    const auto equals = part.find('=');
    std::optional<std::int64_t> value;
    if (equals != std::string_view::npos) value = parse_int(part.substr(equals + 1));
    out.when.emplace(part.substr(0, equals), value);
  }
  return out;
}

// The operands' sizes give the groups. A second line takes them from PM_GROUP.
constexpr std::string_view kGroups = "groups=(dim(?x, 1) / dim(?w, 1))";

// Returns whether `symbol` of a line stands for no parameter of the operator.
bool has_no_parameter(const std::string& symbol) {
  return symbol == "size" || symbol == "shape" || symbol.starts_with("dropout_");
}

// Returns why `line` does not fit `op`, or "" if it fits.
std::string find_mismatch(const CollectionOperator& op, const OperatorLine& line) {
  const auto& symbols = line.line.symbols;
  if (line.line.tensors.size() != op.inputs.size()) {
    return fmt::format("takes {} inputs, but has {}", line.line.tensors.size(), op.inputs.size());
  }
  for (const auto& [key, value] : line.when) {
    const auto at = op.parameters.find(key);
    if (at == op.parameters.end()) return fmt::format("{} is missing", key);
    if (value && at->second != *value) return fmt::format("{} cannot be {}", key, at->second);
  }
  for (const auto& symbol : symbols) {
    if (has_no_parameter(symbol) || op.parameters.contains(to_parameter_name(symbol))) continue;
    return fmt::format("{} is missing", to_parameter_name(symbol));
  }
  for (const auto& parameter : op.parameters) {
    const auto& key = parameter.first;
    if (is_ignored_parameter(key) || key == "PM_ACTI" || line.when.contains(key)) continue;
    const bool mentioned = std::ranges::any_of(
        symbols, [&](const std::string& symbol) { return to_parameter_name(symbol) == key; });
    if (!mentioned) return fmt::format("unknown parameter {}", key);
  }
  return {};
}

}  // namespace

const std::vector<OperatorLine>& operator_lines() {
  static const auto lines = [] {
    std::vector<OperatorLine> out;
    out.reserve(2 * kLines.size());
    for (const auto& text : kLines) {
      std::string pattern = text.pattern;
      if (const auto at = pattern.find(kGroups); at != std::string::npos) {
        auto given = pattern;
        out.push_back(make_operator_line(text, given.replace(at, kGroups.size(), "groups=?group")));
      }
      out.push_back(make_operator_line(text, pattern));
    }
    return out;
  }();
  return lines;
}

const OperatorLine& find_operator_line(const CollectionOperator& op) {
  std::string why;
  for (const auto& line : operator_lines()) {
    if (line.type != op.type) continue;
    const auto amiss = find_mismatch(op, line);
    if (amiss.empty()) return line;
    why = amiss;
  }
  if (why.empty()) {
    const auto* reason = std::ranges::find(kReasons, op.type, &Reason::type);
    why = reason == kReasons.end() ? "unknown operator" : reason->why;
  }
  throw Lacking(fmt::format("{}: {}", op.type, why));
}

std::string to_parameter_name(const std::string& symbol) {
  std::string out = "PM_";
  for (char c : symbol) out += static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return out;
}

bool is_ignored_parameter(const std::string& parameter) {
  constexpr std::array kIgnored = {"PM_OP_TYPE", "PM_NUM_INPUTS", "PM_NUM_OUTPUTS", "PM_OUTSHUFFLE",
                                   "PM_NUMDIM"};
  return std::ranges::find(kIgnored, parameter) != kIgnored.end();
}

}  // namespace tandem::import
