// Equations: two formulas, or two lists of them, that are equal for all values of their variables.
// Made of the table's equalities: renamed so that variables are numbered by first use, and
// generalised by cutting off what both sides share. Equal ones are kept once.
#pragma once

#include <vector>

#include "generate/formulas.h"

namespace tandem::generate {

struct Equation {
  std::vector<FormulaId> left;  // as many as on the right; the side with more operators
  std::vector<FormulaId> right;
  bool operator==(const Equation&) const = default;
};

// The table's tensors as formulas.
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

// Types of indices, and what they are below.
std::map<TypeId, std::int64_t> index_types(TensorTable& table);

// Those of the table that differ in more than the names of variables.
std::vector<Equality> without_renamings(const TensorTable& table, unsigned threads);

// The same for equations that differ in the names of variables alone.
Hash nameless_hash(const Formulas& formulas, const Equation& equation);

// Parts that both sides have become variables, as long as the equation still holds.
Equation generalised(Formulas& formulas, Equation equation);

// One variable in several places becomes several, as far as the equation still holds. Of one
// output.
Equation with_distinct_variables(Formulas& formulas, Equation equation);

// Does it hold for many more values of its variables? Of tensors of one element a maximum or a relu
// says one bit in each draw, so that some equations hold by chance.
bool holds_again(Formulas& formulas, const Equation& equation);

// Does neither side have all variables of the other? Then it is a rule in no direction.
bool is_unbound(const Formulas& formulas, const Equation& equation);

// Variables numbered by first use, operands of commutative operations and the sides in an order
// that does not depend on names.
Equation normalised(const TensorTable& table, Formulas& formulas, const Equation& equation);

}  // namespace tandem::generate
