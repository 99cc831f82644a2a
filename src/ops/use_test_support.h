// An operator as tests write it: attributes as "name=value" and the shapes of the operands.
#pragma once

#include <string>
#include <vector>

#include "ops/registry.h"

namespace tandem::ops {

struct Use {
  std::string op;
  std::vector<std::string> attributes = {};
  std::vector<Shape> inputs = {};
};

inline Op make(const Use& use) {
  AttributeList list;
  for (const auto& a : use.attributes) {
    const auto equals = a.find('=');
    list.emplace_back(a.substr(0, equals), a.substr(equals + 1));
  }
  return parse_op(find_op(use.op), list);
}

inline std::string format_use(const Use& use) {
  std::string out = use.op;
  for (const auto& a : use.attributes) out += " " + a;
  for (const auto& shape : use.inputs) out += " " + to_text(shape);
  return out;
}

}  // namespace tandem::ops
