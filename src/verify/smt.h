// Proves rules by Z3 from operator properties.
//
// Properties are rules (rules/properties/): wherever the source is legal and the conditions hold,
// the target is the same tensor. In Z3 tensors are an uninterpreted sort, and each operator is a
// function of its attributes and operands. Sizes, degrees and attributes stay symbols. Z3 knows
// nothing else about operators. A rule is proved if its sides cannot differ where both are legal.
// Type checks, not Z3, decide whether the target is legal and of the same type wherever the source
// is.
//
// Only smt.cc includes Z3. Without Z3 every answer is "unproved".
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/units.h"
#include "rewrite/rule.h"
#include "verify/size_facts.h"

namespace tandem::verify {

struct SmtAnswer {
  bool proved = false;
  std::string reason = {};             // why it is not proved
  std::vector<std::string> used = {};  // properties that the proof needs, sorted
  bool needs_sizes = false;  // whether sizes of instances are needed besides the conditions
  Seconds time = Seconds{0};

  bool operator==(const SmtAnswer&) const = default;
};

// A prover that knows a set of properties. Not thread-safe: use one per thread.
class SmtProver {
 public:
  static constexpr Seconds kTimeLimit{1};

  explicit SmtProver(std::span<const rewrite::Rule> properties);
  SmtProver(SmtProver&&) noexcept;
  SmtProver& operator=(SmtProver&&) noexcept;
  ~SmtProver();

  // Returns whether this build has Z3.
  static bool is_available();

  // Proves a rule with a new solver, so that nothing is carried over from one rule to the next.
  [[nodiscard]] SmtAnswer prove(const rewrite::Rule& rule, const SizeFacts& facts = {},
                                Seconds limit = kTimeLimit) const;
  // Proves a rule from all properties except those that `excluded` names.
  [[nodiscard]] SmtAnswer prove_without(std::span<const std::string> excluded,
                                        const rewrite::Rule& rule, const SizeFacts& facts = {},
                                        Seconds limit = kTimeLimit) const;

  // Returns "proved" if the properties contradict each other, given that each of them applies to
  // some tensors that all differ.
  [[nodiscard]] SmtAnswer find_contradiction(Seconds limit) const;

 private:
  struct ProverState;
  std::unique_ptr<ProverState> state_;
};

}  // namespace tandem::verify
