#include "report/block_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "base/text.h"
#include "report/blocks.h"
#include "report/level_words.h"
#include "report/mapped_text.h"

namespace tandem::report {

namespace {

class BlockReading {
 public:
  explicit BlockReading(const PlanView& view)
      : view_(view), mapped_(make_mapped_model(view.program)) {
    const auto& pcg = view.program.pcg;
    for (auto id : pcg.ids()) in_pcg_.emplace(pcg.node(id).name, id);
    for (auto id : mapped_.model.ids()) how_.push_back(describe_layout(id));
  }

  std::vector<BlockWords> run() {
    return to_words(split_into_blocks(mapped_.model, [&](graph::NodeId a, graph::NodeId b) {
      return how_[a.index()] == how_[b.index()];
    }));
  }

 private:
  [[nodiscard]] bool is_stored(graph::NodeId id) const {
    return mapped_.model.node(id).op.role() == ops::Role::kSource;
  }

  [[nodiscard]] std::string describe_layout(graph::NodeId id) const {
    const auto& program = view_.program;
    std::string out;
    if (is_stored(id)) {
      const auto at = in_pcg_.find(mapped_.model.node(id).name);
      CHECK(at != in_pcg_.end(), mapped_.model.node(id).name);
      out = storage_text(program, view_.machine, view_.plan.mapped.layouts[at->second.index()]);
    } else {
      out = work_text(mapped_.nodes[id.index()], view_.machine, program);
    }
    return out.empty() ? "not partitioned" : out;
  }

  [[nodiscard]] std::vector<BlockWords> to_words(const std::vector<FoldedBlock>& blocks) const {
    std::vector<BlockWords> out;
    for (const auto& block : blocks) {
      BlockWords words;
      words.count = block.count;
      words.from = block.from;
      if (block.variable.size() > 2) {
        words.variable = block.variable.substr(1, block.variable.size() - 2);
      }
      for (const auto& node : block.nodes) add(node, words);
      // Operators come first, then stored tensors.
      std::ranges::stable_sort(words.lines, {}, &BlockWords::Line::stored);
      words.blocks = to_words(block.blocks);
      out.push_back(std::move(words));
    }
    return out;
  }

  void add(const BlockNode& node, BlockWords& words) const {
    const auto& how = how_[node.id.index()];
    const bool stored = is_stored(node.id);
    auto at = std::ranges::find_if(words.lines, [&](const BlockWords::Line& line) {
      return line.stored == stored && line.how == how;
    });
    if (at == words.lines.end()) at = words.lines.insert(at, {stored, how, {}});
    at->nodes.push_back(node.name);
  }

  const PlanView& view_;
  MappedModel mapped_;
  std::unordered_map<std::string, graph::NodeId> in_pcg_;  // by name
  std::vector<std::string> how_;                           // layout, by node of the model
};

void append_block(const BlockWords& block, std::size_t depth, std::string& out) {
  const auto indentation = [&] { return std::string(2 + 2 * depth, ' '); };
  if (block.count > 1) {
    out += fmt::format("{}{} times, {} from {}:\n", indentation(), block.count, block.variable,
                       block.from);
    ++depth;
  }
  constexpr std::size_t kMost = 12;
  for (const auto& line : block.lines) {
    auto nodes = line.nodes;
    if (nodes.size() > kMost) {
      nodes.resize(kMost);
      nodes.push_back(fmt::format("and {} more", line.nodes.size() - kMost));
    }
    out += fmt::format("{}{}{}: {}\n", indentation(), line.stored ? "stored: " : "", line.how,
                       join(nodes, ", "));
  }
  for (const auto& inner : block.blocks) append_block(inner, depth, out);
}

}  // namespace

std::vector<BlockWords> describe_blocks(const PlanView& view) { return BlockReading(view).run(); }

std::string block_text(const std::vector<BlockWords>& blocks) {
  std::string out;
  for (const auto& block : blocks) append_block(block, 0, out);
  return out;
}

}  // namespace tandem::report
