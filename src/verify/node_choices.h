// The values of a pattern node's own symbols with which it takes operands of given types: stride=?s
// and padding=?p of a convolution have forty values each, of which few fit. Most rules have nodes
// like those of other rules, so what was found is kept.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "verify/typed_side.h"

namespace tandem::verify {

class NodeChoices {
 public:
  using TypeId = TypeTable::TypeId;
  using Numbers = std::vector<std::uint8_t>;  // by symbol, which of its values

  struct Choice {
    Numbers values;
    TypeId type = 0;  // of the result
  };

  // Kept for the thread. `symbols` are the node's own, `values` those of all of the rule's. Null
  // where an attribute needs more than these, such as the size of a tensor.
  static NodeChoices* of_thread(const rewrite::PatternNode& node,
                                const std::vector<std::size_t>& symbols,
                                const std::vector<std::vector<Value>>& values);

  // With the first value of each symbol, with another one of one symbol, with those of two that fit
  // alone, and with one that does and the first of another's that fits beside it only.
  const std::vector<Choice>& fitting(std::span<const TypeId> inputs);

 private:
  struct InputsHash {
    std::size_t operator()(const std::vector<TypeId>& inputs) const;
  };

  NodeChoices(rewrite::PatternNode node, std::vector<std::vector<Value>> values)
      : node_(std::move(node)), values_(std::move(values)) {}

  const std::optional<ops::Op>& op(const Numbers& numbers);

  rewrite::PatternNode node_;  // its symbols are numbered as in `values_`
  std::vector<std::vector<Value>> values_;
  std::map<Numbers, std::optional<ops::Op>> ops_;
  std::unordered_map<std::vector<TypeId>, std::vector<Choice>, InputsHash> known_;
};

}  // namespace tandem::verify
