#include "generate/operator_set.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "rewrite/rule_text.h"

namespace tandem::generate {

namespace {

// Rows and columns of matrices have equal sizes, so that matmuls, sums and transposes of all of
// them exist. Trials at other sizes show later whether an equality needs that. Images are larger
// than two windows, so that a window of a window differs from one window.
constexpr std::string_view kTaso = R"(
tensors [4, 4] 4
tensors [4, 8] 1
tensors [8, 4] 1
tensors [1, 2, 4, 5] 3
tensors [2, 2, 3, 3] 2
tensors [2, 2, 1, 1] 2
tensors [2, 2, 1, 3] 1
tensors [1] 2
constant n=4: (constant shape=[?n, ?n] kind="eye" value=1)
constant m=4 n=4: (constant shape=[?m, ?n] value=1)
constant c=2: (reshape (constant shape=[?c, ?c] kind="eye" value=1) shape=[?c, ?c, 1, 1])
constant c=2: (pad (pad (reshape (constant shape=[?c, ?c] kind="eye" value=1) shape=[?c, ?c, 1, 1]) axis=2 before=1 after=1) axis=3 before=1 after=1)
constant c=2: (div (mul (reshape (constant shape=[?c, ?c] kind="eye" value=1) shape=[?c, ?c, 1, 1]) (constant shape=[3, 3] value=1)) (constant shape=[] value=9))
(add ?x ?y) if same_shape(?x, ?y)
(mul ?x ?y) if same_shape(?x, ?y)
(mul ?x ?s) if rank(?s) == 1 and 1 < rank(?x) and dim(?s, 0) == 1
(matmul ?x ?y) if rank(?x) == 2 and rank(?y) == 2 and dim(?x, 1) == dim(?y, 0)
(relu ?x)
(sigmoid ?x)
(tanh ?x)
(transpose ?x perm=[1, 0])
(avg_pool2d ?x kernel=[3, 3] padding=[1, 1]) if 3 < dim(?x, 2)
(max_pool2d ?x kernel=[3, 3] padding=[1, 1]) if 3 < dim(?x, 2)
(conv2d ?x ?w) if 3 < dim(?x, 2) and dim(?w, 2) == 1 and dim(?w, 3) == 1
(conv2d ?x ?w act=relu) if 3 < dim(?x, 2) and dim(?w, 2) == 1 and dim(?w, 3) == 1
(conv2d ?x ?w padding=[0, 1]) if 3 < dim(?x, 2) and dim(?w, 2) == 1 and dim(?w, 3) == 3
(conv2d ?x ?w padding=[0, 1] act=relu) if 3 < dim(?x, 2) and dim(?w, 2) == 1 and dim(?w, 3) == 3
(conv2d ?x ?w padding=[1, 1]) if 3 < dim(?x, 2) and dim(?w, 2) == 3 and dim(?w, 3) == 3
(conv2d ?x ?w padding=[1, 1] act=relu) if 3 < dim(?x, 2) and dim(?w, 2) == 3 and dim(?w, 3) == 3
(pad (pad ?w axis=2 before=1 after=1) axis=3 before=1 after=1) if dim(?w, 2) == 1 and dim(?w, 3) == 1
(pad ?w axis=2 before=1 after=1) if dim(?w, 2) == 1 and dim(?w, 3) == 3
(concat ?x ?y axis=0) if 1 < rank(?x) and rank(?y) == rank(?x)
(concat ?x ?y axis=1) if 1 < rank(?x) and rank(?y) == rank(?x)
(split ?x axis=0 parts=2), (split ?x axis=0 parts=2 part=1) if 1 < rank(?x)
(split ?x axis=1 parts=2), (split ?x axis=1 parts=2 part=1) if 1 < rank(?x)
)";

constexpr std::string_view kRest = R"(
tensors [4] 2
tensors [5, 4] 1
indices [4] 1 below 5
indices [4, 2] 1 below 5
(add ?x ?b) if rank(?x) == 2 and rank(?b) == 1 and 1 < dim(?b, 0)
(linear ?x ?w) if rank(?x) == 2 and rank(?w) == 2 and dim(?x, 1) == dim(?w, 1)
(linear ?x ?w act=relu) if rank(?x) == 2 and rank(?w) == 2 and dim(?x, 1) == dim(?w, 1)
(linear ?x ?w ?b) if rank(?x) == 2 and rank(?w) == 2 and dim(?x, 1) == dim(?w, 1) and rank(?b) == 1 and dim(?w, 0) == dim(?b, 0)
(softmax ?x) if rank(?x) == 2
(layer_norm ?x ?g ?b) if rank(?x) == 2 and rank(?g) == 1 and dim(?x, 1) == dim(?g, 0) and same_shape(?g, ?b)
(reduce_sum ?x axes=[0]) if rank(?x) == 2
(reduce_sum ?x axes=[1]) if rank(?x) == 2
(embedding ?i ?w)
(embedding_bag ?i ?w) if rank(?i) == 2
)";

// Parses variables such as "[4, 4] 2 below 5".
VariableGroup parse_variables(std::string_view text, bool indices) {
  const auto end = text.find(']');
  const auto shape = parse_parallel_shape(trim(text.substr(0, end + 1)));
  const auto rest = split_words(end == std::string_view::npos ? "" : text.substr(end + 1));
  VariableGroup out;
  const auto count = rest.empty() ? 0 : parse_int(rest[0]).value_or(0);
  const auto below = rest.size() == 3 && rest[1] == "below" ? parse_int(rest[2]).value_or(0) : 0;
  if (!shape || count < 1 || indices != (below > 0) || rest.size() != (indices ? 3U : 1U)) {
    throw UserError("rule", "operator set", fmt::format("'{}' is not a group of variables", text),
                    "write `tensors [4, 4] 3` or `indices [4] 2 below 5`");
  }
  out.type.shape = *shape;
  out.count = static_cast<std::size_t>(count);
  if (indices) {
    out.type.dtype = DType::kInt64;
    out.below = below;
  }
  return out;
}

// Returns the nodes that one output of `side` needs.
rewrite::Side extract_output(const rewrite::Side& side, std::size_t output) {
  std::vector<bool> needed(side.nodes.size());
  needed[side.outputs[output]] = true;
  for (std::size_t n = side.nodes.size(); n-- > 0;) {
    if (!needed[n]) continue;
    for (auto i : side.nodes[n].inputs) needed[i] = true;
  }
  rewrite::Side out;
  std::vector<rewrite::PatternId> image(side.nodes.size());
  for (std::size_t n = 0; n < side.nodes.size(); ++n) {
    if (!needed[n]) continue;
    auto node = side.nodes[n];
    for (auto& i : node.inputs) i = image[i];
    image[n] = out.add(std::move(node));
  }
  out.outputs = {image[side.outputs[output]]};
  return out;
}

// Reads a line as a rule that changes nothing.
rewrite::Rule read_line(std::string_view text, std::size_t line) {
  const auto at = text.find(" if ");
  const auto pattern = std::string(text.substr(0, at));
  const auto conditions = at == std::string_view::npos ? "" : std::string(text.substr(at));
  return rewrite::parse_rule(
      fmt::format("line-{}: {} => {}{}", line, pattern, pattern, conditions))[0];
}

void add_operations(std::string_view text, std::size_t line, OperatorSet& out) {
  const auto rule = read_line(text, line);
  if (!rule.symbols.empty()) {
    throw UserError("rule", rule.name, "attributes in an operator set must have values",
                    "write one line for each value");
  }
  for (std::size_t o = 0; o < rule.source.outputs.size(); ++o) {
    out.operations.push_back({.pattern = extract_output(rule.source, o),
                              .arity = rule.tensors.size(),
                              .line = line,
                              .conditions = rule.conditions});
  }
}

// Adds a constant such as "n=4: (constant shape=[?n, ?n])".
void add_constant(std::string_view text, std::size_t line, OperatorSet& out) {
  const auto colon = text.find(':');
  const auto rule =
      read_line(colon == std::string_view::npos ? text : text.substr(colon + 1), line);
  GeneratorOperation made{.pattern = rule.source, .line = line, .symbols = rule.symbols};
  made.general = rule.source;
  std::vector<std::optional<rewrite::Value>> values(rule.symbols.size());
  for (auto word : split_words(text.substr(0, colon == std::string_view::npos ? 0 : colon))) {
    const auto equals = std::min(word.find('='), word.size());
    const auto symbol = std::ranges::find(rule.symbols, word.substr(0, equals));
    const auto value = parse_int(word.substr(std::min(equals + 1, word.size())));
    if (symbol == rule.symbols.end() || !value) {
      throw UserError("rule", rule.name, fmt::format("'{}' does not set a size", word),
                      "write `constant n=4: (constant shape=[?n, ?n] value=1)`");
    }
    values[static_cast<std::size_t>(symbol - rule.symbols.begin())] = *value;
  }
  for (auto& node : made.pattern.nodes) {
    for (auto& attribute : node.attributes) {
      const auto value = rewrite::evaluate(attribute, {{}, values});
      if (!value) throw UserError("rule", rule.name, "a size of the constant has no value");
      attribute = {.literal = *value};
    }
  }
  for (const auto& value : values) made.sizes.push_back(std::get<std::int64_t>(*value));
  out.operations.push_back(std::move(made));
}

}  // namespace

OperatorSet parse_operator_set(std::string_view text) {
  OperatorSet out;
  std::vector<std::pair<std::size_t, std::string_view>> operators;
  std::size_t number = 0;
  for (const auto piece : split(text, '\n')) {
    const auto line = trim(piece);
    ++number;
    if (line.empty() || line.starts_with('#')) continue;
    if (line.starts_with("tensors ")) {
      out.variables.push_back(parse_variables(line.substr(8), false));
    } else if (line.starts_with("indices ")) {
      out.variables.push_back(parse_variables(line.substr(8), true));
    } else if (line.starts_with("constant ")) {
      add_constant(line.substr(9), number, out);
    } else {
      operators.emplace_back(number, line);
    }
  }
  for (const auto& [n, line] : operators) add_operations(line, n, out);
  return out;
}

OperatorSet operator_set(std::string_view name) {
  if (name == "taso") return parse_operator_set(kTaso);
  if (name == "all") return parse_operator_set(std::string(kTaso) + std::string(kRest));
  throw UserError("flag", "--ops", fmt::format("unknown operator set '{}'", name),
                  "expected taso, all, or the name of a file");
}

}  // namespace tandem::generate
