// Formulas: operations applied to typed variables and to other formulas. Each is stored once, so
// equal formulas have one number. The table's equalities become formulas, which are generalised and
// compared.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/numbers_by_hash.h"
#include "generate/tensor_table.h"

namespace tandem::generate {

using FormulaId = std::uint32_t;

struct Formula {
  std::uint16_t operation = kVariable;
  TypeId type = 0;
  // For a variable, operands[0] is its number among the variables of its type.
  std::array<FormulaId, kMaxArity> operands = {};
  [[nodiscard]] bool is_variable() const { return operation == kVariable; }
  bool operator==(const Formula&) const = default;
};

class Formulas {
 public:
  // `below`: types of indices with the exclusive upper bound of their values.
  Formulas(Programs& programs, std::map<TypeId, std::int64_t> below);

  FormulaId add_variable(TypeId type, std::uint32_t number);
  // Returns nullopt if the operation does not take these operands.
  std::optional<FormulaId> apply(std::uint16_t operation, std::span<const FormulaId> operands);

  [[nodiscard]] const Formula& operator[](FormulaId id) const { return formulas_[id]; }
  [[nodiscard]] std::size_t size() const { return formulas_.size(); }
  [[nodiscard]] std::span<const FormulaId> operands(FormulaId id) const;
  [[nodiscard]] const TensorType& type(FormulaId id) const {
    return programs_.type(formulas_[id].type);
  }
  [[nodiscard]] Programs& programs() { return programs_; }
  [[nodiscard]] const Programs& programs() const { return programs_; }
  [[nodiscard]] const GeneratorOperation& operation(FormulaId id) const {
    return programs_.operations()[formulas_[id].operation];
  }

  // Returns the formula and all its parts, each once, operands first.
  [[nodiscard]] std::vector<FormulaId> list_parts(FormulaId id) const;
  // Calls visit(part) for each of parts(id).
  template <class Visit>
  void for_each_part(FormulaId id, Visit&& visit) const {
    std::array<FormulaId, kMostParts> seen;
    std::size_t count = 0;
    const auto walk = [&](const auto& self, FormulaId at) -> void {
      const auto known = std::span(seen).first(count);
      if (std::ranges::find(known, at) != known.end()) return;
      for (auto o : operands(at)) self(self, o);
      CHECK(count < kMostParts);
      seen[count++] = at;
      visit(at);
    };
    walk(walk, id);
  }
  // Returns the variables of the formula in the order of first use.
  [[nodiscard]] std::vector<FormulaId> list_variables(FormulaId id) const;
  // Returns the number of different operators. The outputs of one line on the same operands count
  // once; constants do not count.
  [[nodiscard]] std::size_t operators(std::span<const FormulaId> roots) const;

  // A part of a formula and its replacement. It is no std::pair, because an array of these would be
  // zeroed.
  struct Image {
    FormulaId part;
    FormulaId image;
  };
  // Returns the formula with some of its parts replaced by `images`. Returns nullopt if that is not
  // legal.
  std::optional<FormulaId> replace(FormulaId id, std::span<const Image> images);
  std::optional<FormulaId> replace(FormulaId id, std::initializer_list<Image> images) {
    return replace(id, std::span(images.begin(), images.size()));
  }
  [[nodiscard]] const std::map<TypeId, std::int64_t>& index_bounds() const { return below_; }

  // Returns a hash of the formula's type and of its value for random variables.
  Hash fingerprint(FormulaId id);
  bool are_equal(FormulaId a, FormulaId b) { return fingerprint(a) == fingerprint(b); }

 private:
  static constexpr FormulaId kNone = ~FormulaId{0};
  // Largest number of parts of a formula. Graphs have at most Tensor::kMaxLevel operators.
  static constexpr std::size_t kMostParts = 128;
  // The replacements made so far in one call of replace().
  struct Replaced;

  [[nodiscard]] std::size_t compute_operator_count(std::span<const FormulaId> roots) const;
  const std::vector<Field>& compute_value(FormulaId id);
  FormulaId add(const Formula& formula);
  FormulaId replace(FormulaId id, Replaced& replaced);

  Programs& programs_;
  std::map<TypeId, std::int64_t> below_;
  std::vector<Formula> formulas_;
  NumbersByHash ids_;
  // Values of some formulas, for all draws. They take most of the memory and serve only to compute
  // fingerprints, so all are discarded from time to time.
  std::unordered_map<FormulaId, std::vector<Field>> values_;
  std::size_t stored_ = 0;                       // number of elements
  std::vector<Hash> fingerprints_;               // 0 if not computed
  mutable std::vector<std::uint8_t> operators_;  // number plus one; 0 if not counted
  PatternProgram::EvaluationMemory memory_;
};

}  // namespace tandem::generate
