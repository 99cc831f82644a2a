// One rule of a collection as ours, and back; a whole collection: rewrite/collection_json.h.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "rewrite/collection_schema.h"
#include "rewrite/rule.h"

namespace tandem::rewrite {

// What one form says and the other cannot: caught within this folder.
struct Lacking : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Throws Lacking.
Rule to_rule(const CollectionRule& rule, Dimensions dimensions, const std::string& name);

// Throws Lacking. What comes back from to_rule may have other conditions: the caller compares.
CollectionRule to_collection_rule(const Rule& rule, Dimensions dimensions);

inline constexpr const char* kActivations[] = {"none", "sigmoid", "relu", "tanh"};  // PM_ACTI

}  // namespace tandem::rewrite
