// Facts about the sizes of a rule's tensors: numbers that are equal in every instance at which the
// rule type-checks. They are read off instances, typed by the operators' own shape functions. A
// prover needs them if a property has a condition.
//
// Instances are samples. A symbol is therefore never said to have a value or to equal another
// symbol, only to equal a size that varies. Nothing is said about degrees, replicas and partial
// sums.
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

// An integer of a rule: a number, a symbol, a rank or a size.
struct Measure {
  enum class MeasureKind : std::uint8_t { kNumber, kSymbol, kRank, kDim };
  MeasureKind kind = MeasureKind::kNumber;
  PlaceInRule place = {};   // kRank, kDim
  std::int64_t number = 0;  // the number, the symbol, or the dimension ...
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

// Returns the facts of those instances at which both sides type-check. Returns none if these are
// fewer than kFewestInstances, since one equality shows nothing.
constexpr std::size_t kFewestInstances = 3;
SizeFacts find_size_facts(const rewrite::Rule& rule, std::span<const Instance> instances);
// Returns the facts of the rule's patterns: of their bases, of each move, and of large sizes that
// differ.
SizeFacts find_size_facts(const rewrite::Rule& rule, const Patterns& patterns);

}  // namespace tandem::verify
