// Formulas over tensors of three elements, for tests.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>

#include "generate/equations.h"

namespace tandem::generate {

class FormulasOfThree : public testing::Test {
 protected:
  TensorTable table_{parse_operator_set("tensors [3] 4\n(add ?x ?y)\n(mul ?x ?y)\n(relu ?x)"), 1};
  Formulas formulas_{table_.programs(), index_types(table_)};
  TypeId type_ = table_.programs().type_id(table_.variables()[0].type);

  FormulaId var(std::uint32_t n) { return formulas_.variable(type_, n); }
  FormulaId make(std::uint16_t operation, std::initializer_list<FormulaId> operands) {
    return *formulas_.apply(operation, std::span(operands.begin(), operands.size()));
  }
  FormulaId add(FormulaId a, FormulaId b) { return make(0, {a, b}); }
  FormulaId mul(FormulaId a, FormulaId b) { return make(1, {a, b}); }
  FormulaId relu(FormulaId a) { return make(2, {a}); }
};

}  // namespace tandem::generate
