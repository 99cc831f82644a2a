// Finds where a rule's source occurs: concrete types for its tensors and values for its symbols,
// such that the source type-checks and the conditions hold. Whether the target then type-checks is
// what a rule is judged by (check_fit), so the search does not require it.
//
// A pattern is one way in which the source fits: ranks, attributes, sizes of 1 that are broadcast,
// degrees. Its base is one instance. Its moves are the ways in which sizes may change together and
// stay an instance. matmul has the base [2, 2] x [2, 2] and moves for m, for both k, and for n.
// concat has one move for each joined dimension. Patterns are found by trying, so that the search
// needs no knowledge of operators: first with all sizes equal, then with a few that deviate.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/hash.h"
#include "verify/typed_side.h"

namespace tandem::verify {

// A change of every size, tensor after tensor, and then of every integer symbol (0 for other
// symbols).
using Move = std::vector<std::int64_t>;

struct InstancePattern {
  Instance base;
  std::vector<Move> moves;
  int deviations = 0;  // number of sizes, degrees, ... that differ from the others
};

struct PatternLimits {
  std::size_t patterns = 32;
  std::size_t bases = 500;
  std::size_t tries = 12000;  // nodes of the search tree
};

struct Patterns {
  std::vector<InstancePattern> all;  // the plainest first
  // Bases of these and further patterns, without their moves: the sides' types can be compared
  // there.
  std::vector<Instance> bases;
  bool cut = false;  // whether there were more than the limits allow
  // Set if there are no patterns: the source's node, or the condition, that the search did not
  // pass.
  std::optional<rewrite::PatternId> node = {};
  std::optional<std::size_t> condition = {};
};

// Searches for the patterns in which the source of `rule` occurs, within `limits`.
Patterns find_patterns(const Rule& rule, const PatternLimits& limits = {});

// Returns base + sum of steps[j] * moves[j], or nullopt if a size is below 1 or the source does not
// occur.
std::optional<Instance> apply_moves(const Rule& rule, const InstancePattern& pattern,
                                    std::span<const std::int64_t> steps);

struct SmallInstances {
  std::vector<Instance> all;
  bool cut = false;  // whether they are a random sample of more than the limit
};

// Returns every instance of the pattern whose moving sizes are in 1..largest, or a sample of
// `limit`.
SmallInstances list_small_instances(const Rule& rule, const InstancePattern& pattern,
                                    std::int64_t largest, std::size_t limit, Hash seed = 0);

// Returns an instance whose moving sizes are large and differ from each other as far as possible.
std::optional<Instance> find_generic_instance(const Rule& rule, const InstancePattern& pattern,
                                              Hash seed);

// Returns whether the rule has a parallelization operator or a join, which have no meaning of their
// own.
bool is_parallel(const Rule& rule);

}  // namespace tandem::verify
