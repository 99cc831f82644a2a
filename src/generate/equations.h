// Equations: two formulas, or two lists of formulas, that are equal for all values of their
// variables. They are built from the table's equalities: variables are numbered by first use, and
// parts that both sides share become variables. Equal equations are stored once.
#pragma once

#include <vector>

#include "generate/formulas.h"

namespace tandem::generate {

struct Equation {
  std::vector<FormulaId> left;  // the side with more operators; as many as on the right
  std::vector<FormulaId> right;
  bool operator==(const Equation&) const = default;
};

// Converts the table's tensors to formulas.
class FormulaReader {
 public:
  FormulaReader(const TensorTable& table, Formulas& formulas);
  FormulaId read(const Application& application);

 private:
  FormulaId read(TensorId id);
  const TensorTable& table_;
  Formulas& formulas_;
  std::vector<FormulaId> of_variable_;
  std::vector<FormulaId> of_tensor_;
};

// Returns the types of indices with the exclusive upper bound of their values.
std::map<TypeId, std::int64_t> list_index_types(TensorTable& table);

// Returns the table's equalities without those that differ from an earlier one only in variable
// names.
std::vector<Equality> drop_renamings(const TensorTable& table, unsigned threads);

// Returns a hash that is equal for equations that differ only in variable names.
Hash compute_nameless_hash(const Formulas& formulas, const Equation& equation);

// Replaces parts that both sides share by variables, as long as the equation still holds. Example:
//   (x * y) + z = z + (x * y)   ->   u + z = z + u
Equation generalize_equation(Formulas& formulas, Equation equation);

// Replaces one variable by several, as far as the equation of one output still holds. Example:
//   x * (y + y) = x * y + x * y   ->   x * (y + z) = x * y + x * z
Equation split_variables(Formulas& formulas, Equation equation);

// Returns whether the equation holds for many more values of its variables. Some equations hold by
// chance: for tensors of one element, a maximum or a relu gives only one bit in each draw.
bool holds_for_more_values(Formulas& formulas, const Equation& equation);

// Returns whether each side lacks a variable of the other. Such an equation is a rule in no
// direction.
bool is_unbound(const Formulas& formulas, const Equation& equation);

// Returns the equation with variables numbered by first use. The order of commutative operands and
// of the sides does not depend on names.
Equation normalize_equation(const TensorTable& table, Formulas& formulas, const Equation& equation);

}  // namespace tandem::generate
