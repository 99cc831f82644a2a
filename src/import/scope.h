// Names of tensors inside a node. A function of the model has its own names; a branch also sees the
// names around it. Inner nodes are converted in the place of their node, and their names are
// replaced by unique ones.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "import/records.h"

namespace tandem::import {

struct Scope {
  const Scope* outer = nullptr;  // null for a function
  bool is_function = false;
  std::string prefix = {};  // prefix of new names
  std::unordered_map<std::string_view, std::string_view> names = {};
  // Outputs of the inner graph, and their names outside.
  std::unordered_map<std::string_view, std::string_view> results = {};
  // Attribute values that the nodes of a function may refer to.
  std::vector<Attribute> attributes = {};

  // Returns the unique name of `name`. Throws UserError if a function has no such tensor.
  [[nodiscard]] std::string_view resolve(std::string_view name) const;
  // Replaces attributes that refer to an attribute of the function by its value, and removes those
  // without a value.
  void resolve_attributes(NodeProto& node) const;
};

}  // namespace tandem::import
