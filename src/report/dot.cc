#include "report/dot.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "report/mapped_text.h"

namespace tandem::report {

namespace {

using graph::Graph;
using graph::NodeId;

// Returns text in quotes for Graphviz. Escapes special characters and writes line breaks as "\n".
std::string quote(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '\n') {
      out += "\\n";
    } else if (c == '&') {
      out += "&amp;";
    } else {
      if (c == '"' || c == '\\') out += '\\';
      out += c;
    }
  }
  return out + "\"";
}

std::string_view get_color(machine::Step kind) {
  switch (kind) {
    case machine::Step::kAllReduce:
      return "firebrick";
    case machine::Step::kAllToAll:
      return "purple";
    case machine::Step::kAllGather:
    case machine::Step::kReduceScatter:
      return "darkorange3";
    default:
      return "blue";
  }
}

// Notes that are written next to names and operators.
class Notes {
 public:
  virtual ~Notes() = default;
  [[nodiscard]] virtual std::string describe_node(NodeId id) const = 0;
  [[nodiscard]] virtual std::string describe_edge(NodeId user, std::size_t operand) const = 0;
  [[nodiscard]] virtual const TensorMove* find_move(NodeId, std::size_t) const { return nullptr; }
};

class ModelNotes : public Notes {
 public:
  explicit ModelNotes(const Graph& model) : model_(model) {}
  [[nodiscard]] std::string describe_node(NodeId id) const override {
    return to_text(model_.node(id).type.shape);
  }
  [[nodiscard]] std::string describe_edge(NodeId user, std::size_t operand) const override {
    return to_text(model_.node(model_.inputs(user)[operand]).type.shape);
  }

 private:
  const Graph& model_;
};

class MappedNotes : public Notes {
 public:
  MappedNotes(const MappedModel& mapped, const machine::Machine& machine,
              const lower::Program& program)
      : mapped_(mapped), machine_(machine), program_(program) {}

  [[nodiscard]] std::string describe_node(NodeId id) const override {
    const auto& node = mapped_.nodes[id.index()];
    auto out = to_text(node.type.shape);
    if (const auto work = work_text(node, machine_, program_); !work.empty()) out += "\n" + work;
    return out + describe_moves(id, TensorMove::kResult);
  }
  [[nodiscard]] std::string describe_edge(NodeId user, std::size_t operand) const override {
    return to_text(mapped_.nodes[user.index()].operands[operand]) + describe_moves(user, operand);
  }
  [[nodiscard]] const TensorMove* find_move(NodeId user, std::size_t operand) const override {
    for (const auto& move : mapped_.nodes[user.index()].moves) {
      if (move.operand == operand) return &move;
    }
    return nullptr;
  }

 private:
  [[nodiscard]] std::string describe_moves(NodeId id, std::size_t operand) const {
    std::string out;
    for (const auto& move : mapped_.nodes[id.index()].moves) {
      if (move.operand == operand) out += "\n" + move_text(move, machine_, program_.digits);
    }
    return out;
  }

  const MappedModel& mapped_;
  const machine::Machine& machine_;
  const lower::Program& program_;
};

class Drawing {
 public:
  Drawing(const Graph& model, const Notes& notes) : model_(model), notes_(notes) {
    for (auto id : model.ids()) representatives_.push_back(id);
  }

  std::string run(const std::vector<FoldedBlock>& blocks) {
    out_ = fmt::format("digraph {} {{\n", quote(model_.name()));
    out_ += "  node [shape=box fontname=Helvetica fontsize=10];\n";
    out_ += "  edge [fontname=Helvetica fontsize=9];\n";
    for (const auto& block : blocks) add(block, 1);
    for (const auto& block : blocks) connect(block, {});
    return out_ + "}\n";
  }

 private:
  void add(const FoldedBlock& block, std::size_t depth) {
    const std::string indentation(2 * depth, ' ');
    const bool repeats = block.count > 1;
    if (repeats) {
      out_ += fmt::format("{}subgraph cluster_{} {{\n{}  label=\"x{}\";\n", indentation,
                          clusters_++, indentation, block.count);
    }
    for (const auto& node : block.nodes) add(node, depth + (repeats ? 1 : 0));
    for (const auto& inner : block.blocks) add(inner, depth + (repeats ? 1 : 0));
    if (!repeats) return;
    out_ += indentation + "}\n";
    // The first iteration represents all of them.
    const auto start = block.start.index();
    const auto size = static_cast<std::size_t>(block.count) * block.period;
    for (auto i = start + block.period; i < start + size; ++i) {
      representatives_[i] = representatives_[i - block.period];
    }
  }

  void add(const BlockNode& shown, std::size_t depth) {
    const auto& op = model_.node(shown.id).op;
    out_ += fmt::format(
        "{}n{} [label={}{}];\n", std::string(2 * depth, ' '), shown.id.index(),
        quote(fmt::format("{}\n{} {}", shown.name, op.name(), notes_.describe_node(shown.id))),
        op.role() == ops::Role::kSource ? " shape=ellipse" : "");
  }

  // Draws the edges of a block. `periods` are those of the repeated blocks around it.
  void connect(const FoldedBlock& block, std::vector<std::size_t> periods) {
    if (block.count > 1) periods.push_back(block.period);
    for (const auto& node : block.nodes) connect(node.id, periods);
    for (const auto& inner : block.blocks) connect(inner, periods);
  }

  // Draws the edges of one node. Equal edges are drawn once, with their number.
  void connect(NodeId user, std::span<const std::size_t> periods) {
    std::vector<std::pair<DotEdge, int>> edges;
    const auto add = [&](DotEdge edge) {
      const auto at = std::ranges::find(edges, edge, &std::pair<DotEdge, int>::first);
      if (at == edges.end()) {
        edges.emplace_back(std::move(edge), 1);
      } else {
        ++at->second;
      }
    };
    for (std::size_t i = 0; i < model_.inputs(user).size(); ++i) {
      const auto from = representatives_[model_.inputs(user)[i].index()];
      const auto* move = notes_.find_move(user, i);
      DotEdge edge{from, notes_.describe_edge(user, i),
                   move != nullptr ? get_color(move->kind) : ""};
      add(edge);
      for (auto period : periods) {
        // In later iterations, a carried operand comes from the previous iteration.
        edge.from = representatives_[model_.inputs(NodeId(user.index() + period))[i].index()];
        edge.carried = true;
        if (edge.from != from) add(edge);
      }
    }
    for (const auto& [edge, count] : edges) write(edge, user, count);
  }

  struct DotEdge {
    NodeId from;
    std::string label;
    std::string_view color;
    bool carried = false;
    bool operator==(const DotEdge&) const = default;
  };

  void write(const DotEdge& edge, NodeId to, int count) {
    const auto times = count > 1 ? fmt::format("{} x ", count) : std::string();
    auto attributes = "label=" + quote(times + edge.label);
    if (!edge.color.empty()) attributes += fmt::format(" color={0} fontcolor={0}", edge.color);
    if (edge.carried) attributes += " style=dashed constraint=false";
    out_ += fmt::format("  n{} -> n{} [{}];\n", edge.from.index(), to.index(), attributes);
  }

  const Graph& model_;
  const Notes& notes_;
  std::vector<NodeId> representatives_;  // by node: the node that is drawn for it
  std::size_t clusters_ = 0;
  std::string out_;
};

}  // namespace

std::string to_dot(const Graph& model, const std::vector<FoldedBlock>& blocks) {
  const ModelNotes notes(model);
  return Drawing(model, notes).run(blocks);
}

std::string to_dot(const MappedModel& mapped, const std::vector<FoldedBlock>& blocks,
                   const machine::Machine& machine, const lower::Program& program) {
  const MappedNotes notes(mapped, machine, program);
  return Drawing(mapped.model, notes).run(blocks);
}

}  // namespace tandem::report
