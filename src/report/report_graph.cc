#include "report/report_graph.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/text.h"
#include "graph/text.h"
#include "report/blocks.h"
#include "report/digit_text.h"
#include "report/level_words.h"
#include "report/mapped_text.h"
#include "report/node_facts.h"
#include "report/node_facts_source.h"
#include "report/node_rules.h"

namespace tandem::report {

namespace {

using graph::NodeId;
using Json = nlohmann::ordered_json;

// Texts that many nodes share. A column has their numbers.
class Texts {
 public:
  std::size_t number(const std::string& text) {
    const auto [at, fresh] = numbers_.try_emplace(text, texts_.size());
    if (fresh) texts_.push_back(text);
    return at->second;
  }
  [[nodiscard]] const std::vector<std::string>& all() const { return texts_; }

 private:
  std::map<std::string, std::size_t> numbers_;
  std::vector<std::string> texts_;
};

// Returns the repeated blocks, without those that occur once.
Json repeated_blocks_json(const std::vector<FoldedBlock>& blocks) {
  Json out = Json::array();
  for (const auto& block : blocks) {
    if (block.count == 1) continue;
    out.push_back({{"start", block.start.index()},
                   {"period", block.period},
                   {"count", block.count},
                   {"blocks", repeated_blocks_json(block.blocks)}});
  }
  return out;
}

// Adds the nodes of the first iteration of each block, and those outside of repeated blocks.
void append_shown_nodes(const std::vector<FoldedBlock>& blocks, std::vector<NodeId>& out) {
  for (const auto& block : blocks) {
    for (const auto& node : block.nodes) out.push_back(node.id);
    append_shown_nodes(block.blocks, out);
  }
}

std::string get_source_kind(const graph::Node& node) {
  if (is_weight(node)) return "weight";
  return node.op.role() == ops::Role::kSource ? "input" : "";
}

// Returns the columns that any graph has.
Json make_columns(const graph::Graph& graph) {
  Texts ops;
  Json out{{"ops", Json::array()},
           {"name", Json::array()},
           {"op", Json::array()},
           {"inputs", Json::array()},
           {"source", Json::array()}};
  for (auto id : graph.ids()) {
    const auto& node = graph.node(id);
    out["name"].push_back(node.name);
    out["op"].push_back(ops.number(std::string(node.op.name())));
    Json inputs = Json::array();
    for (auto input : graph.inputs(id)) inputs.push_back(input.index());
    out["inputs"].push_back(std::move(inputs));
    out["source"].push_back(get_source_kind(node));
  }
  out["ops"] = ops.all();
  return out;
}

class GraphWriting {
 public:
  explicit GraphWriting(const PlanView& view)
      : view_(view), mapped_(make_mapped_model(view.program)) {
    for (auto id : view.program.pcg.ids()) in_pcg_.emplace(view.program.pcg.node(id).name, id);
  }

  Json run(const graph::Graph* model) {
    auto out = make_columns(mapped_.model);
    add_columns(out);
    out["moves"] = moves_json();
    const auto blocks = split_into_blocks(mapped_.model, [&](NodeId a, NodeId b) {
      return mapped_.nodes[a.index()] == mapped_.nodes[b.index()];
    });
    out["blocks"] = repeated_blocks_json(blocks);
    out["facts"] = facts_json(blocks);
    out["rules"] = rules_json(model);
    out["steps"] = view_.plan.derivation.size();
    out["rule_texts"] = rule_texts_json();
    return out;
  }

 private:
  // Returns, by node, the rule that created it and the step of the derivation.
  [[nodiscard]] Json rules_json(const graph::Graph* model) const {
    Json out = Json::object();
    if (model == nullptr) return out;
    const auto made = find_node_rules(view_.plan, *model);
    for (auto id : mapped_.model.ids()) {
      const auto at = made.find(mapped_.model.node(id).name);
      if (at == made.end()) continue;
      out[std::to_string(id.index())] = {at->second.rule, at->second.step};
    }
    return out;
  }

  // Returns the text of each rule by name, from the plan's lines "name: source => target".
  [[nodiscard]] Json rule_texts_json() const {
    Json out = Json::object();
    for (const auto& line : view_.plan.rules) {
      const auto colon = line.find(':');
      if (colon != std::string::npos)
        out[line.substr(0, colon)] = std::string(trim(std::string_view(line).substr(colon + 1)));
    }
    return out;
  }

  void add_columns(Json& out) const {
    Texts types;
    Texts hows;
    Texts layouts;
    for (const auto* key : {"type", "how_of", "layout", "stage", "bytes", "recomputed"}) {
      out[key] = Json::array();
    }
    for (auto id : mapped_.model.ids()) {
      const auto& node = mapped_.nodes[id.index()];
      const auto layout = find_layout(id);
      out["type"].push_back(types.number(graph::format_type(node.type)));
      out["how_of"].push_back(hows.number(describe_layout(id, layout)));
      out["layout"].push_back(layouts.number(layout == nullptr ? "" : to_text(*layout)));
      out["stage"].push_back(node.stage);
      out["bytes"].push_back(static_cast<std::int64_t>(node.result.value));
      out["recomputed"].push_back(node.recomputed);
    }
    out["types"] = types.all();
    out["how"] = hows.all();
    out["layouts"] = layouts.all();
  }

  // Returns the layout of a node. A join replaces several additions, and only the last of them has
  // a layout; returns null for the others.
  [[nodiscard]] const machine::Layout* find_layout(NodeId id) const {
    const auto at = in_pcg_.find(mapped_.model.node(id).name);
    return at == in_pcg_.end() ? nullptr : &view_.plan.mapped.layouts[at->second.index()];
  }

  [[nodiscard]] std::string describe_layout(NodeId id, const machine::Layout* layout) const {
    const bool is_stored = mapped_.model.node(id).op.role() == ops::Role::kSource;
    if (!is_stored) return work_text(mapped_.nodes[id.index()], view_.machine, view_.program);
    return layout == nullptr ? "" : storage_text(view_.program, view_.machine, *layout);
  }

  [[nodiscard]] Json moves_json() const {
    Json out = Json::array();
    for (auto id : mapped_.model.ids()) {
      for (const auto& move : mapped_.nodes[id.index()].moves) {
        const auto operand =
            move.operand == TensorMove::kResult ? -1 : static_cast<std::int64_t>(move.operand);
        out.push_back({id.index(), operand, machine::name(move.kind),
                       levels_text(move.digits, view_.machine, view_.program.digits),
                       static_cast<std::int64_t>(move.bytes.value), move.times, move.backward,
                       move.recomputed});
      }
    }
    return out;
  }

  // Returns the facts of the nodes that represent others, and of the weights and inputs they read.
  [[nodiscard]] Json facts_json(const std::vector<FoldedBlock>& blocks) const {
    const NodeFactsSource source(view_);
    std::vector<NodeId> shown;
    append_shown_nodes(blocks, shown);
    std::set<std::size_t> included;
    for (auto id : shown) {
      included.insert(id.index());
      for (auto input : mapped_.model.inputs(id)) {
        if (!get_source_kind(mapped_.model.node(input)).empty()) included.insert(input.index());
      }
    }
    Json out = Json::object();
    for (auto n : included) {
      const auto at = in_pcg_.find(mapped_.model.node(NodeId(n)).name);
      if (at == in_pcg_.end()) continue;
      out[std::to_string(n)] = node_json(collect_node_facts(source, at->second), view_);
    }
    return out;
  }

  const PlanView& view_;
  MappedModel mapped_;
  std::map<std::string, NodeId> in_pcg_;  // by name
};

}  // namespace

Json report_graph(const PlanView& view, const graph::Graph* model) {
  return GraphWriting(view).run(model);
}

Json plain_graph_json(const graph::Graph& graph) {
  auto out = make_columns(graph);
  Texts types;
  out["type"] = Json::array();
  for (auto id : graph.ids()) {
    out["type"].push_back(types.number(graph::format_type(graph.node(id).type)));
  }
  out["types"] = types.all();
  const auto same = [&](NodeId a, NodeId b) {
    return graph.node(a).op == graph.node(b).op && graph.node(a).type == graph.node(b).type;
  };
  out["blocks"] = repeated_blocks_json(split_into_blocks(graph, same));
  return out;
}

}  // namespace tandem::report
