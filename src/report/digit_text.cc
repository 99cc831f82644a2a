#include "report/digit_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace tandem::report {

namespace {

// Names a factor of features by its letter in the operator's index text: n, k, d.
std::string use_text(const strategies::AnalyzedNode& node, machine::DigitUse use) {
  using strategies::FactorKind;
  if (use.is_factor()) {
    switch (node.kinds[use.factor()]) {
      case FactorKind::kData:
        return "batch";
      case FactorKind::kSequence:
        return "sequence";
      case FactorKind::kHead:
        return "heads";
      case FactorKind::kExpert:
        return "experts";
      case FactorKind::kSpatial:
      case FactorKind::kModel:
        return node.signature.map.factors[use.factor()].name;
    }
  }
  if (use.is_through()) return "partial";
  return use == machine::DigitUse::kReplica ? "copies" : "idle";
}

// Returns the field's name for a use: a matmul is column-parallel if a factor of its weight alone
// is partitioned, and row-parallel if the factor that it sums over is.
std::string words_for(const strategies::AnalyzedNode& node, machine::DigitUse use,
                      const std::string& what) {
  if (what == "copies") return "replicated";
  if (what == "heads") return "head-parallel";
  if (what == "experts") return "expert-parallel";
  const auto& contraction = node.signature.contraction;
  if (!use.is_factor() || !contraction ||
      node.kinds[use.factor()] != strategies::FactorKind::kModel) {
    return what;
  }
  const auto bit = term::FactorMask{1} << use.factor();
  if ((contraction->columns & bit) != 0) return fmt::format("column-parallel ({})", what);
  if ((contraction->depth & bit) != 0) return fmt::format("row-parallel ({})", what);
  return what;
}

}  // namespace

std::vector<Use> uses_of(const strategies::AnalyzedNode& node, const machine::NodeLayout& layout,
                         const machine::Digits& digits) {
  std::vector<Use> out;
  for (std::size_t i = 0; i < digits.count(); ++i) {
    const auto what = use_text(node, layout.uses[i]);
    auto at = std::ranges::find(out, what, &Use::what);
    if (at == out.end()) {
      at = out.insert(at, {.what = what,
                           .words = words_for(node, layout.uses[i], what),
                           .cuts = layout.uses[i].is_factor()});
    }
    at->digits |= machine::bit(i);
  }
  return out;
}

std::vector<LevelPart> level_parts(machine::DigitMask mask, const machine::Machine& machine,
                                   const machine::Digits& digits) {
  std::vector<LevelPart> out;
  const auto time = digits.group_size(mask & digits.time());
  if (time > 1) out.push_back({"micro-batch", time});
  for (std::size_t l = 0; l < machine.levels.size(); ++l) {
    const auto size = digits.group_size(mask, l);
    if (size > 1) out.push_back({machine.levels[l].name, size});
  }
  return out;
}

std::string levels_text(machine::DigitMask mask, const machine::Machine& machine,
                        const machine::Digits& digits) {
  std::vector<std::string> out;
  for (const auto& part : level_parts(mask, machine, digits)) {
    out.push_back(fmt::format("{} {}", part.level, part.size));
  }
  return join(out, " x ");
}

std::string uses_text(const std::vector<Use>& uses, const machine::Machine& machine,
                      const machine::Digits& digits) {
  std::vector<std::string> out;
  out.reserve(uses.size());
  for (const auto& use : uses) {
    out.push_back(fmt::format("{} over {}", use.words, levels_text(use.digits, machine, digits)));
  }
  return join(out, ", ");
}

}  // namespace tandem::report
