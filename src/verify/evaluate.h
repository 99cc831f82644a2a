// Both sides of a rule with numbers in them. A side means what its operators mean one after the
// other; parallelization operators are the identity on meaning, a join adds.
//
// Sides are compared in the prime field, where equal expressions give equal numbers. Where the
// numbers differ the rule is tried in real arithmetic on small numbers, so that a refutation is one
// that a reader can follow - and so that nothing is refuted that differs in the field alone
// (exp(a + b) is no product there).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "tensor/dense.h"
#include "term/field.h"
#include "verify/typed_side.h"

namespace tandem::verify {

// Values of the tensor variables.
template <class T>
using Operands = std::vector<Dense<T>>;

// The outputs of a side.
template <class T>
std::vector<Dense<T>> evaluate(const TypedSide& side, const Operands<T>& operands);

// The same on virtual devices, every shard a tensor of its own; sets *replicas_agree to false where
// replicas of an output hold different values.
std::vector<Dense<term::Field>> evaluate_sharded(const TypedSide& side,
                                                 const Operands<term::Field>& operands,
                                                 bool* replicas_agree);

// Adds a side's nodes to a graph, and returns its outputs; `variables` are those of the tensors.
std::vector<graph::NodeId> add_side(graph::GraphBuilder& builder, const TypedSide& side,
                                    std::span<const graph::NodeId> variables);

struct Refutation {
  Instance instance;
  std::string what;  // "element [0, 2] is 17 and 23, with ?x = [1, 2]"
};
// "?x [2, 3], ?w [4, 3], ?a = 1: element [0, 2] is 17 and 23"
std::string to_text(const Rule& rule, const Refutation& refutation);

enum class Comparison : std::uint8_t {
  kEqual,
  kDifferent,         // refuted
  kDifferentInField,  // but not seen in real arithmetic: decides nothing
};

// Compares the sides at random operands of the field; where they differ, at up to `real_draws` real
// ones. Both must fit.
Comparison compare(const Rule& rule, const Instance& instance, int real_draws, Hash seed,
                   Refutation* refutation);

// Where the sides differ at real operands, half of the draws small whole numbers. What is opaque in
// the field may be equal there by chance.
std::optional<Refutation> refuted_in_reals(const Rule& rule, const Instance& instance, int draws,
                                           Hash seed);
// The same at operands of which one in sixteen is negative: a long sum times one of its terms is
// negative there alone. Nothing where a tensor is large.
std::optional<Refutation> refuted_by_few_negatives(const Rule& rule, const Instance& instance,
                                                   int draws, Hash seed);
// Where real operands leave the target undefined (x / 0) and the source not, and some operator of
// the target can do so.
std::optional<Refutation> undefined_target(const Rule& rule, const Instance& instance, Hash seed);

// As refuted_in_reals, with indices of which half are beyond the tables of usual sizes, where those
// above are within tables of four rows. Nothing where there are no indices.
std::optional<Refutation> refuted_beyond_tables(const Rule& rule, const Instance& instance,
                                                int draws, Hash seed);

// Are the values that shards of both sides hold those that the sides mean?
bool shards_agree(const Rule& rule, const Instance& instance, Hash seed);

// Why the target does not fit where the source does.
Refutation misfit(const Rule& rule, const Instance& instance);

}  // namespace tandem::verify
