// Where a rule's source occurs: concrete types for its tensors and values for its symbols such that
// the source type-checks and the conditions hold. Whether the target then type-checks, too, is what
// a rule must be judged by (fit_of), so it is not asked here.
//
// A pattern is one way in which the source fits: ranks, attributes, which sizes are 1 and
// stretched, degrees. Its base is one instance; its moves are the ways in which sizes may change
// together and stay an instance. Of matmul: [2, 2] x [2, 2], and moves for m, for both k, for n;
// of concat: one move for each of the joined dimensions. Patterns are found by trying, so that no
// operator needs to be known: first all sizes equal, then with a few that deviate.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/hash.h"
#include "verify/typed_side.h"

namespace tandem::verify {

// A change of every size, tensor after tensor, then of every symbol that is a whole number (0 for
// the others).
using Move = std::vector<std::int64_t>;

struct Pattern {
  Instance base;
  std::vector<Move> moves;
  int deviations = 0;  // how many sizes, degrees, ... are not as the others
};

struct PatternLimits {
  std::size_t patterns = 32;
  std::size_t bases = 500;
  std::size_t tries = 12000;  // nodes of the search
};

struct Patterns {
  std::vector<Pattern> all;  // the plainest first
  // Bases of more patterns than those, without their moves: the sides' types can be compared there.
  std::vector<Instance> bases;
  bool cut = false;  // there were more than the limits allow
  // Where there are none: the node of the source, or the condition, beyond which nothing came.
  std::optional<rewrite::PatternId> node = {};
  std::optional<std::size_t> condition = {};
};

Patterns find_patterns(const Rule& rule, const PatternLimits& limits = {});

// base + sum of steps[j] * moves[j]; none where a size is below 1 or the source does not occur.
std::optional<Instance> moved(const Rule& rule, const Pattern& pattern,
                              std::span<const std::int64_t> steps);

struct SmallInstances {
  std::vector<Instance> all;
  bool cut = false;  // drawn at random, since there are more than the limit
};

// Every instance of the pattern whose moving sizes are 1..largest, or `limit` of them.
SmallInstances small_instances(const Rule& rule, const Pattern& pattern, std::int64_t largest,
                               std::size_t limit, Hash seed = 0);

// One whose moving sizes are large and differ from each other as far as they may.
std::optional<Instance> generic_instance(const Rule& rule, const Pattern& pattern, Hash seed);

// Has the rule an operator that is no meaning of its own: one of the parallelization operators?
bool is_parallel(const Rule& rule);

}  // namespace tandem::verify
