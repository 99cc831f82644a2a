#include "report/blocks.h"

#include <fmt/format.h>

#include "graph/fold.h"

namespace tandem::report {

namespace {

using graph::FoldedLine;
using graph::NodeId;
using Kind = FoldedLine::FoldedLineKind;

bool is_plain(const FoldedBlock& block) { return block.count == 1 && block.blocks.empty(); }

class BlockSplitter {
 public:
  BlockSplitter(std::vector<FoldedLine> lines, const NodeEquivalence& is_equivalent)
      : lines_(std::move(lines)), is_equivalent_(is_equivalent) {}

  std::vector<FoldedBlock> run() {
    std::vector<FoldedBlock> out;
    append(0, lines_.size(), 0, out);
    return out;
  }

 private:
  // Appends the lines [begin, end). `offset` is added to the node numbers of the lines.
  void append(std::size_t begin, std::size_t end, std::size_t offset,
              std::vector<FoldedBlock>& out) {
    for (auto at = begin; at < end;) {
      if (lines_[at].kind == Kind::kRepeat) {
        const auto close = find_end(at);
        append_repeat(at, close, offset, out);
        at = close + 1;
      } else {
        if (out.empty() || !is_plain(out.back())) out.emplace_back();
        out.back().nodes.push_back(make_block_node(lines_[at++], offset));
      }
    }
  }

  // Returns the line that ends the repeat of line `at`.
  [[nodiscard]] std::size_t find_end(std::size_t at) const {
    const auto depth = lines_[at].depth;
    while (lines_[at].kind != Kind::kEnd || lines_[at].depth != depth) ++at;
    return at;
  }

  // Appends the repeat of line `at`. Each run of equivalent iterations becomes a block; the
  // nodes of a single iteration are appended unfolded.
  void append_repeat(std::size_t at, std::size_t close, std::size_t offset,
                     std::vector<FoldedBlock>& out) {
    const auto& repeat = lines_[at];
    auto body = at + 1;
    while (lines_[body].kind == Kind::kCarry) ++body;
    for (std::int64_t round = 0; round < repeat.count;) {
      const auto skip = static_cast<std::size_t>(round) * repeat.nodes;
      const auto start = repeat.first.index() + offset + skip;
      const auto rounds = count_equivalent_rounds(start, repeat.nodes, repeat.count - round);
      const auto number = repeat.from + round;
      const auto carries = make_carries(at + 1, body, repeat, number);
      const auto known = renamed_.size();
      if (rounds == 1) {
        for (const auto& carry : carries) renamed_.push_back({carry.name, carry.first, true});
        renamed_.push_back({repeat.name, fmt::format("{}", number), false});
        append(body, close, offset + skip, out);
      } else {
        FoldedBlock block{.count = rounds,
                          .variable = repeat.name,
                          .from = number,
                          .start = NodeId(start),
                          .period = repeat.nodes,
                          .carries = carries};
        append(body, close, offset + skip, block.blocks);
        if (block.blocks.size() == 1 && is_plain(block.blocks[0])) {
          block.nodes = std::move(block.blocks[0].nodes);
          block.blocks.clear();
        }
        out.push_back(std::move(block));
      }
      renamed_.resize(known);
      round += rounds;
    }
  }

  // Returns the number of equivalent iterations from node `start` on, at most `most`.
  [[nodiscard]] std::int64_t count_equivalent_rounds(std::size_t start, std::size_t period,
                                                     std::int64_t most) const {
    for (std::int64_t rounds = 1; rounds < most; ++rounds) {
      for (std::size_t k = 0; k < period; ++k) {
        const auto other = start + static_cast<std::size_t>(rounds) * period + k;
        if (!is_equivalent_(NodeId(start + k), NodeId(other))) return rounds;
      }
    }
    return most;
  }

  [[nodiscard]] std::vector<FoldedBlock::Carry> make_carries(std::size_t begin, std::size_t end,
                                                             const FoldedLine& repeat,
                                                             std::int64_t number) const {
    std::vector<FoldedBlock::Carry> out;
    for (auto at = begin; at < end; ++at) {
      const auto& carry = lines_[at];
      auto first = carry.operands[0];
      if (number > repeat.from) {
        first = carry.operands[1];
        replace(first, repeat.name, fmt::format("{}", number - 1));
      }
      out.push_back(
          {carry.name, apply_renames(std::move(first)), apply_renames(carry.operands[1])});
    }
    return out;
  }

  [[nodiscard]] BlockNode make_block_node(const FoldedLine& line, std::size_t offset) const {
    BlockNode out{NodeId(line.first.index() + offset), apply_renames(line.name), {}};
    for (const auto& operand : line.operands) out.operands.push_back(apply_renames(operand));
    return out;
  }

  [[nodiscard]] std::string apply_renames(std::string name) const {
    for (auto at = renamed_.rbegin(); at != renamed_.rend(); ++at) {
      if (!at->whole) {
        replace(name, at->from, at->to);
      } else if (name == at->from) {
        return at->to;
      }
    }
    return name;
  }

  static void replace(std::string& text, std::string_view from, std::string_view to) {
    for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
      text.replace(at, from.size(), to);
    }
  }

  // Replacement of a name in an unfolded iteration.
  struct Renamed {
    std::string from, to;
    bool whole;  // whether `from` is a whole name or part of one
  };

  std::vector<FoldedLine> lines_;
  const NodeEquivalence& is_equivalent_;
  std::vector<Renamed> renamed_;
};

}  // namespace

std::vector<FoldedBlock> split_into_blocks(const graph::Graph& model,
                                           const NodeEquivalence& is_equivalent) {
  return BlockSplitter(graph::fold(model), is_equivalent).run();
}

}  // namespace tandem::report
