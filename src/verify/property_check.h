// Properties are not taken on trust: proofs by Z3 are worth what these are.
//
// A property is checked against the operators' meaning on instances: both sides are run as graphs
// in a prime field, on virtual devices where tensors are divided, and must agree to the last bit.
//
//   Where all tensors are whole, the target is legal wherever the source is, of the same shape.
//   Where tensors are divided and both sides are legal, their types are the same, too. That the
//   target alone is illegal refutes nothing: whether a rule keeps a graph legal, types tell.
//
// Every combination of small sizes is tried where it can be, larger ones at random; the operands of
// small ones are divided in every way by 2 and by 4, of which some at random are run.
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
  std::size_t instances_of_pattern = 24;  // where there are more, so many at random
  std::size_t divided_instances = 16;
  std::size_t attribute_values = 8;  // combinations of those that are no numbers
  std::size_t instances = 800;       // in all
  std::size_t tries = 5000;          // of the search for patterns, for each combination
  std::size_t patterns = 48;         // in all
  unsigned threads = 2;              // of check_properties
  Hash seed = 1;
};

struct PropertyCheck {
  std::string name;
  std::size_t patterns = 0;     // ways in which its source fits: ranks, attributes, degrees
  std::size_t instances = 0;    // on which both sides were run
  std::size_t divided = 0;      // of them, with divided, replicated or partial operands
  std::size_t source_only = 0;  // divided in ways in which the target is not legal
  bool complete = false;        // all sizes up to every_size_to were tried
  std::string refuted = {};     // the instance on which it fails, and how

  [[nodiscard]] bool holds() const { return refuted.empty() && instances > 0; }
};

PropertyCheck check_property(const rewrite::Rule& property, const PropertyLimits& limits = {});
std::vector<PropertyCheck> check_properties(std::span<const rewrite::Rule> properties,
                                            const PropertyLimits& limits = {});

struct Redundant {
  std::string name;
  std::vector<std::string> follows_from;
  bool operator==(const Redundant&) const = default;
};

// Properties that Z3 derives from the others, their own converse apart. Of two that follow from
// each other both are named.
std::vector<Redundant> find_redundant(std::span<const rewrite::Rule> properties,
                                      Seconds limit = SmtProver::kTimeLimit);

}  // namespace tandem::verify
