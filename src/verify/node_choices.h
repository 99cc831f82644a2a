// Finds the values of a pattern node's own symbols with which it takes operands of given types. For
// example, stride=?s and padding=?p of a convolution have forty values each, few of which fit.
// Results are cached, since most rules have nodes like those of other rules.
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
  using Numbers = std::vector<std::uint8_t>;  // by symbol: position among its values

  struct SymbolChoice {
    Numbers values;
    TypeId type = 0;  // type of the result
  };

  // Returns the thread's cached choices of a node. `symbols` are the node's own, and
  // `values` are those of all symbols of the rule. Returns null if an attribute needs more than
  // these, such as the size of a tensor.
  static NodeChoices* get_thread_cache(const rewrite::PatternNode& node,
                                       const std::vector<std::size_t>& symbols,
                                       const std::vector<std::vector<Value>>& values);

  // Returns the choices that fit `inputs`. It tries the first value of each symbol, other values of
  // one symbol, and pairs of other values that fit alone. It also pairs one of these with the first
  // value of another symbol that fits only together with it.
  const std::vector<SymbolChoice>& find_fitting(std::span<const TypeId> inputs);

 private:
  struct InputsHash {
    std::size_t operator()(const std::vector<TypeId>& inputs) const;
  };

  NodeChoices(rewrite::PatternNode node, std::vector<std::vector<Value>> values)
      : node_(std::move(node)), values_(std::move(values)) {}

  const std::optional<ops::Op>& get_op(const Numbers& numbers);

  rewrite::PatternNode node_;  // its symbols are numbered as in `values_`
  std::vector<std::vector<Value>> values_;
  std::map<Numbers, std::optional<ops::Op>> ops_;
  std::unordered_map<std::vector<TypeId>, std::vector<SymbolChoice>, InputsHash> known_;
};

}  // namespace tandem::verify
