#include "report/mapped_json.h"

#include "graph/text.h"
#include "report/integers.h"

namespace tandem::report {

namespace {

using machine::Digits;
using machine::Machine;

Json over_json(machine::DigitMask mask, const Machine& machine, const Digits& digits) {
  Json out = Json::object();
  for (const auto& part : list_level_parts(mask, machine, digits)) out[part.level] = part.size;
  return out;
}

Json node_json(const MappedModel& mapped, const BlockNode& shown, const Machine& machine,
               const Digits& digits) {
  const auto& node = mapped.nodes[shown.id.index()];
  Json split = Json::object();
  Json over = Json::object();
  for (const auto& use : node.uses) {
    if (use.cuts) split[use.what] = digits.group_size(use.digits);
    over[use.what] = over_json(use.digits, machine, digits);
  }
  return {{"name", shown.name},
          {"op", mapped.model.node(shown.id).op.name()},
          {"type", graph::format_type(node.type)},
          {"split", split},
          {"over", over},
          {"bytes_per_device", to_integer(node.result)},
          {"weights_bytes_per_device", to_integer(node.weights)},
          {"stage", node.stage},
          {"recomputed", node.recomputed}};
}

// Returns a move. "from" is null if the node's own result moves.
Json move_json(const BlockNode& shown, const TensorMove& move, const Machine& machine,
               const Digits& digits) {
  return {
      {"to", shown.name},
      {"from", move.operand == TensorMove::kResult ? Json() : Json(shown.operands[move.operand])},
      {"kind", machine::name(move.kind)},
      {"over", over_json(move.digits, machine, digits)},
      {"bytes", to_integer(move.bytes)},
      {"times", move.times},
      {"backward", move.backward},
      {"recomputed", move.recomputed}};
}

}  // namespace

Json blocks_json(const MappedModel& mapped, const std::vector<FoldedBlock>& blocks,
                 const Machine& machine, const Digits& digits) {
  Json out = Json::array();
  for (const auto& block : blocks) {
    Json json{{"count", block.count}};
    if (!block.blocks.empty()) {
      json["blocks"] = blocks_json(mapped, block.blocks, machine, digits);
    } else {
      json["nodes"] = Json::array();
      json["moves"] = Json::array();
      for (const auto& shown : block.nodes) {
        if (mapped.model.node(shown.id).op.role() != ops::Role::kCompute) continue;
        json["nodes"].push_back(node_json(mapped, shown, machine, digits));
        for (const auto& move : mapped.nodes[shown.id.index()].moves) {
          json["moves"].push_back(move_json(shown, move, machine, digits));
        }
      }
    }
    out.push_back(std::move(json));
  }
  return out;
}

Json traffic_json(const std::vector<Traffic>& traffic, const Machine& machine,
                  const Digits& digits) {
  Json out = Json::array();
  for (const auto& t : traffic) {
    out.push_back({{"kind", machine::name(t.kind)},
                   {"over", over_json(t.digits, machine, digits)},
                   {"bytes", to_integer(t.bytes)},
                   {"times", t.times},
                   {"backward", t.backward}});
  }
  return out;
}

Json memory_json(const predict::Memory& memory) {
  using lower::BufferKind;
  return {{"weights", to_integer(memory.part(BufferKind::kWeight))},
          {"optimizer_state", to_integer(memory.part(BufferKind::kState))},
          {"gathered_weights", to_integer(memory.part(BufferKind::kGathered))},
          {"gradients", to_integer(memory.part(BufferKind::kGradient))},
          {"activations", to_integer(memory.part(BufferKind::kActivation))},
          {"inputs", to_integer(memory.part(BufferKind::kInput))}};
}

}  // namespace tandem::report
