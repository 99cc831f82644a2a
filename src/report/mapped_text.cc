#include "report/mapped_text.h"

#include <fmt/format.h>

#include <utility>

#include "base/table.h"
#include "base/text.h"

namespace tandem::report {

namespace {

class MappedText {
 public:
  MappedText(const MappedModel& mapped, const machine::Machine& machine,
             const lower::Program& program)
      : mapped_(mapped), machine_(machine), program_(program) {}

  std::string run(const std::vector<FoldedBlock>& blocks) {
    for (const auto& block : blocks) add(block, 0);
    return table_.to_text();
  }

 private:
  static std::string indentation(int depth) {
    return std::string(2 + 2 * static_cast<std::size_t>(depth), ' ');
  }

  void add(const FoldedBlock& block, int depth) {
    if (block.count > 1) {
      auto text = fmt::format("{}{} times, {} from {}", indentation(depth++), block.count,
                              block.variable.substr(1, block.variable.size() - 2), block.from);
      std::vector<std::string> carries;
      for (const auto& c : block.carries) {
        carries.push_back(
            fmt::format("{}: {}, later the last round's {}", c.name, c.first, c.later));
      }
      if (!carries.empty()) text += " (" + join(carries, "; ") + ")";
      table_.add({text + ":"});
    }
    for (const auto& node : block.nodes) add(node, depth);
    for (const auto& inner : block.blocks) add(inner, depth);
  }

  void add(const BlockNode& shown, int depth) {
    const auto& op = mapped_.model.node(shown.id).op;
    if (op.role() != ops::Role::kCompute) return;
    const auto& node = mapped_.nodes[shown.id.index()];
    table_.add({indentation(depth) + shown.name, op.name(), to_text(node.type.shape.sizes),
                format_bytes(node.result.value),
                node.weights > Bytes{} ? format_bytes(node.weights.value) : "",
                work_text(node, machine_, program_)});
    std::size_t first = 0;
    for (std::size_t operand : list_moved_operands(node)) {
      if (operand < first) continue;  // already printed with an earlier operand
      const auto moves = list_moves(node, operand);
      const auto text = moves_text(moves, machine_, program_.digits);
      auto from = std::string("result");
      if (operand != TensorMove::kResult) {
        const auto last = find_last_with_same_moves(node, operand);
        from = "from " + shown.operands[operand];
        if (last == operand + 1) from += " and " + shown.operands[last];
        if (last > operand + 1) {
          from += fmt::format(" to {}, {} operands", shown.operands[last], last - operand + 1);
        }
        first = last + 1;
      }
      table_.add({fmt::format("{}{}: {}", indentation(depth + 1), from, text)});
    }
  }

  static std::vector<std::size_t> list_moved_operands(const MappedNode& node) {
    std::vector<std::size_t> out;
    for (const auto& move : node.moves) {
      if (out.empty() || out.back() != move.operand) out.push_back(move.operand);
    }
    return out;
  }

  // Returns the moves of `operand`, renumbered as operand 0 so that those of several compare
  // equal.
  static std::vector<TensorMove> list_moves(const MappedNode& node, std::size_t operand) {
    std::vector<TensorMove> out;
    for (auto move : node.moves) {
      if (std::exchange(move.operand, 0) == operand) out.push_back(move);
    }
    return out;
  }

  // Returns the last operand after `operand` such that all up to it have the same moves.
  static std::size_t find_last_with_same_moves(const MappedNode& node, std::size_t operand) {
    const auto moves = list_moves(node, operand);
    while (operand + 1 < node.operands.size() && list_moves(node, operand + 1) == moves) ++operand;
    return operand;
  }

  const MappedModel& mapped_;
  const machine::Machine& machine_;
  const lower::Program& program_;
  // The rows of nodes fill all columns; other lines are rows of one cell.
  TextTable table_{{{""},
                    {""},
                    {"shape"},
                    {"per device", Align::kRight},
                    {"weights", Align::kRight},
                    {"layout"}},
                   0};
};

}  // namespace

namespace {

std::string pass_text(const TensorMove& move) {
  return move.recomputed ? "repeated for backward" : move.backward ? "backward" : "forward";
}

// Returns "8 times all_reduce 2.05 kB".
std::string transfer_text(const TensorMove& move) {
  const auto times = move.times > 1 ? fmt::format("{} times ", move.times) : std::string();
  return fmt::format("{}{} {}", times, machine::name(move.kind), format_bytes(move.bytes.value));
}

}  // namespace

std::string move_text(const TensorMove& move, const machine::Machine& machine,
                      const machine::Digits& digits) {
  return fmt::format("{} over {} ({})", transfer_text(move),
                     levels_text(move.digits, machine, digits), pass_text(move));
}

std::string moves_text(const std::vector<TensorMove>& moves, const machine::Machine& machine,
                       const machine::Digits& digits) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < moves.size(); ++i) {
    const bool same = i > 0 && moves[i].digits == moves[i - 1].digits;
    out.push_back(same ? fmt::format("{} ({})", transfer_text(moves[i]), pass_text(moves[i]))
                       : move_text(moves[i], machine, digits));
  }
  return join(out, ", ");
}

std::string work_text(const MappedNode& node, const machine::Machine& machine,
                      const lower::Program& program) {
  std::vector<std::string> out;
  const bool is_source = node.operands.empty();
  if (program.schedule.stages > 1 && !is_source) out.push_back(fmt::format("stage {}", node.stage));
  const auto uses = uses_text(node.uses, machine, program.digits);
  if (!uses.empty()) out.push_back(uses);
  if (node.recomputed) out.emplace_back("recomputed");
  return join(out, ", ");
}

std::string mapped_text(const MappedModel& mapped, const std::vector<FoldedBlock>& blocks,
                        const machine::Machine& machine, const lower::Program& program) {
  return MappedText(mapped, machine, program).run(blocks);
}

std::string traffic_text(const std::vector<Traffic>& traffic, const machine::Machine& machine,
                         const machine::Digits& digits) {
  if (traffic.empty()) return "  none\n";
  TextTable table({{""}, {""}, {"", Align::kRight}, {"", Align::kRight}, {""}});
  for (const auto& t : traffic) {
    table.add({std::string(machine::name(t.kind)), "over " + levels_text(t.digits, machine, digits),
               fmt::format("{} times", t.times), format_bytes(t.bytes.value),
               t.backward ? "backward" : "forward"});
  }
  return table.to_text();
}

std::string memory_text(const predict::Memory& memory) {
  using lower::BufferKind;
  const auto part = [&](BufferKind kind) { return format_bytes(memory.part(kind).value); };
  const auto gathered = memory.part(BufferKind::kGathered) > Bytes{}
                            ? fmt::format(", gathered weights {}", part(BufferKind::kGathered))
                            : "";
  return fmt::format(
      "{}: weights {}, optimizer state {}{}, gradients {}, activations {}, inputs {}",
      format_bytes(memory.peak.value), part(BufferKind::kWeight), part(BufferKind::kState),
      gathered, part(BufferKind::kGradient), part(BufferKind::kActivation),
      part(BufferKind::kInput));
}

}  // namespace tandem::report
