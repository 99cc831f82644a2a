// Conversion of one rule of a collection to our form and back. import/collection_json.h converts a
// whole collection.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "import/collection_schema.h"
#include "rewrite/rule.h"

namespace tandem::import {

// Thrown if one form expresses something that the other cannot. Caught within src/import.
struct Lacking : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Converts `rule` to our form, under the name `name`. Throws Lacking.
rewrite::Rule to_rule(const CollectionRule& rule, Dimensions dimensions, const std::string& name);

// Converts `rule` to the collection's form. Throws Lacking. Converting the result back may give
// other conditions, so the caller compares.
CollectionRule to_collection_rule(const rewrite::Rule& rule, Dimensions dimensions);

// Activations in the order of their PM_ACTI numbers.
inline constexpr const char* kActivations[] = {"none", "sigmoid", "relu", "tanh"};

}  // namespace tandem::import
