// Test fixtures: formulas over a set of operators, and over tensors of three elements.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string_view>

#include "generate/equations.h"

namespace tandem::generate {

class FormulaFixture : public testing::Test {
 protected:
  explicit FormulaFixture(std::string_view operators) : table_(parse_operator_set(operators), 1) {}

  TensorTable table_;
  Formulas formulas_{table_.programs(), list_index_types(table_)};
  TypeId type_ = table_.programs().type_id(table_.variables()[0].type);

  FormulaId var(std::uint32_t n) { return formulas_.add_variable(type_, n); }
  // Applies an operation, given by its index in the set.
  FormulaId make(std::uint16_t operation, std::initializer_list<FormulaId> operands) {
    return *formulas_.apply(operation, std::span(operands.begin(), operands.size()));
  }
  FormulaId add(FormulaId a, FormulaId b) { return make(0, {a, b}); }
};

class ThreeElementFormulas : public FormulaFixture {
 protected:
  ThreeElementFormulas() : FormulaFixture("tensors [3] 4\n(add ?x ?y)\n(mul ?x ?y)\n(relu ?x)") {}

  FormulaId mul(FormulaId a, FormulaId b) { return make(1, {a, b}); }
  FormulaId relu(FormulaId a) { return make(2, {a}); }
};

}  // namespace tandem::generate
