#include "report/level_words.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "report/digit_text.h"
#include "report/tensor_names.h"

namespace tandem::report {

namespace {

using machine::DigitMask;
using machine::DigitRole;
using machine::DigitUse;

std::string pluralize(const std::string& word, std::int64_t count) {
  if (count == 1) return word;
  const bool hisses = word.ends_with("s") || word.ends_with("h") || word.ends_with("x");
  return word + (hisses ? "es" : "s");
}

std::string cut_text(std::int64_t parts) { return fmt::format("split {} ways", parts); }

// The digits of one level.
struct LevelDigits {
  std::string level;
  DigitMask digits = 0;
};

std::vector<LevelDigits> group_digits_by_level(const lower::Program& program,
                                               const machine::Machine& machine) {
  std::vector<LevelDigits> out;
  const auto& digits = program.digits;
  if (digits.time() != 0) out.push_back({"micro-batch", digits.time()});
  for (std::size_t l = 0; l < machine.levels.size(); ++l) {
    DigitMask mask = 0;
    for (std::size_t i = 0; i < digits.count(); ++i) {
      if (digits[i].level == l) mask |= machine::bit(i);
    }
    if (mask != 0) out.push_back({machine.levels[l].name, mask});
  }
  return out;
}

// Returns the words for each level. `use_of(digit)` returns the use of one digit;
// `words(use, parts)` describes all digits of a level that have this use.
template <class UseOf, class Words>
std::vector<LevelWords> describe_levels(const lower::Program& program,
                                        const machine::Machine& machine, UseOf&& use_of,
                                        Words&& words) {
  using Use = decltype(use_of(0));
  const auto& digits = program.digits;
  std::vector<LevelWords> out;
  for (const auto& level : group_digits_by_level(program, machine)) {
    LevelWords line{level.level, digits.group_size(level.digits), {}};
    const auto ranks = level.digits & program.schedule.digits;
    if (ranks != 0) {
      line.parts.push_back(fmt::format("{} pipeline ranks", digits.group_size(ranks)));
    }
    std::vector<std::pair<Use, DigitMask>> uses;
    for (std::size_t i = 0; i < digits.count(); ++i) {
      if (!machine::has_digit(level.digits & ~ranks, i)) continue;
      const auto use = use_of(i);
      auto at = std::ranges::find(uses, use, &std::pair<Use, DigitMask>::first);
      if (at == uses.end()) at = uses.insert(at, {use, 0});
      at->second |= machine::bit(i);
    }
    for (const auto& use : uses) {
      line.parts.push_back(words(use.first, digits.group_size(use.second)));
    }
    out.push_back(std::move(line));
  }
  return out;
}

class OperatorWords {
 public:
  OperatorWords(const lower::Program& program, graph::NodeId id,
                const strategies::AnalyzedNode& analyzed)
      : pcg_(program.pcg), id_(id), analyzed_(analyzed) {}

  [[nodiscard]] std::string use_text(DigitUse use_text, std::int64_t parts) const {
    if (use_text.is_factor()) return factor_text(use_text.factor(), parts);
    if (use_text.is_through()) {
      return fmt::format("each of {} has a partial sum of {}, and so of the result", parts,
                         operand_names(analyzed_.signature.partial_inputs[use_text.through_set()]));
    }
    if (use_text == DigitUse::kReplica)
      return fmt::format("replicated: all {} compute the same", parts);
    return use_text.place() == 0
               ? fmt::format("only the first of {} computes", parts)
               : fmt::format("only number {} of {} computes", use_text.place() + 1, parts);
  }

 private:
  [[nodiscard]] std::string factor_text(ops::FactorId f, std::int64_t parts) const {
    using strategies::FactorKind;
    const auto& map = analyzed_.signature.map;
    const auto kind = analyzed_.kinds[f];
    if (kind != FactorKind::kSpatial && kind != FactorKind::kModel) {
      return "the " + kind_text(kind) + " " + cut_text(parts) + sum_text(f, parts);
    }
    std::vector<std::string> where;
    for (std::size_t i = 0; i < map.inputs.size(); ++i) {
      const auto dim = map.find_input_dim(i, f);
      if (dim >= 0) where.push_back(fmt::format("dimension {} of {}", dim, operand_name(i)));
    }
    auto out = map.factors[f].name;
    if (!where.empty()) out += " (" + join(where, ", ") + ")";
    out += " " + cut_text(parts);
    if (const auto dim = map.find_output_dim(f); dim >= 0) {
      out += fmt::format(", which shards dimension {} of the result", dim);
    }
    return out + sum_text(f, parts);
  }

  static std::string kind_text(strategies::FactorKind kind) {
    using strategies::FactorKind;
    if (kind == FactorKind::kData) return "batch";
    if (kind == FactorKind::kSequence) return "sequence";
    return std::string(strategies::name(kind)) + "s";  // heads
  }

  // Returns what partitioning `f` does to the result if the operator reduces over `f`, else "".
  [[nodiscard]] std::string sum_text(ops::FactorId f, std::int64_t parts) const {
    const auto& s = analyzed_.signature;
    if (s.map.find_output_dim(f) >= 0) return "";
    return fmt::format(", which makes the result {} partial {}", parts,
                       s.monoid == Monoid::kMax ? "maxima" : "sums");
  }

  [[nodiscard]] std::string operand_name(std::size_t i) const {
    return pcg_.node(find_origin(pcg_, pcg_.inputs(id_)[i])).name;
  }
  [[nodiscard]] std::string operand_names(ops::InputMask mask) const {
    std::vector<std::string> out;
    for (std::size_t i = 0; i < pcg_.inputs(id_).size(); ++i) {
      if ((mask >> i & 1U) != 0) out.push_back(operand_name(i));
    }
    return join(out, " and ");
  }

  const graph::Graph& pcg_;
  graph::NodeId id_;
  const strategies::AnalyzedNode& analyzed_;
};

std::string role_text(DigitRole role, std::int64_t parts) {
  if (role.is_dim()) return fmt::format("dimension {} sharded {} ways", role.dim(), parts);
  if (role == DigitRole::kReplica) return fmt::format("replicated on {}", parts);
  if (role == DigitRole::kPartial) return fmt::format("{} partial sums", parts);
  return role.place() == 0 ? fmt::format("on the first of {} only", parts)
                           : fmt::format("on number {} of {} only", role.place() + 1, parts);
}

std::string role_name(DigitRole role) {
  if (role.is_dim()) return fmt::format("dimension {} sharded", role.dim());
  if (role == DigitRole::kReplica) return "replicated";
  return role == DigitRole::kPartial ? "partial sums" : "idle";
}

}  // namespace

std::string LevelWords::text() const {
  return fmt::format("{} {}: {}", count, pluralize(level, count), join(parts, "; "));
}

std::vector<LevelWords> operator_levels(const lower::Program& program,
                                        const machine::Machine& machine, graph::NodeId id,
                                        const strategies::AnalyzedNode& analyzed) {
  std::vector<machine::Layout> layouts;
  for (auto i : program.pcg.inputs(id)) {
    layouts.push_back(program.buffer(program.tensor[i.index()]).layout);
  }
  const auto layout = infer_node_layout(analyzed.signature, layouts, program.digits);
  CHECK(layout.has_value(), program.pcg.node(id).name);
  const OperatorWords words(program, id, analyzed);
  return describe_levels(
      program, machine, [&](std::size_t i) { return layout->uses[i]; },
      [&](DigitUse use, std::int64_t parts) { return words.use_text(use, parts); });
}

std::vector<LevelWords> storage_levels(const lower::Program& program,
                                       const machine::Machine& machine,
                                       const machine::Layout& layout) {
  return describe_levels(
      program, machine, [&](std::size_t i) { return layout[i]; }, role_text);
}

std::string storage_text(const lower::Program& program, const machine::Machine& machine,
                         const machine::Layout& layout) {
  std::vector<std::pair<std::string, DigitMask>> uses;
  for (std::size_t i = 0; i < program.digits.count(); ++i) {
    if (machine::has_digit(program.schedule.digits, i)) continue;
    // A tensor that all micro-batches share is stored once, so it is not replicated.
    const bool in_time = machine::has_digit(program.digits.time(), i);
    if (in_time && layout[i] == DigitRole::kReplica) continue;
    const auto name = role_name(layout[i]);
    auto at = std::ranges::find(uses, name, &std::pair<std::string, DigitMask>::first);
    if (at == uses.end()) at = uses.insert(at, {name, 0});
    at->second |= machine::bit(i);
  }
  std::vector<std::string> out;
  for (const auto& use : uses) {
    const auto over = levels_text(use.second, machine, program.digits);
    if (!over.empty()) out.push_back(fmt::format("{} over {}", use.first, over));
  }
  return join(out, ", ");
}

}  // namespace tandem::report
