// A rule's side with concrete types. With a type for every tensor variable and a value for every
// symbol, each pattern node is an operator with its attributes and the type of its result.
// Otherwise the side does not type-check. This code knows no operators: graph::infer_result_type
// decides what fits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ops/op.h"
#include "rewrite/rule.h"
#include "rewrite/type_table.h"
#include "tensor/tensor_type.h"

namespace tandem::verify {

using rewrite::PatternId;
using rewrite::Rule;
using rewrite::Side;
using rewrite::TypeTable;
using rewrite::Value;

// Types and values of the variables of a rule.
struct Instance {
  std::vector<TensorType> tensors;            // by tensor variable
  std::vector<std::optional<Value>> symbols;  // by symbol; all are set once an instance is complete
  bool operator==(const Instance&) const = default;
};

// Returns the hash of an instance whose symbols all have values.
Hash hash_instance(const Instance& instance);
// Returns the instance as text: "?x [2, 3], ?w [4, 3], ?a = 1".
std::string to_text(const Rule& rule, const Instance& instance);

struct TypedNode {
  std::optional<ops::Op> op;  // nullopt for a variable
  std::uint16_t variable = 0;
  std::vector<PatternId> inputs;
  TensorType type;
};

struct TypedSide {
  std::vector<TypedNode> nodes;  // in the order of the side
  std::vector<PatternId> outputs;
};

// Returns nullopt if an attribute has no value or the operands of some node do not fit.
std::optional<TypedSide> type_side(const Side& side, const Instance& instance);

}  // namespace tandem::verify
