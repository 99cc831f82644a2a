// Evaluates both sides of a rule on numbers. The value of a side is that of its operators, one
// after the other. Parallelization operators are the identity on values, and a join adds.
//
// Sides are compared in the prime field, where equal expressions give equal numbers. If the numbers
// differ, the rule is tried in real arithmetic on small numbers. A reader can then follow the
// refutation, and a rule that differs in the field alone is not refuted (exp(a + b) is no product
// there).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "tensor/dense.h"
#include "term/field.h"
#include "verify/typed_side.h"

namespace tandem::verify {

// Values of the tensor variables, in their order.
template <class T>
using Operands = std::vector<Dense<T>>;

// Returns the outputs of a side.
template <class T>
std::vector<Dense<T>> evaluate(const TypedSide& side, const Operands<T>& operands);

// Returns the outputs of a side that runs on virtual devices, with a tensor for every shard. Sets
// *replicas_agree to false if replicas of an output hold different values.
std::vector<Dense<term::Field>> evaluate_sharded(const TypedSide& side,
                                                 const Operands<term::Field>& operands,
                                                 bool* replicas_agree);

// Adds a side's nodes to a graph and returns its outputs. `variables` are the nodes of the tensor
// variables.
std::vector<graph::NodeId> add_side(graph::GraphBuilder& builder, const TypedSide& side,
                                    std::span<const graph::NodeId> variables);

struct Refutation {
  Instance instance;
  std::string what;  // "element [0, 2] is 17 and 23, with ?x = [1, 2]"
};
// Returns the refutation as text: "?x [2, 3], ?w [4, 3], ?a = 1: element [0, 2] is 17 and 23".
std::string to_text(const Rule& rule, const Refutation& refutation);

enum class Comparison : std::uint8_t {
  kEqual,
  kDifferent,         // refuted
  kDifferentInField,  // not seen in real arithmetic, so it decides nothing
};

// Compares the sides at random operands of the field. If they differ, compares them at up to
// `real_draws` real operands. Both sides must fit.
Comparison compare(const Rule& rule, const Instance& instance, int real_draws, Hash seed,
                   Refutation* refutation);

// Returns a refutation if the sides differ at real operands, half of which are small integers.
// Needed since functions that are opaque in the field may be equal there by chance.
std::optional<Refutation> find_refutation_in_reals(const Rule& rule, const Instance& instance,
                                                   int draws, Hash seed);
// Tries operands of which one in sixteen is negative. Only these make a long sum times one of its
// terms negative. Returns nullopt if a tensor is large.
std::optional<Refutation> find_refutation_by_few_negatives(const Rule& rule,
                                                           const Instance& instance, int draws,
                                                           Hash seed);
// Returns a refutation if real operands leave the target undefined (x / 0) but not the source.
// Tries only targets with an operator that can be undefined.
std::optional<Refutation> find_undefined_target(const Rule& rule, const Instance& instance,
                                                Hash seed);

// Works like refuted_in_reals, but draws half of the indices beyond embedding tables of usual
// sizes. The functions above stay within tables of four rows. Returns nullopt if there are no
// indices.
std::optional<Refutation> find_refutation_beyond_tables(const Rule& rule, const Instance& instance,
                                                        int draws, Hash seed);

// Returns whether the shards of both sides hold the values of the unsharded sides.
bool shards_agree(const Rule& rule, const Instance& instance, Hash seed);

// Returns why the target does not fit although the source does.
Refutation describe_misfit(const Rule& rule, const Instance& instance);

}  // namespace tandem::verify
