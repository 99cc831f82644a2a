// TASO's and FlexFlow's operators in terms of ours: one line of text for each, used by import and
// export.
//
//   OP_LINEAR: (linear ?x ?w act=?acti) => ?x
//
// ?x and ?w are its inputs in order. ?acti is its parameter PM_ACTI, in our words (relu). `when`
// lists parameters that must have a value. `if` lists conditions on its inputs. A type may have
// several lines; the first that fits is used.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "import/collection_schema.h"
#include "rewrite/rule.h"

namespace tandem::import {

struct OperatorLine {
  std::string type;  // for example "OP_LINEAR"
  // Parameters that must be present, with their values: {"PM_PAD": 0}. nullopt stands for any
  // value.
  std::map<std::string, std::optional<std::int64_t>> when;
  rewrite::Rule line;  // its source is our equivalent
};

// Returns all lines in the order in which they are tried.
const std::vector<OperatorLine>& operator_lines();

// Returns the first line that fits `op`. Throws Lacking (import/collection_rule.h) with the reason
// if there is none.
const OperatorLine& find_operator_line(const CollectionOperator& op);

// Returns the collection's name for the parameter `symbol`. Example: acti -> PM_ACTI.
std::string to_parameter_name(const std::string& symbol);

// Returns whether `parameter` carries no information, so that no line needs to mention it.
bool is_ignored_parameter(const std::string& parameter);

}  // namespace tandem::import
