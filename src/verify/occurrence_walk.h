// Walks from one occurrence of a rule's source to others, step by step. A step changes one size,
// all equal sizes, a rank, a symbol or a degree. Most single changes of what fits also fit, so a
// walk reaches types that differ from its start in many places. Types that are drawn as a whole
// nearly never fit.
//
// An operator may broadcast a whole expression: in `(add (mul ?x ?y) (mul ?z ?w))` either both ?z
// and ?w have size 1, or neither does. A step may therefore change all that is below a node, or the
// same operand of all operators of a kind, such as the kernels of convolutions. If a change does
// not fit, a variable takes the type of another operand of the same operator.
#pragma once

#include <random>
#include <span>
#include <vector>

#include "verify/rule_typer.h"

namespace tandem::verify {

class OccurrenceWalk {
 public:
  OccurrenceWalk(const Rule& rule, std::span<const Instance> near, Hash seed);

  // Returns the next occurrence, or null if the change tried does not occur. Sometimes restarts.
  const Instance* step();

 private:
  // A set of tensor variables and symbols.
  struct Names {
    std::vector<bool> tensors;
    std::vector<bool> symbols;
  };

  std::size_t draw_below(std::size_t n) { return random_() % n; }
  std::int64_t draw_initial_size();
  std::int64_t draw_size();
  std::int64_t draw_number(const Instance& at);
  void change(Instance& at);
  bool repair(Instance& at);
  void replace_number(Instance& at);
  void resize_group(Instance& at);
  void resize(Instance& at);
  void resize_two(Instance& at);
  void shift_size(Instance& at);
  void resize_one(Instance& at, std::int64_t to);
  void resize_everywhere(Instance& at);
  void change_ranks(Instance& at);
  void change_symbol(Instance& at);
  void change_sharding(ParallelShape& shape);

  void build_groups();
  void add_names_below(rewrite::PatternId node, Names& to) const;

  const Rule& rule_;
  std::span<const Instance> near_;
  std::vector<std::vector<Value>> values_;
  RuleTyper typer_;
  std::mt19937_64 random_;
  bool parallel_;
  std::vector<rewrite::PatternId> operators_;  // nodes of the source
  std::vector<Names> groups_;                  // names that change together
  std::vector<std::int64_t> degrees_;          // degrees to shard by
  std::size_t steps_ = 0;
  std::int64_t first_ = 1, second_ = 1;  // sizes of this walk
  Instance current_;
  Instance next_;
  std::vector<std::int64_t> results_;  // sizes of the results of the source's operators
};

}  // namespace tandem::verify
