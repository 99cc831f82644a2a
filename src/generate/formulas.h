// Formulas: operations applied to typed variables and to other formulas, each stored once, so that
// equal ones have one number. What the equalities of the table are turned into, generalised and
// compared as.
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
  // Of a variable operands[0] is its number among those of the type.
  std::array<FormulaId, kMaxArity> operands = {};
  [[nodiscard]] bool is_variable() const { return operation == kVariable; }
  bool operator==(const Formula&) const = default;
};

class Formulas {
 public:
  // `below`: of types of indices, what they are below.
  Formulas(Programs& programs, std::map<TypeId, std::int64_t> below);

  FormulaId variable(TypeId type, std::uint32_t number);
  // Nothing where the operation does not take these.
  std::optional<FormulaId> apply(std::uint16_t operation, std::span<const FormulaId> operands);

  [[nodiscard]] const Formula& operator[](FormulaId id) const { return formulas_[id]; }
  [[nodiscard]] std::size_t size() const { return formulas_.size(); }
  [[nodiscard]] std::span<const FormulaId> operands(FormulaId id) const;
  [[nodiscard]] const TensorType& type(FormulaId id) const {
    return programs_.type(formulas_[id].type);
  }
  [[nodiscard]] Programs& programs() { return programs_; }
  [[nodiscard]] const Programs& programs() const { return programs_; }
  [[nodiscard]] const Operation& operation(FormulaId id) const {
    return programs_.operations()[formulas_[id].operation];
  }

  // It and everything in it, each once, operands first.
  [[nodiscard]] std::vector<FormulaId> parts(FormulaId id) const;
  // visit(part) for each of those.
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
  // Variables in it, in the order of first use.
  [[nodiscard]] std::vector<FormulaId> variables(FormulaId id) const;
  // How many different operators; the outputs of one line on the same operands are one, constants
  // none.
  [[nodiscard]] std::size_t operators(std::span<const FormulaId> roots) const;

  // What stands in the place of what; there are few. (Arrays of pairs would be set to zero.)
  struct Image {
    FormulaId part;
    FormulaId image;
  };
  // The formula with `images` in the place of some of its parts. Nothing where that is not legal.
  std::optional<FormulaId> replace(FormulaId id, std::span<const Image> images);
  std::optional<FormulaId> replace(FormulaId id, std::initializer_list<Image> images) {
    return replace(id, std::span(images.begin(), images.size()));
  }
  [[nodiscard]] const std::map<TypeId, std::int64_t>& below() const { return below_; }

  // A hash of type and value for random variables.
  Hash fingerprint(FormulaId id);
  bool equal(FormulaId a, FormulaId b) { return fingerprint(a) == fingerprint(b); }

 private:
  static constexpr FormulaId kNone = ~FormulaId{0};
  // Of a formula: graphs have at most Tensor::kMaxLevel operators.
  static constexpr std::size_t kMostParts = 128;
  // What has been replaced so far, in one call of replace().
  struct Replaced;

  [[nodiscard]] std::size_t counted_operators(std::span<const FormulaId> roots) const;
  const std::vector<Field>& value(FormulaId id);
  FormulaId add(const Formula& formula);
  FormulaId replace(FormulaId id, Replaced& replaced);

  Programs& programs_;
  std::map<TypeId, std::int64_t> below_;
  std::vector<Formula> formulas_;
  NumbersByHash ids_;
  // Of all draws, of some. They take most of the memory, and what is asked for is the fingerprint,
  // so that from time to time all are forgotten.
  std::unordered_map<FormulaId, std::vector<Field>> values_;
  std::size_t stored_ = 0;                       // elements
  std::vector<Hash> fingerprints_;               // 0 where not computed
  mutable std::vector<std::uint8_t> operators_;  // and one more; 0 where not counted
  Program::Memory memory_;
};

}  // namespace tandem::generate
