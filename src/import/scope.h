// Names of tensors inside a node: a function of the model has names of its own, a branch sees those
// around it too. While such nodes are converted in the place of their node, theirs are replaced by
// names that nothing else has.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "import/records.h"

namespace tandem::import {

struct Scope {
  const Scope* outer = nullptr;  // none around a function
  bool is_function = false;
  std::string prefix = {};  // of new names
  std::unordered_map<std::string_view, std::string_view> names = {};
  // The results, and what the node around calls them.
  std::unordered_map<std::string_view, std::string_view> results = {};
  // Of a function: what its nodes' attributes may refer to.
  std::vector<Attribute> attributes = {};

  // The name that stands for `name`. Throws UserError where a function has no such tensor.
  [[nodiscard]] std::string_view resolve(std::string_view name) const;
  // Gives the attributes that refer to a function's those values; drops those that have none.
  void resolve_attributes(Node& node) const;
};

}  // namespace tandem::import
