// The rules that are compiled into the program, each with the result of its proof.
//
// A proof is looked up, not repeated: the file rules/proofs has one line for each judged rule,
//
//   fuse-linear-relu 5f0c1a2b3c4d5e6f proved normal-forms
//   add-associates 00c1a2b3c4d5e6f7 proved_if z3 same_shape(?x, ?y)
//
// with the rule's name, hash, status, prover, and the condition under which the rule holds. A rule
// that changed after its proof has another hash, and so no proof. Only rules with a proof are used.
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
  std::string origin;  // for example "rules/algebra.rules"

  [[nodiscard]] bool is_proved() const { return rewrite::is_proved(proof.status); }
  // Returns the rule with the condition of its proof added to its own conditions.
  [[nodiscard]] Rule to_guarded_rule() const;
};

// Returns the handwritten rules, proved or not, in the order of their files. Reads them once.
const std::vector<ProvedRule>& shipped_rules();
// Returns the proved handwritten rules, guarded. They are used unless others are requested.
std::vector<Rule> list_usable_rules();

// Returns the generated rules, all of which are proved. Reads them once, at the first call: they
// are ten times as many as the handwritten ones, and most of them make graphs larger.
const std::vector<ProvedRule>& generated_rules();
// Returns list_usable_rules() and the generated rules.
std::vector<Rule> list_all_rules();

// Returns the handwritten or generated rule called `name`. Throws UserError("rule") that suggests
// the nearest name if there is none.
const ProvedRule& find_shipped_rule(std::string_view name);

// One line of a file of proofs.
struct ProofLine {
  std::string name;
  Hash hash = 0;
  Proof proof;
};
// Returns the lines of `text`, a file of proofs. `source` names the file in messages. Throws
// UserError("rule").
std::vector<ProofLine> parse_proofs(std::string_view text, const std::string& source);
std::string to_text(const ProofLine& line);

// Joins the rules of file `origin` with the proofs that have the same name and hash.
std::vector<ProvedRule> attach_proofs(std::vector<Rule> rules, const std::string& origin,
                                      std::span<const ProofLine> proofs);

}  // namespace tandem::rewrite
