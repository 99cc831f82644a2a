// Finds the equations that do not follow from others. Several threads test them in batches.
// Equations that follow from those before the batch are dropped; the rest are tested again in
// order. Each thread has its own formulas, and clears them when there are too many.
//
// A thread that would wait for the end of a batch tests later equations meanwhile. Such an answer
// counts only if no equation is retained until its batch begins, as is the case for most. The
// result therefore does not depend on timing.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "generate/equations.h"
#include "generate/formula_rewriter.h"

namespace tandem::generate {

class Pruning {
 public:
  Pruning(const TensorTable& table, Formulas& formulas, unsigned threads);
  ~Pruning();

  // Adds an equation from which others may follow.
  void add_given(const Equation& equation);

  // Returns the equations that follow neither from given ones nor from those before them, and adds
  // them to the given ones. If `generalise`, replaces one variable by several where the equation
  // still holds. Then drops equations whose general form follows, or is a rule in no direction.
  std::vector<Equation> select_independent(const std::vector<Equation>& equations, bool generalise,
                                           const std::function<void(std::size_t)>& progress);

 private:
  class Worker;
  class Asking;

  const TensorTable& table_;
  Formulas& formulas_;
  std::vector<Equation> given_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace tandem::generate
