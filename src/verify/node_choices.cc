#include "verify/node_choices.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>

#include "base/hash.h"

namespace tandem::verify {

namespace {

using rewrite::Operation;

// Returns the node's attributes and all values of their symbols as text, the key of the cache.
std::string make_cache_key(const rewrite::PatternNode& node,
                           const std::vector<std::vector<Value>>& values) {
  std::string out = node.spec->name;
  for (const auto& attribute : node.attributes) {
    if (attribute.operation == Operation::kSymbol) {
      out += fmt::format(" ?{}", attribute.variables[0]);
    } else {
      out += ' ' + rewrite::to_text(attribute.literal);
    }
  }
  for (const auto& of_symbol : values) {
    out += " |";
    for (const auto& value : of_symbol) out += ' ' + rewrite::to_text(value);
  }
  return out;
}

}  // namespace

NodeChoices* NodeChoices::get_thread_cache(const rewrite::PatternNode& node,
                                           const std::vector<std::size_t>& symbols,
                                           const std::vector<std::vector<Value>>& values) {
  auto own = node;
  for (auto& attribute : own.attributes) {
    if (attribute.operation == Operation::kLiteral) continue;
    if (attribute.operation != Operation::kSymbol) return nullptr;
    const auto at = std::ranges::find(symbols, attribute.variables[0]);
    if (at == symbols.end()) return nullptr;
    attribute.variables[0] = static_cast<std::uint16_t>(at - symbols.begin());
  }
  std::vector<std::vector<Value>> of_own;
  of_own.reserve(symbols.size());
  for (auto s : symbols) of_own.push_back(values[s]);
  static thread_local std::unordered_map<std::string, std::unique_ptr<NodeChoices>> all;
  auto& choices = all[make_cache_key(own, of_own)];
  if (choices == nullptr) choices.reset(new NodeChoices(std::move(own), std::move(of_own)));
  return choices.get();
}

std::size_t NodeChoices::InputsHash::operator()(const std::vector<TypeId>& inputs) const {
  Hash h = inputs.size();
  for (auto i : inputs) h = mix(h ^ i);
  return h;
}

const std::optional<ops::Op>& NodeChoices::get_op(const Numbers& numbers) {
  const auto [at, is_new] = ops_.try_emplace(numbers);
  if (is_new) {
    std::vector<std::optional<Value>> symbols;
    for (std::size_t s = 0; s < numbers.size(); ++s) symbols.emplace_back(values_[s][numbers[s]]);
    at->second = TypeTable::get_thread_local().make_op(node_, {{}, symbols});
  }
  return at->second;
}

const std::vector<NodeChoices::SymbolChoice>& NodeChoices::find_fitting(
    std::span<const TypeId> inputs) {
  auto [known, is_new] = known_.try_emplace({inputs.begin(), inputs.end()});
  auto& out = known->second;
  if (!is_new) return out;
  const auto fits = [&](const Numbers& numbers) {
    const auto& with_values = get_op(numbers);
    const auto type = with_values
                          ? TypeTable::get_thread_local().infer_result_type(*with_values, inputs)
                          : TypeTable::kNone;
    if (type != TypeTable::kNone) out.push_back({numbers, type});
    return type != TypeTable::kNone;
  };
  Numbers numbers(values_.size());
  fits(numbers);
  std::vector<Numbers> alone(values_.size());
  for (std::size_t s = 0; s < values_.size(); ++s) {
    for (std::size_t v = 1; v < values_[s].size(); ++v) {
      numbers[s] = static_cast<std::uint8_t>(v);
      if (fits(numbers)) alone[s].push_back(numbers[s]);
    }
    numbers[s] = 0;
  }
  // Two other values may fit together, even if neither fits with the first values. A value may also
  // fit only together with another one: part 1 of 2, a padding that only a window larger than 1
  // takes.
  for (std::size_t a = 0; a < values_.size(); ++a) {
    for (std::size_t b = 0; b < values_.size(); ++b) {
      if (a == b) continue;
      for (auto x : alone[a]) {
        numbers[a] = x;
        for (auto y : alone[b]) {
          numbers[b] = y;
          if (a < b) fits(numbers);
        }
        std::size_t v = 1;
        const auto fits_now = [&] {
          numbers[b] = static_cast<std::uint8_t>(v);
          return std::ranges::count(alone[b], numbers[b]) == 0 && fits(numbers);
        };
        while (v < values_[b].size() && !fits_now()) ++v;
      }
      numbers[a] = numbers[b] = 0;
    }
  }
  return out;
}

}  // namespace tandem::verify
