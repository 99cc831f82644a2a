// Checks the properties that proofs by Z3 rest on: a proof is only as good as its properties.
//
// A property is checked against the operators' meaning on instances. Both sides run as graphs in a
// prime field, on virtual devices if tensors are sharded, and must agree to the last bit.
//
// If all tensors are whole, the target must be legal wherever the source is, and of the same shape.
// If tensors are sharded and both sides are legal, their types must be the same, too. A target that
// alone is illegal refutes nothing: type checks decide whether a rule keeps a graph legal.
//
// Every combination of small sizes is tried if possible, and larger ones at random. Operands of
// small sizes are sharded in every way by 2 and by 4, and a random sample of these runs.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/units.h"
#include "rewrite/rule.h"
#include "verify/smt.h"

namespace tandem::verify {

struct PropertyLimits {
  std::int64_t every_size_to = 3;
  std::int64_t random_size_to = 4;
  std::size_t instances_of_pattern = 24;  // size of a random sample, if there are more
  std::size_t divided_instances = 16;
  std::size_t attribute_values = 8;  // limit on combinations of values that are no numbers
  std::size_t instances = 800;       // in total
  std::size_t tries = 5000;          // limit of the search for patterns, for each combination
  std::size_t patterns = 48;         // in total
  unsigned threads = 2;              // of check_properties
  Hash seed = 1;
};

struct PropertyCheck {
  std::string name;
  std::size_t patterns = 0;     // ways in which its source fits: ranks, attributes, degrees
  std::size_t instances = 0;    // instances on which both sides ran
  std::size_t divided = 0;      // instances with sharded, replicated or partial operands
  std::size_t source_only = 0;  // sharded instances at which the target is illegal
  bool complete = false;        // whether all sizes up to every_size_to were tried
  std::string refuted = {};     // the instance on which it fails, and how

  [[nodiscard]] bool holds() const { return refuted.empty() && instances > 0; }
};

// Checks one property, or each of several, on instances.
PropertyCheck check_property(const rewrite::Rule& property, const PropertyLimits& limits = {});
std::vector<PropertyCheck> check_properties(std::span<const rewrite::Rule> properties,
                                            const PropertyLimits& limits = {});

struct Redundant {
  std::string name;
  std::vector<std::string> follows_from;
  bool operator==(const Redundant&) const = default;
};

// Returns the properties that Z3 derives from the others, without their own converse. If two follow
// from each other, both are listed.
std::vector<Redundant> find_redundant(std::span<const rewrite::Rule> properties,
                                      Seconds limit = SmtProver::kTimeLimit);

}  // namespace tandem::verify
