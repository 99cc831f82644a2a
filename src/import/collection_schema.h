// JSON form of the rule collections of TASO and FlexFlow:
//
//   {"rule": [{"name": "r", "srcOp": [Operator], "dstOp": [Operator],
//              "mappedOutput": [{"srcOpId": 2, "srcTsId": 0, "dstOpId": 0, "dstTsId": 0}]}]}
//   Operator {"type": "OP_CONCAT", "input": [{"opId": -1, "tsId": 0}],
//             "para": [{"key": "PM_AXIS", "value": 1}]}
//
// opId is an index into the operators of the same side; a negative opId is a tensor from outside.
// tsId is the index of an output. collection_operators.h says what the operators mean. The
// collections that we write state before the rules how they count dimensions: "dimensions": "plain"
// or "replicas first".
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::import {

// The way in which a collection counts dimensions.
enum class Dimensions : std::uint8_t {
  kPlain,
  kReplicasFirst,  // dimension 0 is the replica dimension
};
std::string_view name(Dimensions dimensions);

struct CollectionTensor {
  std::int64_t op = 0;
  std::int64_t output = 0;
  auto operator<=>(const CollectionTensor&) const = default;
};

struct CollectionOperator {
  std::string type;
  std::vector<CollectionTensor> inputs = {};
  std::map<std::string, std::int64_t> parameters = {};
  bool operator==(const CollectionOperator&) const = default;
};

struct CollectionRule {
  struct Output {
    CollectionTensor source, target;
    bool operator==(const Output&) const = default;
  };
  std::string name;  // may be empty
  std::vector<CollectionOperator> source, target;
  std::vector<Output> outputs;
  bool operator==(const CollectionRule&) const = default;
};

// Calls `visit` for every rule, with the way of counting dimensions if the text states it. Holds
// one rule at a time. Checks that all tensors exist and that there are no cycles. Throws
// UserError("rules", ...) if the text does not have this form.
using CollectionVisit = std::function<void(const CollectionRule&, std::optional<Dimensions>)>;
void for_each_collection_rule(std::string_view text, const std::string& source,
                              const CollectionVisit& visit);

// Returns `rule` as an element of the list "rule", as JSON in one line.
std::string to_json(const CollectionRule& rule);

}  // namespace tandem::import
