// What is known of the sizes of a rule's tensors: which numbers are equal in every instance of the
// rule that type-checks. Taken from instances, as the operators' own shape functions find them; a
// prover needs them where a property has a condition.
//
// Instances are samples. So a symbol is never said to have a value or to equal another symbol, only
// to be a size that varies; and of degrees, replicas and partial sums nothing is said.
//
//   (split (concat (relu ?x) ?y axis=0) axis=0 parts=2)  if dim(?x, 0) == dim(?y, 0)
//   dim((relu ?x), 0) == dim(?y, 0), rank((relu ?x)) == rank(?x), ...
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "rewrite/rule.h"
#include "verify/instances.h"

namespace tandem::verify {

// A node of one of the rule's sides.
struct PlaceInRule {
  bool in_target = false;
  rewrite::PatternId node = 0;
  bool operator==(const PlaceInRule&) const = default;
};

// A whole number that has to do with a rule.
struct Measure {
  enum class Kind : std::uint8_t { kNumber, kSymbol, kRank, kDim };
  Kind kind = Kind::kNumber;
  PlaceInRule place = {};   // kRank, kDim
  std::int64_t number = 0;  // itself, the symbol, or the dimension ...
  bool at_symbol = false;   // ... or the symbol that names the dimension
  bool operator==(const Measure&) const = default;
};

struct SizeFacts {
  std::vector<std::pair<Measure, Measure>> equal;
  std::vector<std::pair<Measure, std::int64_t>> at_least;
  std::vector<std::pair<PlaceInRule, PlaceInRule>> same_shape;

  [[nodiscard]] bool is_empty() const {
    return equal.empty() && at_least.empty() && same_shape.empty();
  }
};

// Of the instances in which both sides type-check. Empty where these are fewer than
// kFewestInstances: equal once says nothing.
constexpr std::size_t kFewestInstances = 3;
SizeFacts facts_of(const rewrite::Rule& rule, std::span<const Instance> instances);
// From the rule's patterns: their bases, each move, and large sizes that differ.
SizeFacts facts_of(const rewrite::Rule& rule, const Patterns& patterns);

}  // namespace tandem::verify
