// From one way in which a rule's source occurs to others, step by step: one size changes, or all
// that are equal, a rank, a symbol, a degree. Most single changes of what fits fit as well, so that
// a walk comes to types that differ from where it began in many places at once; of types that are
// drawn as a whole nearly none fit.
//
// What an operator stretches may be a whole expression: in `(add (mul ?x ?y) (mul ?z ?w))` ?z and
// ?w are of size 1 together, or none is. So all that stands below a node changes at once, too, and
// so does what is the same operand of all operators of a kind, as kernels of convolutions; and
// where a change does not fit, a variable takes the type of what stands beside it.
#pragma once

#include <random>
#include <span>
#include <vector>

#include "verify/rule_typer.h"

namespace tandem::verify {

class OccurrenceWalk {
 public:
  OccurrenceWalk(const Rule& rule, std::span<const Instance> near, Hash seed);

  // The next one, or none where what was tried does not occur; now and then it begins anew.
  const Instance* step();

 private:
  // Tensor variables and symbols.
  struct Names {
    std::vector<bool> tensors;
    std::vector<bool> symbols;
  };

  std::size_t below(std::size_t n) { return random_() % n; }
  std::int64_t size_to_begin_with();
  std::int64_t size();
  std::int64_t number_of(const Instance& at);
  void change(Instance& at);
  bool mend(Instance& at);
  void rename(Instance& at);
  void resize_group(Instance& at);
  void resize(Instance& at);
  void resize_two(Instance& at);
  void shift(Instance& at);
  void resize_one(Instance& at, std::int64_t to);
  void resize_everywhere(Instance& at);
  void change_ranks(Instance& at);
  void change_symbol(Instance& at);
  void divide(ParallelShape& shape);

  void group();
  void add_names_below(rewrite::PatternId node, Names& to) const;

  const Rule& rule_;
  std::span<const Instance> near_;
  std::vector<std::vector<Value>> values_;
  RuleTyper typer_;
  std::mt19937_64 random_;
  bool parallel_;
  std::vector<rewrite::PatternId> operators_;  // nodes of the source
  std::vector<Names> groups_;                  // what changes together
  std::vector<std::int64_t> degrees_;          // to divide by
  std::size_t steps_ = 0;
  std::int64_t first_ = 1, second_ = 1;  // sizes of this walk
  Instance current_;
  Instance next_;
  std::vector<std::int64_t> results_;  // sizes of what the source's operators make
};

}  // namespace tandem::verify
