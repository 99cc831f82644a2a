// Which equations do not follow from others? Asked in batches, of several threads: whatever follows
// from the equations before the batch is dropped, the rest is asked again in order. Each thread has
// formulas of its own, and begins anew when there are many of them.
//
// A thread that would wait for the end of a batch asks of later ones meanwhile. Such an answer
// counts if nothing was kept until its batch begins, which is so for most, so that what comes out
// does not depend on it.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "generate/equations.h"
#include "generate/rewriting.h"

namespace tandem::generate {

class Pruning {
 public:
  Pruning(const TensorTable& table, Formulas& formulas, unsigned threads);
  ~Pruning();

  // Equations that others may follow from.
  void give(const Equation& equation);

  // Those that neither follow from what was given nor from those before them. What is kept is
  // given. `generalise`: with one variable in several places where several will do; those whose
  // general form follows, or is a rule in no direction, are dropped.
  std::vector<Equation> without_derived(const std::vector<Equation>& equations, bool generalise,
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
