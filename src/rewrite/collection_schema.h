// Rule collections of TASO and FlexFlow as they stand in JSON:
//
//   {"rule": [{"name": "r", "srcOp": [Operator], "dstOp": [Operator],
//              "mappedOutput": [{"srcOpId": 2, "srcTsId": 0, "dstOpId": 0, "dstTsId": 0}]}]}
//   Operator {"type": "OP_CONCAT", "input": [{"opId": -1, "tsId": 0}],
//             "para": [{"key": "PM_AXIS", "value": 1}]}
//
// Of one side, opId counts its operators from 0, below 0 are tensors from outside; tsId is which
// output. What the operators mean as ours: collection_operators.h. Ours say in front of the rules
// how they count dimensions: "dimensions": "plain" or "replicas first".
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::rewrite {

// How a collection counts dimensions.
enum class Dimensions : std::uint8_t {
  kPlain,
  kReplicasFirst,  // 0 is that of replicas
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

// Visits every rule, with how dimensions are counted where that is said; holds one at a time. All
// tensors exist and there are no cycles. Throws UserError("rules", ...) where the text is not of
// this form.
using CollectionVisit = std::function<void(const CollectionRule&, std::optional<Dimensions>)>;
void for_each_rule_in(std::string_view text, const std::string& source,
                      const CollectionVisit& visit);

// One rule of the list, as JSON in one line.
std::string to_json(const CollectionRule& rule);

}  // namespace tandem::rewrite
