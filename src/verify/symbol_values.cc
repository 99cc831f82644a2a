#include "verify/symbol_values.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "base/error.h"
#include "ops/attributes.h"

namespace tandem::verify {

namespace {

using rewrite::Operation;
using rewrite::PatternNode;

bool accepts(const ops::OpSpec& spec, std::size_t attribute, const Value& value) {
  try {
    (void)spec.parse({{spec.attributes[attribute].first, rewrite::to_text(value)}});
    return true;
  } catch (const UserError&) {
    return false;
  }
}

std::vector<Value> make_integer_values() {
  std::vector<Value> out;
  for (std::int64_t n : {1, 0, 2, 3, -1, 4}) out.emplace_back(n);
  return out;
}

// Returns the names that any attribute knows; callers retain those that their attribute accepts.
std::vector<Value> make_name_values() {
  std::vector<Value> out;
  out.reserve(32);
  for (auto name : ops::kActivationNames) out.emplace_back(std::string(name));
  for (auto name : kDTypeNames) out.emplace_back(std::string(name));
  for (const auto* name : {"false", "true", "sum", "mean", "\"fill\"", "\"eye\"", "\"iota\""}) {
    out.emplace_back(std::string(name));
  }
  return out;
}

std::vector<Value> make_list_values() {
  using List = std::vector<std::int64_t>;
  std::vector<Value> out;
  for (const List& list :
       {List{1, 0}, List{0, 1}, List{1, 1}, List{0, 0}, List{2, 2}, List{1, 2}, List{2, 1},
        List{0, 2}, List{2, 0}, List{3, 3}, List{0}, List{1}, List{2}, List{-1}, List{}}) {
    out.emplace_back(list);
  }
  for (List perm = {0, 1, 2};;) {
    out.emplace_back(perm);
    if (!std::ranges::next_permutation(perm).found) break;
  }
  for (const List& list :
       {List{1, 1, 1, 1}, List{0, 1, 0, 1}, List{1, 0, 0, 0}, List{0, 2, 1, 3}, List{0, 1, 3, 2},
        List{1, 0, 2, 3}, List{0, 2, 3, 1}, List{0, 3, 1, 2}, List{2, 3, 0, 1}}) {
    out.emplace_back(list);
  }
  return out;
}

std::vector<Value> find_accepted(const ops::OpSpec& spec, std::size_t attribute) {
  std::vector<Value> out;
  for (const auto& candidates : {make_integer_values(), make_name_values(), make_list_values()}) {
    for (const auto& value : candidates) {
      if (accepts(spec, attribute, value)) out.push_back(value);
    }
  }
  const auto usual = rewrite::parse_value(spec.attributes[attribute].second);
  // Puts the default first, since the others are tried together with it.
  std::erase(out, usual);
  if (accepts(spec, attribute, usual)) out.insert(out.begin(), usual);
  return out;
}

// Returns the accepted values. Cached per thread, since every rule with the attribute asks for
// them.
const std::vector<Value>& get_accepted(const ops::OpSpec& spec, std::size_t attribute) {
  static thread_local std::map<std::pair<const ops::OpSpec*, std::size_t>, std::vector<Value>> all;
  const auto [at, is_new] = all.try_emplace({&spec, attribute});
  if (is_new) at->second = find_accepted(spec, attribute);
  return at->second;
}

class SymbolValueFinder {
 public:
  explicit SymbolValueFinder(const Rule& rule) : out_(rule.symbols.size()) {
    for (const auto* side : {&rule.source, &rule.target}) {
      for (const auto& node : side->nodes) read(node);
    }
    // A symbol that is used in expressions alone is a number.
    for (auto& values : out_) {
      if (values.empty()) values = make_integer_values();
    }
  }

  std::vector<std::vector<Value>> take() { return std::move(out_); }

 private:
  void read(const PatternNode& node) {
    for (std::size_t a = 0; a < node.attributes.size(); ++a) {
      const auto& e = node.attributes[a];
      if (e.operation == Operation::kSymbol) set_values(node, a, e.variables[0]);
      if (e.operation != Operation::kList) continue;
      for (const auto& item : e.operands) {
        if (item.operation == Operation::kSymbol && out_[item.variables[0]].empty()) {
          out_[item.variables[0]] = make_integer_values();
        }
      }
    }
  }

  // Sets a symbol's values by its first attribute. The source is read before the target.
  void set_values(const PatternNode& node, std::size_t attribute, std::uint16_t symbol) {
    if (out_[symbol].empty()) out_[symbol] = get_accepted(*node.spec, attribute);
  }

  std::vector<std::vector<Value>> out_;
};

}  // namespace

std::vector<std::vector<Value>> find_symbol_values(const Rule& rule) {
  if (rule.symbols.empty()) return {};
  return SymbolValueFinder(rule).take();
}

std::vector<std::int64_t> find_named_degrees(const Rule& rule) {
  std::set<std::int64_t> out;
  for (const auto* side : {&rule.source, &rule.target}) {
    for (const auto& node : side->nodes) {
      for (std::size_t a = 0; a < node.attributes.size(); ++a) {
        const auto& e = node.attributes[a];
        if (e.operation != Operation::kLiteral) continue;
        if (node.spec->attributes[a].first != "degree") continue;
        const auto* n = std::get_if<std::int64_t>(&e.literal);
        if (n != nullptr && *n > 1) out.insert(*n);
      }
    }
  }
  return {out.begin(), out.end()};
}

}  // namespace tandem::verify
