#include "generate/formulas.h"

#include <algorithm>
#include <set>

namespace tandem::generate {

FormulaId Formulas::add(const Formula& formula) {
  Hash h = hash_combine(hash_combine(1, formula.operation), formula.type);
  for (auto o : formula.operands) h = hash_combine(h, o);
  const auto [at, fresh] = numbers_.try_emplace(h, static_cast<FormulaId>(formulas_.size()));
  if (fresh) {
    formulas_.push_back(formula);
    values_.emplace_back();
    fingerprints_.push_back(0);
    operators_.push_back(0);
  }
  return at->second;
}

FormulaId Formulas::variable(TypeId type, std::uint32_t number) {
  return add({.operation = kVariable, .type = type, .operands = {number}});
}

std::optional<FormulaId> Formulas::apply(std::uint16_t operation,
                                         std::span<const FormulaId> operands) {
  std::array<TypeId, kMaxArity> types{};
  Formula formula{.operation = operation};
  for (std::size_t i = 0; i < operands.size(); ++i) {
    types[i] = formulas_[operands[i]].type;
    formula.operands[i] = operands[i];
  }
  const auto* program = programs_.find(operation, std::span(types).first(operands.size()));
  if (program == nullptr) return std::nullopt;
  formula.type = program->type_id();
  return add(formula);
}

std::span<const FormulaId> Formulas::operands(FormulaId id) const {
  const auto& f = formulas_[id];
  const auto arity = f.is_variable() ? 0 : programs_.operations()[f.operation].arity;
  return std::span(f.operands).first(arity);
}

std::vector<FormulaId> Formulas::parts(FormulaId id) const {
  std::vector<FormulaId> out;
  const auto visit = [&](const auto& self, FormulaId at) -> void {
    if (std::ranges::find(out, at) != out.end()) return;
    for (auto o : operands(at)) self(self, o);
    out.push_back(at);
  };
  visit(visit, id);
  return out;
}

std::vector<FormulaId> Formulas::variables(FormulaId id) const {
  auto out = parts(id);
  std::erase_if(out, [&](FormulaId p) { return !formulas_[p].is_variable(); });
  return out;
}

std::size_t Formulas::operators(std::span<const FormulaId> roots) const {
  if (roots.size() != 1) return counted_operators(roots);
  auto& known = operators_[roots[0]];
  if (known == 0) known = static_cast<std::uint8_t>(counted_operators(roots) + 1);
  return known - std::size_t{1};
}

std::size_t Formulas::counted_operators(std::span<const FormulaId> roots) const {
  std::vector<std::pair<std::size_t, std::array<FormulaId, kMaxArity>>> all;
  for (auto root : roots) {
    for (auto p : parts(root)) {
      const auto& f = formulas_[p];
      if (operands(p).empty()) continue;
      all.emplace_back(programs_.operations()[f.operation].line, f.operands);
    }
  }
  std::ranges::sort(all);
  return static_cast<std::size_t>(std::unique(all.begin(), all.end()) - all.begin());
}

std::optional<FormulaId> Formulas::replace(FormulaId id, Images images) {
  const auto image_of = [&](FormulaId of) {
    return std::ranges::find(images, of, &std::pair<FormulaId, FormulaId>::first);
  };
  for (auto p : parts(id)) {
    if (image_of(p) != images.end()) continue;
    std::array<FormulaId, kMaxArity> inputs{};
    const auto old = operands(p);
    bool changed = false;
    for (std::size_t i = 0; i < old.size(); ++i) {
      inputs[i] = image_of(old[i])->second;
      changed = changed || inputs[i] != old[i];
    }
    const auto arity = old.size();
    const auto made =
        changed ? apply(formulas_[p].operation, std::span(inputs).first(arity)) : std::optional(p);
    if (!made) return std::nullopt;
    images.emplace_back(p, *made);
  }
  return image_of(id)->second;
}

const std::vector<Field>& Formulas::value(FormulaId id) {
  if (!values_[id].empty()) return values_[id];
  with_values_.push_back(id);
  const auto f = formulas_[id];
  if (f.is_variable()) {
    const auto below = below_.find(f.type);
    for (std::size_t draw = 0; draw < kDraws; ++draw) {
      const auto more =
          random_values(programs_.type(f.type), below == below_.end() ? 0 : below->second,
                        hash_combine(hash_combine(5, f.type), f.operands[0]), draw);
      values_[id].insert(values_[id].end(), more.begin(), more.end());
    }
    return values_[id];
  }
  const auto arity = programs_.operations()[f.operation].arity;
  for (std::size_t i = 0; i < arity; ++i) value(f.operands[i]);
  std::array<TypeId, kMaxArity> types{};
  std::array<const Field*, kMaxArity> inputs{};
  for (std::size_t i = 0; i < arity; ++i) types[i] = formulas_[f.operands[i]].type;
  const auto* program = programs_.find(f.operation, std::span(types).first(arity));
  values_[id].resize(program->size() * kDraws);
  stored_ += values_[id].size();
  for (std::size_t draw = 0; draw < kDraws; ++draw) {
    for (std::size_t i = 0; i < arity; ++i) {
      const auto& operand = values_[f.operands[i]];
      inputs[i] = operand.data() + draw * (operand.size() / kDraws);
    }
    program->run(std::span(inputs).first(arity), values_[id].data() + draw * program->size(),
                 memory_);
  }
  return values_[id];
}

void Formulas::forget_values() {
  for (auto id : with_values_) values_[id] = {};
  with_values_.clear();
  stored_ = 0;
}

Hash Formulas::fingerprint(FormulaId id) {
  constexpr std::size_t kMostStored = std::size_t{1} << 24U;  // 128 MiB
  if (fingerprints_[id] != 0) return fingerprints_[id];
  if (stored_ > kMostStored) forget_values();
  Hash h = mix(formulas_[id].type);
  for (const auto& v : value(id)) h = hash_combine(h, v.value());
  fingerprints_[id] = h | 1U;
  return fingerprints_[id];
}

}  // namespace tandem::generate
