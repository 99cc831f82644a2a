// Does an equation follow from others? Those are used as rewrites, in both directions, on both
// sides of it, breadth first, until the two meet or a bound is reached. A bound that is reached
// leaves an equation that might follow: it is kept.
#pragma once

#include <unordered_map>
#include <vector>

#include "generate/equations.h"

namespace tandem::generate {

struct Bounds {
  std::size_t states = 300;  // that are looked at, of both sides together
  std::size_t growth = 1;    // how many operators more than the larger side has
};

class Rewriting {
 public:
  Rewriting(const TensorTable& table, Formulas& formulas) : table_(table), formulas_(formulas) {}

  void add(const Equation& equation);
  bool derives(const Equation& equation, const Bounds& bounds);

 private:
  using State = std::vector<FormulaId>;
  struct StateHash {
    std::size_t operator()(const State& state) const {
      Hash h = 1;
      for (auto id : state) h = hash_combine(h, id);
      return h;
    }
  };
  // A part of an output of the pattern is matched, all of the outputs are replaced.
  struct Step {
    FormulaId pattern;
    FormulaId replacement;
  };
  struct Binding {
    FormulaId variable;
    FormulaId image;
  };
  // By state, which side it was reached from.
  using Reached = std::unordered_map<State, bool, StateHash>;

  void add_step(FormulaId pattern, FormulaId replacement);
  void match(FormulaId pattern, FormulaId formula, std::vector<std::vector<Binding>>& out);
  void match_all(std::vector<std::pair<FormulaId, FormulaId>> open, std::vector<Binding> bound,
                 std::vector<std::vector<Binding>>& out);
  const std::vector<FormulaId>& rewrites(FormulaId formula);
  bool expand(const State& state, std::size_t limit, bool side, Reached& reached,
              std::vector<State>& next);

  const TensorTable& table_;
  Formulas& formulas_;
  std::unordered_map<std::uint16_t, std::vector<Step>> steps_;  // by the pattern's operation
  // What the steps make of a formula at its root, and how many steps of its operation there were.
  struct Known {
    std::size_t steps = 0;
    std::vector<FormulaId> images;
  };
  std::unordered_map<FormulaId, Known> known_;
};

}  // namespace tandem::generate
