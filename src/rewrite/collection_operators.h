// TASO's and FlexFlow's operators as ours: one line of text for each, used both ways.
//
//   OP_LINEAR: (linear ?x ?w act=?acti) => ?x
//
// ?x and ?w are its inputs in order; ?acti is its parameter PM_ACTI, in our words (relu). Behind
// `when` stand parameters that must have a value; a type may have several lines, the first that
// fits counts. Behind `if`: what its inputs must be.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "rewrite/rule.h"

namespace tandem::rewrite {

struct OperatorLine {
  std::string type;  // "OP_LINEAR"
  // "PM_PAD": 0; nullopt: must be given.
  std::map<std::string, std::optional<std::int64_t>> when;
  Rule line;  // its source is what it is as ours
};

// In the order in which they are tried.
const std::vector<OperatorLine>& operator_lines();

// "PM_ACTI" for the symbol acti.
std::string parameter_of(const std::string& symbol);

// Why a type has no line; nullptr where it is none of theirs.
const char* why_lacking(const std::string& type);

// Is it a parameter that no line needs to mention?
bool says_nothing(const std::string& parameter);

}  // namespace tandem::rewrite
