#include "report/digit_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace tandem::report {

namespace {

// Returns a use with its names, and without digits. A factor of features is named by its letter in
// the operator's index text: n, k, d. A matmul is column-parallel if a factor of its weight alone
// is partitioned, and row-parallel if the factor that it sums over is.
Use name_use(const strategies::AnalyzedNode& node, machine::DigitUse use) {
  using strategies::FactorKind;
  if (use.is_through()) return {.what = "partial", .words = "partial"};
  if (use == machine::DigitUse::kReplica) return {.what = "copies", .words = "replicated"};
  if (!use.is_factor()) return {.what = "idle", .words = "idle"};
  const auto factor = [](const std::string& what, const std::string& words) {
    return Use{.what = what, .words = words, .cuts = true};
  };
  switch (node.kinds[use.factor()]) {
    case FactorKind::kData:
      return factor("batch", "batch");
    case FactorKind::kSequence:
      return factor("sequence", "sequence");
    case FactorKind::kHead:
      return factor("heads", "head-parallel");
    case FactorKind::kExpert:
      return factor("experts", "expert-parallel");
    case FactorKind::kSpatial:
    case FactorKind::kModel:
      break;
  }
  const auto& name = node.signature.map.factors[use.factor()].name;
  const auto& contraction = node.signature.contraction;
  const auto bit = term::FactorMask{1} << use.factor();
  if (contraction && node.kinds[use.factor()] == FactorKind::kModel) {
    if ((contraction->columns & bit) != 0)
      return factor(name, fmt::format("column-parallel ({})", name));
    if ((contraction->depth & bit) != 0)
      return factor(name, fmt::format("row-parallel ({})", name));
  }
  return factor(name, name);
}

}  // namespace

std::vector<Use> list_uses(const strategies::AnalyzedNode& node, const machine::NodeLayout& layout,
                           const machine::Digits& digits) {
  std::vector<Use> out;
  for (std::size_t i = 0; i < digits.count(); ++i) {
    auto use = name_use(node, layout.uses[i]);
    auto at = std::ranges::find(out, use.what, &Use::what);
    if (at == out.end()) at = out.insert(at, std::move(use));
    at->digits |= machine::bit(i);
  }
  return out;
}

std::vector<LevelPart> list_level_parts(machine::DigitMask mask, const machine::Machine& machine,
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
  for (const auto& part : list_level_parts(mask, machine, digits)) {
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
