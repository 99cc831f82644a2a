// Proofs by Z3 from operator properties.
//
// Properties are rules (rules/properties/): wherever the source is legal and the conditions hold,
// the target is the same tensor. Z3 is told that of an uninterpreted sort of tensors, each operator
// a function of its attributes and operands; sizes, degrees and attributes stay symbols. It knows
// nothing else of operators. A rule is proved when its sides cannot differ where both are legal;
// that the target is legal, and of the same type, wherever the source is, types tell, not Z3.
//
// The one file that includes Z3 is smt.cc. Built without it every answer is "unproved".
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
  std::string reason = {};             // why not
  std::vector<std::string> used = {};  // the properties that the proof needs, in order
  bool needs_sizes = false;  // what instances say of sizes, beside the rule's own conditions
  Seconds time = Seconds{0};

  bool operator==(const SmtAnswer&) const = default;
};

// Not thread-safe: one per thread.
class SmtProver {
 public:
  static constexpr Seconds kTimeLimit{1};

  explicit SmtProver(std::span<const rewrite::Rule> properties);
  SmtProver(SmtProver&&) noexcept;
  SmtProver& operator=(SmtProver&&) noexcept;
  ~SmtProver();

  // Is Z3 there?
  static bool is_available();

  // A new solver for every rule: what one rule leads to is not carried to the next.
  [[nodiscard]] SmtAnswer prove(const rewrite::Rule& rule, const SizeFacts& facts = {},
                                Seconds limit = kTimeLimit) const;
  // The same from the properties but those that `excluded` names.
  [[nodiscard]] SmtAnswer prove_without(std::span<const std::string> excluded,
                                        const rewrite::Rule& rule, const SizeFacts& facts = {},
                                        Seconds limit = kTimeLimit) const;

  // Do the properties contradict each other, given that to each of them there are different tensors
  // to which it applies? "proved" says that they do.
  [[nodiscard]] SmtAnswer find_contradiction(Seconds limit) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tandem::verify
