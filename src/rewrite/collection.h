// The rules that are part of the program, each with what is known of its proof.
//
// A proof is looked up, not made again: rules/proofs has one line for each rule that was judged,
//
//   fuse-linear-relu 5f0c1a2b3c4d5e6f proved sums
//   add-associates 00c1a2b3c4d5e6f7 proved_if z3 same_shape(?x, ?y)
//
// its name, its hash, the status, who found it, and the condition under which it holds. A rule that
// was changed since has another hash, and no proof. Only rules with a proof are used.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rewrite/proof.h"
#include "rewrite/rule.h"

namespace tandem::rewrite {

struct ProvedRule {
  Rule rule;
  Proof proof;
  std::string origin;  // "rules/algebra.rules"

  [[nodiscard]] bool is_proved() const { return rewrite::is_proved(proof.status); }
  // The rule with the condition of its proof among its own.
  [[nodiscard]] Rule guarded() const;
};

// Those written by hand, proved or not, in the order of the files. Read once.
const std::vector<ProvedRule>& shipped_rules();
// Those that are proved, guarded: what is used where nobody asks for others.
std::vector<Rule> usable_rules();

// Those that the generator found, all of them proved. Read once, when first asked for: they are ten
// times as many, and most say how a graph grows.
const std::vector<ProvedRule>& generated_rules();
// The usable ones and the generated ones.
std::vector<Rule> all_rules();

// Of either kind. Throws UserError("rule") naming the nearest where there is none of that name.
const ProvedRule& find_shipped_rule(std::string_view name);

// Lines of a file of proofs. `source` is how messages call it. Throws UserError("rule").
struct ProofLine {
  std::string name;
  Hash hash = 0;
  Proof proof;
};
std::vector<ProofLine> parse_proofs(std::string_view text, const std::string& source);
std::string to_text(const ProofLine& line);

// Rules of one file with those proofs that are of them.
std::vector<ProvedRule> with_proofs(std::vector<Rule> rules, const std::string& origin,
                                    std::span<const ProofLine> proofs);

}  // namespace tandem::rewrite
