// Rules as text, one line each:
//
//   fuse-linear-relu: (relu (linear ?x ?w)) => (linear ?x ?w act=relu)
//   matmul-associates: (matmul ?x (matmul ?y ?z)) <=> (matmul (matmul ?x ?y) ?z)
//   share-linear: (linear ?x ?v), (linear ?x ?w) => (split ?c axis=1 parts=2 part=0),
//       (split ?c axis=1 parts=2 part=1) where ?c = (linear ?x (concat ?v ?w axis=0))
//       if dim(?v, 0) == dim(?w, 0) and rank(?x) == 2
//   split-relu: (relu ?x) => (combine (relu (partition ?x dim=?i degree=?d)) dim=?i degree=?d)
//       choose ?i, ?d
//
// A line that begins with a blank continues the one before. `<=>` makes two rules, the second named
// with "-reversed". `where` names subpatterns. `choose` names symbols that the source does not
// bind: the user of the rule chooses their values. `#` begins a comment.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "rewrite/rule.h"

namespace tandem::rewrite {

std::string to_text(const Rule& rule);
std::string to_text(const Rule& rule, const Side& side);
std::string to_text(const Rule& rule, const Expression& expression);

// Returns all rules of a file. `source` names the file in messages. Throws UserError("rule",
// "source:line", ...) that names the rule.
std::vector<Rule> parse_rules(std::string_view text, const std::string& source = "rules");
// Calls `visit` for every rule of a file until it returns false. Holds the rules of one line at a
// time, so that there may be any number of them.
void for_each_rule(std::string_view text, const std::string& source,
                   const std::function<bool(Rule)>& visit);
// Returns the rule of one line, or two rules if it contains `<=>`.
std::vector<Rule> parse_rule(std::string_view line);

}  // namespace tandem::rewrite
