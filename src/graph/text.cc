#include "graph/text.h"

#include <fmt/format.h>

#include <optional>

#include "base/text.h"
#include "ops/registry.h"

namespace tandem::graph {

namespace {

std::string type_text(const TensorType& type) {
  auto out = fmt::format("{} {}", to_text(type.shape), name(type.dtype));
  if (type.density != 1) out += fmt::format(" density {}", type.density);
  return out;
}

class Parser {
 public:
  Parser(std::string_view text, const std::string& source) : rest_(text), source_(source) {}

  Graph run() {
    std::optional<GraphBuilder> builder;
    while (!rest_.empty()) {
      const auto line = next_line();
      if (line.empty()) continue;
      const auto first = words(line)[0];
      if (!builder) {
        if (first != "graph" || words(line).size() != 2) fail("expected 'graph NAME'", line);
        builder.emplace(std::string(words(line)[1]));
      } else if (first == "return") {
        return finish(*builder, line.substr(first.size()));
      } else {
        add_node(*builder, line);
      }
    }
    fail("the text ends without 'return'", "");
  }

 private:
  std::string_view next_line() {
    ++line_;
    const auto end = std::min(rest_.find('\n'), rest_.size());
    auto line = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    return trim(line.substr(0, line.find('#')));
  }

  [[noreturn]] void fail(const std::string& message, std::string_view at,
                         const std::string& hint = "") const {
    throw UserError("graph", fmt::format("{}:{}", source_, line_),
                    at.empty() ? message : fmt::format("{} at '{}'", message, at), hint);
  }

  NodeId reference(const GraphBuilder& builder, std::string_view text) const {
    if (!text.starts_with('%')) fail("expected a node like %x", text);
    const auto id = builder.find(text.substr(1));
    if (!id) fail(fmt::format("there is no node {} before this line", text), "");
    return *id;
  }

  Graph finish(GraphBuilder& builder, std::string_view rest) {
    std::vector<NodeId> outputs;
    for (auto name : split(rest, ',')) outputs.push_back(reference(builder, name));
    if (outputs.empty()) fail("'return' needs at least one node", "");
    while (!rest_.empty()) {
      if (const auto line = next_line(); !line.empty()) fail("text after 'return'", line);
    }
    return builder.finish(std::move(outputs));
  }

  // %name = op(%a, %b) key=value ... : type
  void add_node(GraphBuilder& builder, std::string_view line) const {
    const auto equals = line.find('=');
    const auto open = line.find('(');
    const auto close = line.find(')');
    if (!line.starts_with('%') || equals == std::string_view::npos ||
        open == std::string_view::npos || close == std::string_view::npos ||
        !(equals < open && open < close)) {
      fail("expected '%name = operator(%input, ...) attribute=value'", line);
    }
    const auto name = trim(line.substr(1, equals - 1));
    if (name.empty() || name.find_first_of(" \t%,") != std::string_view::npos) {
      fail("expected a name without blanks", name);
    }
    std::vector<NodeId> inputs;
    for (auto i : split(line.substr(open + 1, close - open - 1), ',')) {
      inputs.push_back(reference(builder, i));
    }
    const auto op_name = trim(line.substr(equals + 1, open - equals - 1));
    std::string_view type;
    const auto attributes = read_attributes(line.substr(close + 1), type);
    try {
      const auto id =
          builder.add(ops::parse_op(ops::find_op(op_name), attributes), inputs, std::string(name));
      const auto actual = type_text(builder.node(id).type);
      if (!type.empty() && type != actual) {
        throw UserError("graph", fmt::format("{} %{}", op_name, name),
                        fmt::format("is written as {} and is {}", type, actual));
      }
    } catch (const UserError& e) {
      throw UserError(e.kind, fmt::format("{}:{}", source_, line_),
                      e.where.empty() ? e.message : e.where + ": " + e.message, e.hint);
    }
  }

  // Reads "key=value key=[a, b] key="c d" : type"; blanks count only outside brackets and quotes.
  ops::AttributeList read_attributes(std::string_view text, std::string_view& type) const {
    ops::AttributeList out;
    text = trim(text);
    while (!text.empty() && !text.starts_with(':')) {
      const auto equals = text.find('=');
      if (equals == std::string_view::npos) fail("expected attribute=value", text);
      std::size_t end = equals + 1;
      int depth = 0;
      bool quoted = false;
      for (; end < text.size(); ++end) {
        const char c = text[end];
        if (c == '"') quoted = !quoted;
        if (c == '[') ++depth;
        if (c == ']') --depth;
        if (c == ' ' && depth <= 0 && !quoted) break;
      }
      out.emplace_back(trim(text.substr(0, equals)), text.substr(equals + 1, end - equals - 1));
      text = trim(text.substr(end));
    }
    if (text.starts_with(':')) type = trim(text.substr(1));
    return out;
  }

  std::string_view rest_;
  const std::string& source_;
  int line_ = 0;
};

}  // namespace

std::string to_text(const Graph& graph) {
  fmt::memory_buffer out;
  const auto write = [&](const auto&... parts) {
    (fmt::format_to(std::back_inserter(out), "{}", parts), ...);
  };
  write("graph ", graph.name(), "\n");
  for (auto id : graph.ids()) {
    const Node& node = graph.node(id);
    write("%", node.name, " = ", node.op.name(), "(");
    const auto inputs = graph.inputs(id);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      write(i == 0 ? "%" : ", %", graph.node(inputs[i]).name);
    }
    write(")");
    if (!node.op.attribute_text().empty()) write(" ", node.op.attribute_text());
    if (node.op.role() != ops::Role::kSource) write(" : ", type_text(node.type));
    write("\n");
  }
  write("return ");
  for (std::size_t i = 0; i < graph.outputs().size(); ++i) {
    write(i == 0 ? "%" : ", %", graph.node(graph.outputs()[i]).name);
  }
  write("\n");
  return fmt::to_string(out);
}

Graph parse_graph(std::string_view text, const std::string& source) {
  return Parser(text, source).run();
}

}  // namespace tandem::graph
