// For tests: draws rules, many of which are false, and many of those only just. Random terms are
// evaluated at one choice of small sizes. Two terms that agree there make a rule that holds there,
// and often nowhere else. A true rule may be changed to be false from some size on, or be
// restricted to some sizes.
#pragma once

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "verify/trial_test_support.h"

namespace tandem::verify {

// A pattern that can be shrunk: `?x`, or an operator, its attributes and its operands.
struct TestTerm {
  std::string head;  // "?x", "add"
  std::vector<TestTerm> operands = {};
  std::string attributes = {};

  bool operator==(const TestTerm&) const = default;
};

inline std::string to_text(const TestTerm& term) {
  if (term.operands.empty()) return term.head;
  std::string out = "(" + term.head;
  for (const auto& operand : term.operands) out += " " + to_text(operand);
  return out + term.attributes + ")";
}

struct TestRule {
  TestTerm source, target;
  std::string condition = {};

  [[nodiscard]] std::string text() const {
    auto out = fmt::format("random: {} => {}", to_text(source), to_text(target));
    return condition.empty() ? out : out + " if " + condition;
  }
};

inline std::optional<rewrite::Rule> parse_test_rule(const TestRule& rule) {
  try {
    return rewrite::parse_rule(rule.text())[0];
  } catch (const UserError&) {
    return std::nullopt;  // the target has a variable that the source lacks
  }
}

class RandomRules {
 public:
  explicit RandomRules(std::uint64_t seed) : random_(seed) {}

  // Returns rules drawn from `terms` terms at one choice of small sizes.
  std::vector<TestRule> draw(int terms) {
    Occurrence at;
    const std::array sizes = {1 + below(2), 1 + below(2), 1 + below(3)};
    const bool equal = below(2) == 0;
    for (int v = 0; v < kVariables; ++v) {
      Shape shape;
      for (int d = 0; d < 2; ++d)
        shape.push_back(sizes[equal ? 0 : static_cast<std::size_t>(below(3))]);
      at.tensors.push_back({ParallelShape(shape), DType::kFp32});
    }
    std::map<Hash, std::vector<TestTerm>> by_values;
    for (int i = 0; i < terms; ++i) {
      auto drawn = term(3);
      if (drawn.operands.empty()) continue;
      if (const auto hash = values(drawn, at)) by_values[*hash].push_back(std::move(drawn));
    }
    std::vector<TestRule> out;
    for (auto& [hash, group] : by_values) {
      for (std::size_t i = 1; i < group.size(); ++i) {
        const auto& other = group[static_cast<std::size_t>(below(static_cast<std::int64_t>(i)))];
        if (other == group[i]) continue;
        out.push_back(change_rule({group[i], other}));
      }
    }
    return out;
  }

 private:
  static constexpr int kVariables = 3;

  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(n));
  }

  TestTerm term(int depth) {
    constexpr std::array kNames = {"?x", "?y", "?z"};
    if (depth == 0 || below(5) == 0) return {.head = kNames[static_cast<std::size_t>(below(3))]};
    constexpr std::array kBinary = {"add", "add", "mul",    "mul",    "sub",
                                    "max", "min", "matmul", "matmul", "linear"};
    constexpr std::array kUnary = {"relu", "neg", "tanh", "sigmoid", "square", "softmax", "abs"};
    if (below(2) == 0) {
      const auto* head = kBinary[static_cast<std::size_t>(below(kBinary.size()))];
      return {.head = head, .operands = {term(depth - 1), term(depth - 1)}};
    }
    TestTerm out{.head = kUnary[static_cast<std::size_t>(below(kUnary.size()))]};
    switch (below(8)) {
      case 0:
      case 1:
        out = {.head = "concat", .attributes = fmt::format(" axis={}", below(2))};
        out.operands.push_back(term(depth - 1));
        break;
      case 2:
      case 3:
        out = {.head = "transpose", .attributes = " perm=[1, 0]"};
        break;
      case 4:
        out = {.head = "slice",
               .attributes =
                   fmt::format(" axis={} begin={} size={}", below(2), below(2), 1 + below(2))};
        break;
      case 5:
        out = {.head = "scale", .attributes = fmt::format(" factor={}", below(4) - 1)};
        break;
      default:
        break;
    }
    out.operands.push_back(term(depth - 1));
    return out;
  }

  // Returns a hash of the term's values at some numbers, or nullopt if the term is not legal.
  std::optional<Hash> values(const TestTerm& term, const Occurrence& at) {
    const auto rule = parse_test_rule({.source = term, .target = term});
    if (!rule) return std::nullopt;
    Occurrence own;
    std::map<std::string, std::size_t> numbers = {{"x", 0}, {"y", 1}, {"z", 2}};
    for (const auto& name : rule->tensors) own.tensors.push_back(at.tensors[numbers[name]]);
    const auto graph = make_graph(rule->source, own);
    if (!graph) return std::nullopt;
    // Inputs are named by their numbers in the rule; the values must go by variable names.
    Hash out = 0;
    for (const std::uint64_t seed : {1, 2, 3, 4}) {
      const auto all = graph::run_forward<double>(*graph, [&](graph::NodeId id) {
        const auto& node = graph->node(id);
        if (!graph::is_input(node)) return graph::make_feed_values<double>(*graph, 0)(id);
        Dense<double> numbers_of(node.type.shape.sizes);
        const auto v = static_cast<std::size_t>(node.name[1] - '0');
        for (std::size_t e = 0; e < numbers_of.data.size(); ++e) {
          const auto h = hash_combine(hash_combine(hash_text(rule->tensors[v]), seed), e);
          numbers_of.data[e] = static_cast<double>(h % 9) - 4;
        }
        return numbers_of;
      });
      const auto& tensor = all[graph->outputs()[0].index()];
      for (auto d : tensor.shape) out = hash_combine(out, static_cast<Hash>(d));
      for (auto x : tensor.data) {
        constexpr double kDigits = 1e6;
        out = hash_combine(
            out, static_cast<Hash>(std::llround(std::clamp(x, -kDigits, kDigits) * kDigits)));
      }
    }
    return out;
  }

  // Returns the rule as it is, false from some size on, or restricted to some sizes.
  TestRule change_rule(TestRule rule) {
    const auto name = first_variable(rule.source);
    const auto axis = below(2);
    switch (below(6)) {
      case 0: {
        std::string product = "1";
        const auto last = 1 + below(4);
        for (std::int64_t n = 1; n <= last; ++n) {
          product = fmt::format("({} * (dim({}, {}) - {}))", product, name, axis, n);
        }
        rule.target = {.head = "add",
                       .operands = {rule.source,
                                    {.head = "scale",
                                     .operands = {rule.source},
                                     .attributes = fmt::format(" factor={}", product)}}};
        return rule;
      }
      case 1:
        rule.condition =
            fmt::format("rank({}) == 2 and dim({}, {}) <= {}", name, name, axis, 1 + below(3));
        return rule;
      case 2:
        rule.condition = fmt::format("dim({}, 0) == dim({}, 1)", name, name);
        return rule;
      default:
        return rule;
    }
  }

  static std::string first_variable(const TestTerm& term) {
    return term.operands.empty() ? term.head : first_variable(term.operands[0]);
  }

  std::mt19937_64 random_;
};

// Returns a smaller rule for which `fails` still holds, removing operators one by one.
template <class Fails>
TestRule shrunk(TestRule rule, Fails&& fails) {
  const auto smaller = [](const TestTerm& term, auto&& self) -> std::vector<TestTerm> {
    std::vector<TestTerm> out = term.operands;
    for (std::size_t i = 0; i < term.operands.size(); ++i) {
      for (auto& operand : self(term.operands[i], self)) {
        auto copy = term;
        copy.operands[i] = std::move(operand);
        out.push_back(std::move(copy));
      }
    }
    return out;
  };
  for (bool found = true; std::exchange(found, false);) {
    std::vector<TestRule> tried;
    if (!rule.condition.empty()) tried.push_back({rule.source, rule.target});
    for (auto& s : smaller(rule.source, smaller)) {
      if (!s.operands.empty()) tried.push_back({s, rule.target, rule.condition});
      for (auto& t : smaller(rule.target, smaller)) {
        if (!s.operands.empty()) tried.push_back({s, t, rule.condition});
      }
    }
    for (auto& t : smaller(rule.target, smaller)) tried.push_back({rule.source, t, rule.condition});
    for (auto& candidate : tried) {
      if (!fails(candidate)) continue;
      rule = std::move(candidate);
      found = true;
      break;
    }
  }
  return rule;
}

}  // namespace tandem::verify
