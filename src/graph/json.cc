#include "graph/json.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "graph/text.h"
#include "ops/registry.h"

namespace tandem::graph {

namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;
constexpr int kMaxDepth = 8;  // nesting limit of a document; the format needs four

class GraphJsonReader {
 public:
  explicit GraphJsonReader(const std::string& source) : source_(source) {}

  Graph run(std::string_view text) {
    const auto json = read_json<Json>(text, "graph", source_, kMaxDepth);
    if (!json.is_object()) fail("", "is not a JSON object");
    const auto version = json.find("tandem_graph");
    if (version == json.end() || *version != kVersion) {
      fail("", fmt::format("key 'tandem_graph' must be {}", kVersion));
    }
    GraphBuilder builder(read_name(json));
    for (const auto& node : read_list(json, "nodes", "")) add_node(builder, node);
    std::vector<NodeId> outputs;
    for (const auto& name : read_list(json, "outputs", "")) {
      outputs.push_back(find_node(builder, name, "outputs"));
    }
    if (outputs.empty()) fail("", "key 'outputs' names no node");
    return builder.finish(std::move(outputs));
  }

 private:
  [[noreturn]] void fail(const std::string& where, const std::string& message,
                         const std::string& hint = "") const {
    throw UserError("graph", where.empty() ? source_ : fmt::format("{}: {}", source_, where),
                    message, hint);
  }

  [[nodiscard]] std::string read_name(const Json& json) const {
    auto name = read_text(json, "name", "");
    if (split_words(name).size() != 1 || name.find_first_of("#\n") != std::string::npos) {
      fail("", fmt::format("'{}' is not a valid graph name: it must be one word", name));
    }
    return name;
  }

  [[nodiscard]] std::string read_text(const Json& json, const char* key,
                                      const std::string& where) const {
    const auto at = json.find(key);
    if (at == json.end() || !at->is_string())
      fail(where, fmt::format("key '{}' must be a string", key));
    return at->get<std::string>();
  }

  [[nodiscard]] Json read_list(const Json& json, const char* key, const std::string& where) const {
    const auto at = json.find(key);
    if (at == json.end() || !at->is_array())
      fail(where, fmt::format("key '{}' must be a list", key));
    return *at;
  }

  [[nodiscard]] NodeId find_node(const GraphBuilder& builder, const Json& name,
                                 const std::string& where) const {
    if (!name.is_string()) fail(where, "node names must be strings");
    const auto id = builder.find(name.get<std::string>());
    if (!id)
      fail(where, fmt::format("there is no node '{}' before this one", name.get<std::string>()));
    return *id;
  }

  [[nodiscard]] ops::AttributeList read_attributes(const Json& node,
                                                   const std::string& where) const {
    ops::AttributeList out;
    const auto at = node.find("attributes");
    if (at == node.end()) return out;
    if (!at->is_object()) fail(where, "key 'attributes' must be an object");
    for (const auto& [name, value] : at->items()) {
      if (!value.is_string()) fail(where, fmt::format("attribute '{}' must be a string", name));
      out.emplace_back(name, value.get<std::string>());
    }
    return out;
  }

  void add_node(GraphBuilder& builder, const Json& node) const {
    const auto number = fmt::format("node {}", builder.size());
    if (!node.is_object()) fail(number, "must be an object");
    const auto name = read_text(node, "name", number);
    const auto where = fmt::format("node '{}'", name);
    if (name.empty()) fail(number, "the name is empty");
    std::vector<NodeId> inputs;
    if (node.contains("inputs")) {
      for (const auto& input : read_list(node, "inputs", where)) {
        inputs.push_back(find_node(builder, input, where));
      }
    }
    try {
      const auto& spec = ops::find_op(read_text(node, "op", where));
      const auto id = builder.add(ops::parse_op(spec, read_attributes(node, where)), inputs, name);
      const auto type = format_type(builder.node(id).type);
      if (node.contains("type") && read_text(node, "type", where) != type) {
        fail(where, fmt::format("is written as {}, but its type is {}",
                                read_text(node, "type", where), type));
      }
    } catch (const UserError& e) {
      if (e.where.starts_with(source_)) throw;
      fail(where, e.message, e.hint);
    }
  }

  const std::string& source_;
};

}  // namespace

std::string to_json(const Graph& graph) {
  Json nodes = Json::array();
  for (auto id : graph.ids()) {
    const Node& node = graph.node(id);
    Json attributes = Json::object();
    const auto list = split_attributes(node.op.attribute_text()).value();
    for (const auto& [name, value] : list) attributes[name] = value;
    Json inputs = Json::array();
    for (auto i : graph.inputs(id)) inputs.push_back(graph.node(i).name);
    nodes.push_back({{"name", node.name},
                     {"op", node.op.name()},
                     {"attributes", attributes},
                     {"inputs", inputs},
                     {"type", format_type(node.type)}});
  }
  Json outputs = Json::array();
  for (auto id : graph.outputs()) outputs.push_back(graph.node(id).name);
  const Json out = {
      {"tandem_graph", kVersion}, {"name", graph.name()}, {"nodes", nodes}, {"outputs", outputs}};
  return out.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

bool is_graph_json(std::string_view text) {
  const auto start = text.substr(0, 256);
  return trim(start).starts_with('{') && start.find("\"tandem_graph\"") != std::string_view::npos;
}

Graph parse_graph_json(std::string_view text, const std::string& source) {
  return GraphJsonReader(source).run(text);
}

}  // namespace tandem::graph
