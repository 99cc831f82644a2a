#include "generate/formulas.h"

#include <algorithm>

namespace tandem::generate {

namespace {

// Returns a hash without the type of an operator's result, which the operands' types determine.
Hash compute_hash(const Formula& f) {
  const auto type = f.is_variable() ? f.type : TypeId{0};
  const auto a = (Hash{f.operation} << 48U) | (Hash{type} << 32U) | f.operands[0];
  const auto b = (Hash{f.operands[1]} << 32U) | f.operands[2];
  static_assert(kMaxArity == 3);
  return mix(a ^ mix(b));
}

}  // namespace

Formulas::Formulas(Programs& programs, std::map<TypeId, std::int64_t> below)
    : programs_(programs), below_(std::move(below)) {}

FormulaId Formulas::add(const Formula& formula) {
  const auto next = static_cast<FormulaId>(formulas_.size());
  const auto id = ids_.find_or_add(compute_hash(formula), next,
                                   [&](FormulaId known) { return formulas_[known] == formula; });
  if (id != next) return id;
  formulas_.push_back(formula);
  fingerprints_.push_back(0);
  operators_.push_back(0);
  return id;
}

FormulaId Formulas::add_variable(TypeId type, std::uint32_t number) {
  return add({.operation = kVariable, .type = type, .operands = {number}});
}

std::optional<FormulaId> Formulas::apply(std::uint16_t operation,
                                         std::span<const FormulaId> operands) {
  Formula formula{.operation = operation};
  std::ranges::copy(operands, formula.operands.begin());
  const auto known = ids_.find(compute_hash(formula), [&](FormulaId id) {
    return formulas_[id].operation == operation && formulas_[id].operands == formula.operands;
  });
  if (known) return *known;
  std::array<TypeId, kMaxArity> types{};
  for (std::size_t i = 0; i < operands.size(); ++i) types[i] = formulas_[operands[i]].type;
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

std::vector<FormulaId> Formulas::list_parts(FormulaId id) const {
  std::vector<FormulaId> out;
  for_each_part(id, [&](FormulaId part) { out.push_back(part); });
  return out;
}

std::vector<FormulaId> Formulas::list_variables(FormulaId id) const {
  auto out = list_parts(id);
  std::erase_if(out, [&](FormulaId p) { return !formulas_[p].is_variable(); });
  return out;
}

std::size_t Formulas::operators(std::span<const FormulaId> roots) const {
  if (roots.size() != 1) return compute_operator_count(roots);
  auto& known = operators_[roots[0]];
  if (known == 0) known = static_cast<std::uint8_t>(compute_operator_count(roots) + 1);
  return known - std::size_t{1};
}

std::size_t Formulas::compute_operator_count(std::span<const FormulaId> roots) const {
  struct CountedApplication {
    std::size_t line;
    std::array<FormulaId, kMaxArity> operands;
    bool operator==(const CountedApplication&) const = default;
  };
  std::array<CountedApplication, kMostParts> all;
  std::size_t count = 0;
  for (auto root : roots) {
    for_each_part(root, [&](FormulaId p) {
      const auto& f = formulas_[p];
      if (operands(p).empty()) return;
      const CountedApplication application{programs_.operations()[f.operation].line, f.operands};
      const auto known = std::span(all).first(count);
      if (std::ranges::find(known, application) != known.end()) return;
      CHECK(count < kMostParts);
      all[count++] = application;
    });
  }
  return count;
}

struct Formulas::Replaced {
  std::array<Image, kMostParts> images;
  std::size_t count = 0;
  void add(Image image) {
    CHECK(count < kMostParts);
    images[count++] = image;
  }
};

// Returns kNone if the replacement is not legal.
FormulaId Formulas::replace(FormulaId id, Replaced& replaced) {
  for (std::size_t i = 0; i < replaced.count; ++i) {
    if (replaced.images[i].part == id) return replaced.images[i].image;
  }
  const auto f = formulas_[id];
  if (f.is_variable()) return id;
  const auto arity = programs_.operations()[f.operation].arity;
  std::array<FormulaId, kMaxArity> operands{};
  bool changed = false;
  for (std::size_t i = 0; i < arity; ++i) {
    operands[i] = replace(f.operands[i], replaced);
    if (operands[i] == kNone) return kNone;
    changed = changed || operands[i] != f.operands[i];
  }
  const auto made =
      changed ? apply(f.operation, std::span(operands).first(arity)).value_or(kNone) : id;
  replaced.add({id, made});
  return made;
}

std::optional<FormulaId> Formulas::replace(FormulaId id, std::span<const Image> images) {
  Replaced replaced;
  for (const auto& image : images) replaced.add(image);
  const auto made = replace(id, replaced);
  return made == kNone ? std::nullopt : std::optional(made);
}

const std::vector<Field>& Formulas::compute_value(FormulaId id) {
  if (const auto known = values_.find(id); known != values_.end()) return known->second;
  const auto f = formulas_[id];
  std::vector<Field> out;
  if (f.is_variable()) {
    const auto below = below_.find(f.type);
    for (std::size_t draw = 0; draw < kDraws; ++draw) {
      const auto more =
          draw_random_values(programs_.type(f.type), below == below_.end() ? 0 : below->second,
                             hash_combine(hash_combine(5, f.type), f.operands[0]), draw);
      out.insert(out.end(), more.begin(), more.end());
    }
  } else {
    const auto arity = programs_.operations()[f.operation].arity;
    std::array<TypeId, kMaxArity> types{};
    std::array<const Field*, kMaxArity> inputs{};
    std::array<std::size_t, kMaxArity> sizes{};
    for (std::size_t i = 0; i < arity; ++i) {
      types[i] = formulas_[f.operands[i]].type;
      const auto& operand = compute_value(f.operands[i]);
      inputs[i] = operand.data();
      sizes[i] = operand.size() / kDraws;
    }
    const auto* program = programs_.find(f.operation, std::span(types).first(arity));
    out.resize(program->size() * kDraws);
    for (std::size_t draw = 0; draw < kDraws; ++draw) {
      program->run(std::span(inputs).first(arity), out.data() + draw * program->size(), memory_);
      for (std::size_t i = 0; i < arity; ++i) inputs[i] += sizes[i];
    }
  }
  stored_ += out.size();
  return values_.emplace(id, std::move(out)).first->second;
}

Hash Formulas::fingerprint(FormulaId id) {
  constexpr std::size_t kMostStored = std::size_t{1} << 22U;  // 32 MiB
  if (fingerprints_[id] != 0) return fingerprints_[id];
  if (stored_ > kMostStored) {
    values_.clear();
    stored_ = 0;
  }
  Hash h = mix(formulas_[id].type);
  for (const auto& v : compute_value(id)) h = hash_combine(h, v.value());
  fingerprints_[id] = h | 1U;
  return fingerprints_[id];
}

}  // namespace tandem::generate
