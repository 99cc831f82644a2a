#include "import/scope.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace tandem::import {

std::string_view Scope::resolve(std::string_view name) const {
  if (name.empty()) return name;
  for (const auto* scope = this; scope != nullptr; scope = scope->outer) {
    if (const auto at = scope->names.find(name); at != scope->names.end()) return at->second;
    if (scope->is_function) {
      throw UserError("onnx", "",
                      fmt::format("no earlier node of the function produces '{}'", name));
    }
  }
  return name;
}

void Scope::resolve_attributes(NodeProto& node) const {
  const auto* function = this;
  while (function != nullptr && !function->is_function) function = function->outer;
  if (function == nullptr) return;
  std::vector<Attribute> out;
  for (const auto& a : node.attributes) {
    if (a.refers.empty()) {
      out.push_back(a);
      continue;
    }
    const auto given = std::ranges::find(function->attributes, a.refers, &Attribute::name);
    if (given == function->attributes.end()) continue;
    out.push_back(*given);
    out.back().name = a.name;
  }
  node.attributes = std::move(out);
}

}  // namespace tandem::import
