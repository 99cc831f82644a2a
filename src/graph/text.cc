#include "graph/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <variant>

#include "base/text.h"
#include "ops/registry.h"

namespace tandem::graph {

namespace {

constexpr std::int64_t kLargestNumber = 1'000'000'000'000;
constexpr auto kMaxNodes = static_cast<std::int64_t>(GraphBuilder::kMaxNodes);

std::string_view get_first_word(std::string_view line) {
  return line.substr(0, line.find_first_of(" \t"));
}

// Returns the end of the attribute=value that `text` starts with. Spaces end it only outside
// brackets and quotes.
std::size_t find_attribute_end(std::string_view text) {
  int depth = 0;
  bool quoted = false;
  for (std::size_t end = text.find('=') + 1; end < text.size(); ++end) {
    const char c = text[end];
    if (c == '"') quoted = !quoted;
    if (c == '[') ++depth;
    if (c == ']') --depth;
    if (c == ' ' && depth <= 0 && !quoted) return end;
  }
  return text.size();
}

// Returns the position of the type after a node's attributes, or the end of the text if there is
// none.
std::size_t find_attributes_end(std::string_view text) {
  std::size_t at = 0;
  while (true) {
    at = std::min(text.find_first_not_of(" \t\r", at), text.size());
    if (at == text.size() || text[at] == ':') return at;
    if (text.find('=', at) == std::string_view::npos) return text.size();
    at += find_attribute_end(text.substr(at));
  }
}

// A parsed node line. Names may contain the numbers of enclosing repeats: "l{i}.q".
struct NodeLine {
  std::string_view name;
  ops::Op op;
  std::vector<std::string_view> inputs;
  std::string_view type;
};

struct CarryLine {
  int number = 0;
  std::string_view name, first, then;
};

struct GraphLine;

struct RepeatBlock {
  std::int64_t count = 1;
  std::string_view variable;
  std::int64_t from = 0;
  std::vector<CarryLine> carries;
  std::vector<GraphLine> body;
};

struct GraphLine {
  int number = 0;
  std::variant<NodeLine, RepeatBlock> content;
};

// Returns the number of nodes that the lines make; stops counting above kMaxNodes.
std::int64_t count_nodes(const std::vector<GraphLine>& lines) {
  std::int64_t nodes = 0;
  for (const auto& line : lines) {
    const auto* repeat = std::get_if<RepeatBlock>(&line.content);
    nodes += repeat == nullptr ? 1 : repeat->count * count_nodes(repeat->body);
    nodes = std::min(nodes, kMaxNodes + 1);
  }
  return nodes;
}

// One round of a repeat while it runs.
struct Round {
  const RepeatBlock& repeat;
  std::int64_t number;
  std::vector<NodeId> carried;
  const Round* around;
};

// Parses a graph. Lines are read one by one and run at once; lines of a repeat run after its `end`.
class GraphParser {
 public:
  GraphParser(std::string_view text, const std::string& source) : rest_(text), source_(source) {}

  Graph run() {
    while (!rest_.empty()) {
      const auto line = read_next_line();
      if (line.empty()) continue;
      const auto first = get_first_word(line);
      if (!builder_) {
        if (first != "graph" || split_words(line).size() != 2) fail("expected 'graph NAME'", line);
        builder_.emplace(std::string(split_words(line)[1]));
      } else if (first == "return") {
        return finish(line.substr(first.size()));
      } else {
        run_line(read_line(line, 0), nullptr);
      }
    }
    fail("the graph ends without 'return'", "");
  }

 private:
  static constexpr int kMaxDepth = 8;  // limit of nested repeats

  std::string_view read_next_line() {
    line_ = ++lines_read_;
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

  // Rethrows the error with its line.
  [[noreturn]] void fail(const UserError& e) const {
    throw UserError(e.kind, fmt::format("{}:{}", source_, line_),
                    e.where.empty() ? e.message : e.where + ": " + e.message, e.hint);
  }

  // --- Reading ----------------------------------------------------------------------------------

  GraphLine read_line(std::string_view line, int depth) {
    const int number = line_;
    const auto first = get_first_word(line);
    if (first == "repeat") return {number, read_repeat(line, depth)};
    if (first == "end") fail("'end' without 'repeat'", "");
    if (first == "carry") fail("'carry' is only allowed at the start of a repeat", "");
    return {number, read_node(line)};
  }

  // Reads `repeat COUNT as VARIABLE from NUMBER`, then carries and nodes, then `end`.
  RepeatBlock read_repeat(std::string_view header, int depth) {
    const int start = line_;
    if (depth == kMaxDepth) fail(fmt::format("repeats are nested deeper than {}", kMaxDepth), "");
    auto repeat = read_header(header);
    while (!rest_.empty()) {
      const auto line = read_next_line();
      if (line.empty()) continue;
      const auto first = get_first_word(line);
      if (first == "end") {
        if (line != "end") fail("unexpected text after 'end'", line);
        if (repeat.body.empty()) fail("a repeat must have at least one node", "");
        return repeat;
      }
      if (first == "return") break;
      if (first == "carry" && repeat.body.empty()) {
        repeat.carries.push_back(read_carry(line.substr(first.size())));
      } else {
        repeat.body.push_back(read_line(line, depth + 1));
      }
    }
    fail(fmt::format("the repeat in line {} has no 'end'", start), "");
  }

  [[nodiscard]] RepeatBlock read_header(std::string_view line) const {
    const auto w = split_words(line);
    if (w.size() != 6 || w[2] != "as" || w[4] != "from") {
      fail("expected 'repeat COUNT as VARIABLE from NUMBER'", line);
    }
    const auto count = parse_int(w[1]);
    if (!count || *count < 1) fail("expected a count of at least 1", w[1]);
    if (w[3].find_first_not_of("abcdefghijklmnopqrstuvwxyz") != std::string_view::npos) {
      fail("expected a variable of lowercase letters", w[3]);
    }
    const auto from = parse_int(w[5]);
    if (!from || *from < 0 || *from > kLargestNumber) {
      fail("expected a first number of at least 0", w[5]);
    }
    // A larger count is rejected once the block's nodes are known.
    return {std::min(*count, kMaxNodes + 1), w[3], *from, {}, {}};
  }

  // Reads `%name = %first then %later`.
  [[nodiscard]] CarryLine read_carry(std::string_view text) const {
    const auto equals = text.find('=');
    const auto right = split_words(equals == std::string_view::npos ? "" : text.substr(equals + 1));
    const auto name = trim(text.substr(0, equals));
    if (!name.starts_with('%') || split_words(name).size() != 1 || right.size() != 3 ||
        right[1] != "then") {
      fail("expected 'carry %name = %first then %later'", trim(text));
    }
    return {line_, name, right[0], right[2]};
  }

  // Reads `%name = op(%a, %b) key=value ... : type`.
  [[nodiscard]] NodeLine read_node(std::string_view line) const {
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
    NodeLine out{.name = name, .op = {}, .inputs = {}, .type = {}};
    out.inputs = split(line.substr(open + 1, close - open - 1), ',');
    const auto op_name = trim(line.substr(equals + 1, open - equals - 1));
    const auto attributes = read_attributes(line.substr(close + 1), out.type);
    try {
      out.op = ops::parse_op(ops::find_op(op_name), attributes);
    } catch (const UserError& e) {
      fail(e);
    }
    return out;
  }

  // Reads `key=value key=[a, b] key="c d" : type`.
  ops::AttributeList read_attributes(std::string_view text, std::string_view& type) const {
    const auto colon = find_attributes_end(text);
    if (colon < text.size()) type = trim(text.substr(colon + 1));
    auto out = split_attributes(text.substr(0, colon));
    if (!out) fail("expected attribute=value", trim(text.substr(0, colon)));
    return std::move(*out);
  }

  // --- Running ----------------------------------------------------------------------------------

  void run_line(const GraphLine& line, const Round* round) {
    line_ = line.number;
    if (const auto* node = std::get_if<NodeLine>(&line.content)) {
      add_node(*node, round);
    } else {
      run_repeat(std::get<RepeatBlock>(line.content), round);
    }
  }

  void run_repeat(const RepeatBlock& repeat, const Round* around) {
    const auto body = count_nodes(repeat.body);
    const auto room = kMaxNodes - static_cast<std::int64_t>(builder_->size());
    if (repeat.count * body > room) {
      fail(fmt::format("the repeat creates too many nodes: a graph has at most {}", kMaxNodes), "");
    }
    for (const auto* r = around; r != nullptr; r = r->around) {
      if (r->repeat.variable == repeat.variable) {
        fail(fmt::format("'{}' is already the variable of an enclosing repeat", repeat.variable),
             "");
      }
    }
    Round round{.repeat = repeat, .number = repeat.from, .carried = {}, .around = around};
    for (const auto& carry : repeat.carries) {
      line_ = carry.number;
      check_carry_name(carry.name.substr(1), around);
      round.carried.push_back(resolve_reference(carry.first, around));
    }
    for (; round.number < repeat.from + repeat.count; ++round.number) {
      for (const auto& line : repeat.body) run_line(line, &round);
      carry_over(round);
    }
  }

  void check_carry_name(std::string_view name, const Round* around) const {
    if (builder_->find(name) || find_carried(name, around)) {
      fail(fmt::format("the name %{} is already in use", name), "");
    }
  }

  // Sets the carried values of the next round.
  void carry_over(Round& round) {
    for (std::size_t c = 0; c < round.carried.size(); ++c) {
      const auto& carry = round.repeat.carries[c];
      line_ = carry.number;
      const auto name = expand_name(carry.then, &round);
      const auto id = builder_->find(std::string_view(name).substr(1));
      if (!name.starts_with('%') || !id) {
        fail(fmt::format("there is no node {} at the end of the iteration", name), "");
      }
      round.carried[c] = *id;
    }
  }

  // Replaces the rounds' numbers in a name: "l{i}.q" -> "l3.q".
  [[nodiscard]] std::string expand_name(std::string_view text, const Round* round) const {
    std::string out;
    while (true) {
      const auto open = text.find('{');
      const auto close = text.find('}', std::min(open, text.size()));
      if (close == std::string_view::npos) return out.append(text);
      const auto variable = text.substr(open + 1, close - open - 1);
      const auto* r = round;
      while (r != nullptr && r->repeat.variable != variable) r = r->around;
      if (r == nullptr)
        fail(fmt::format("no enclosing repeat has the variable '{}'", variable), text);
      out += fmt::format("{}{}", text.substr(0, open), r->number);
      text.remove_prefix(close + 1);
    }
  }

  static std::optional<NodeId> find_carried(std::string_view name, const Round* round) {
    for (; round != nullptr; round = round->around) {
      const auto& carries = round->repeat.carries;
      for (std::size_t c = 0; c < round->carried.size(); ++c) {
        if (carries[c].name.substr(1) == name) return round->carried[c];
      }
    }
    return std::nullopt;
  }

  [[nodiscard]] NodeId resolve_reference(std::string_view text, const Round* round) const {
    if (!text.starts_with('%')) fail("expected a node like %x", text);
    if (const auto carried = find_carried(text.substr(1), round)) return *carried;
    const auto name = expand_name(text.substr(1), round);
    const auto id = builder_->find(name);
    if (!id) fail(fmt::format("there is no node %{} before this line", name), "");
    return *id;
  }

  void add_node(const NodeLine& line, const Round* round) {
    std::vector<NodeId> inputs;
    inputs.reserve(line.inputs.size());
    for (auto i : line.inputs) inputs.push_back(resolve_reference(i, round));
    auto name = expand_name(line.name, round);
    if (find_carried(name, round))
      fail(fmt::format("%{} is already the name of a carried node", name), "");
    try {
      const Node& node = builder_->node(builder_->add(line.op, inputs, std::move(name)));
      if (line.type.empty() || line.type == format_type(node.type)) return;
      throw UserError(
          "graph", fmt::format("{} %{}", node.op.name(), node.name),
          fmt::format("is written as {}, but its type is {}", line.type, format_type(node.type)));
    } catch (const UserError& e) {
      fail(e);
    }
  }

  Graph finish(std::string_view rest) {
    std::vector<NodeId> outputs;
    for (auto name : split(rest, ',')) outputs.push_back(resolve_reference(name, nullptr));
    if (outputs.empty()) fail("'return' must name at least one node", "");
    while (!rest_.empty()) {
      if (const auto line = read_next_line(); !line.empty())
        fail("unexpected text after 'return'", line);
    }
    return builder_->finish(std::move(outputs));
  }

  std::string_view rest_;
  const std::string& source_;
  std::optional<GraphBuilder> builder_;
  int lines_read_ = 0;
  int line_ = 0;  // line number for messages
};

}  // namespace

std::string format_type(const TensorType& type) {
  auto out = fmt::format("{} {}", to_text(type.shape), name(type.dtype));
  if (type.density != 1) out += fmt::format(" density {}", type.density);
  return out;
}

std::optional<ops::AttributeList> split_attributes(std::string_view text) {
  ops::AttributeList out;
  for (text = trim(text); !text.empty(); text = trim(text)) {
    const auto equals = text.find('=');
    if (equals == std::string_view::npos) return std::nullopt;
    const auto end = find_attribute_end(text);
    out.emplace_back(trim(text.substr(0, equals)), text.substr(equals + 1, end - equals - 1));
    text.remove_prefix(end);
  }
  return out;
}

std::string format_node(const Node& node, std::string_view name,
                        std::span<const std::string_view> inputs) {
  fmt::memory_buffer out;
  const auto write = [&](const auto&... parts) { (out.append(std::string_view(parts)), ...); };
  write("%", name, " = ", node.op.name(), "(");
  for (std::size_t i = 0; i < inputs.size(); ++i) write(i == 0 ? "%" : ", %", inputs[i]);
  write(")");
  if (!node.op.attribute_text().empty()) write(" ", node.op.attribute_text());
  if (node.op.role() != ops::Role::kSource) write(" : ", format_type(node.type));
  return fmt::to_string(out);
}

std::string format_return(const Graph& graph) {
  std::vector<std::string> names;
  for (auto o : graph.outputs()) names.push_back("%" + graph.node(o).name);
  return "return " + join(names, ", ");
}

std::string to_text(const Graph& graph) {
  std::string out = fmt::format("graph {}\n", graph.name());
  std::vector<std::string_view> inputs;
  for (auto id : graph.ids()) {
    inputs.clear();
    for (auto i : graph.inputs(id)) inputs.emplace_back(graph.node(i).name);
    const Node& node = graph.node(id);
    out.append(format_node(node, node.name, inputs)).append("\n");
  }
  return out.append(format_return(graph)).append("\n");
}

Graph parse_graph(std::string_view text, const std::string& source) {
  return GraphParser(text, source).run();
}

bool is_graph_text(std::string_view text) {
  while (!text.empty()) {
    const auto line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const auto first = split_words(line.substr(0, line.find('#')));
    if (!first.empty()) return first[0] == "graph";
  }
  return false;
}

}  // namespace tandem::graph
