#include "verify/conditions.h"

#include <algorithm>
#include <bit>
#include <iterator>

#include "verify/instances.h"
#include "verify/symbol_values.h"

namespace tandem::verify {

namespace {

using rewrite::Expression;
using rewrite::Operation;

constexpr std::size_t kMostConditions = 5;

// Penalties of conditions, by how unlikely a rule is to be about them. A penalty counts like the
// same fraction of good instances lost.
constexpr double kPlain = 0;
constexpr double kOfSizes = 0.05;
constexpr double kOfSymbols = 0.15;
constexpr double kOfOtherSizes = 0.25;  // sizes of dimensions with different numbers
constexpr double kOdd = 0.5;

struct Word {
  Expression condition;
  double penalty = 0;
};

Expression make_literal(std::int64_t n) { return {.literal = n}; }
Expression make_symbol(std::size_t s) {
  return {.operation = Operation::kSymbol, .variables = {static_cast<std::uint16_t>(s)}};
}
Expression make_tensor_expression(Operation operation, std::initializer_list<std::size_t> tensors) {
  Expression out{.operation = operation};
  for (auto t : tensors) out.variables.push_back(static_cast<std::uint16_t>(t));
  return out;
}
Expression make_indexed(Operation operation, std::size_t tensor, Expression index) {
  auto out = make_tensor_expression(operation, {tensor});
  out.operands.push_back(std::move(index));
  return out;
}
Expression make_binary(Operation operation, Expression a, Expression b) {
  Expression out{.operation = operation};
  out.operands.push_back(std::move(a));
  out.operands.push_back(std::move(b));
  return out;
}
Expression make_equal(Expression a, Expression b) {
  return make_binary(Operation::kEqual, std::move(a), std::move(b));
}

// Returns whether the symbol is a degree. Other integer symbols may be axes.
bool is_degree(const Rule& rule, std::size_t symbol) {
  const Expression alone{.operation = Operation::kSymbol,
                         .variables = {static_cast<std::uint16_t>(symbol)}};
  for (const auto* side : {&rule.source, &rule.target}) {
    for (const auto& node : side->nodes) {
      for (std::size_t a = 0; a < node.attributes.size(); ++a) {
        if (node.attributes[a] == alone && node.spec->attributes[a].first == "degree") return true;
      }
    }
  }
  return false;
}

// Returns whether the symbol is a degree that the rule leaves open, so that any value will do.
bool is_open_degree(const Rule& rule, std::size_t symbol) {
  return std::ranges::count(rule.choices, symbol) != 0 && is_degree(rule, symbol);
}

// Returns whether an open degree is 1. The rule then changes nothing.
bool has_open_degree_of_one(const Rule& rule, const Instance& instance) {
  return std::ranges::any_of(rule.choices, [&](auto s) {
    return is_degree(rule, s) && instance.symbols[s] == Value(std::int64_t{1});
  });
}

// The vocabulary of conditions for a rule, the plainest first.
class ConditionWords {
 public:
  ConditionWords(const Rule& rule, std::span<const Instance> instances)
      : rule_(rule), instances_(instances) {
    for (const auto& instance : instances) {
      for (const auto& t : instance.tensors) ranks_ = std::max(ranks_, t.shape.rank());
    }
    add_tensor_conditions();
    add_pair_conditions();
    flush_with_penalty(kOfSizes);
    add_symbol_conditions();
    flush_with_penalty(kOfSymbols);
    if (is_parallel(rule)) add_degree_conditions();
    flush_with_penalty(kPlain);
    add_size_conditions();
    flush_with_penalty(kOdd);
  }

  std::vector<Word> take() { return std::move(words_); }

 private:
  // Moves the conditions in out_ to words_ with the given penalty.
  void flush_with_penalty(double penalty) {
    for (auto& condition : out_) {
      const bool plain = condition.operation == Operation::kSameShape;
      words_.push_back({std::move(condition), plain ? kPlain : penalty});
    }
    out_.clear();
  }

  // Adds conditions on all tensors: one rank, a certain rank, one shape.
  void add_joint_conditions() {
    for (std::size_t r = 0; r <= ranks_; ++r) {
      std::vector<Expression> parts;
      for (std::size_t t = r == 0 ? 1 : 0; t < rule_.tensors.size(); ++t) {
        auto other = r == 0 ? make_tensor_expression(Operation::kRank, {0})
                            : make_literal(static_cast<int>(r));
        parts.push_back(
            make_equal(make_tensor_expression(Operation::kRank, {t}), std::move(other)));
      }
      add_conjunction(std::move(parts));
    }
    std::vector<Expression> same;
    for (std::size_t t = 1; t < rule_.tensors.size(); ++t) {
      same.push_back(make_tensor_expression(Operation::kSameShape, {0, t}));
    }
    add_conjunction(std::move(same));
  }

  void add_conjunction(std::vector<Expression> parts) {
    if (parts.size() < 2) return;
    auto all = std::move(parts[0]);
    for (std::size_t i = 1; i < parts.size(); ++i) {
      all = make_binary(Operation::kAnd, std::move(all), std::move(parts[i]));
    }
    out_.push_back(std::move(all));
  }

  void add_tensor_conditions() {
    add_joint_conditions();
    for (std::size_t t = 0; t < rule_.tensors.size(); ++t) {
      out_.push_back(make_binary(Operation::kLess, make_literal(1),
                                 make_tensor_expression(Operation::kRank, {t})));
      for (std::size_t r = 1; r <= ranks_; ++r) {
        out_.push_back(make_equal(make_tensor_expression(Operation::kRank, {t}),
                                  make_literal(static_cast<int>(r))));
      }
    }
    flush_with_penalty(kPlain);
  }

  void add_pair_conditions() {
    for (std::size_t t = 0; t < rule_.tensors.size(); ++t) {
      for (std::size_t u = t + 1; u < rule_.tensors.size(); ++u) {
        out_.push_back(make_tensor_expression(Operation::kSameShape, {t, u}));
        out_.push_back(make_equal(make_tensor_expression(Operation::kRank, {t}),
                                  make_tensor_expression(Operation::kRank, {u})));
        for (std::size_t s = 0; s < rule_.symbols.size(); ++s) {
          out_.push_back(make_equal(make_indexed(Operation::kDim, t, make_symbol(s)),
                                    make_indexed(Operation::kDim, u, make_symbol(s))));
        }
        for (std::size_t i = 0; i < ranks_; ++i) {
          for (std::size_t j = 0; j < ranks_; ++j) {
            flush_with_penalty(kOfSizes);
            out_.push_back(
                make_equal(make_indexed(Operation::kDim, t, make_literal(static_cast<int>(i))),
                           make_indexed(Operation::kDim, u, make_literal(static_cast<int>(j)))));
            flush_with_penalty(i == j ? kOfSizes : kOfOtherSizes);
          }
        }
      }
    }
  }

  void add_symbol_conditions() {
    for (std::size_t s = 0; s < rule_.symbols.size(); ++s) {
      std::vector<Value> values;
      for (const auto& instance : instances_) {
        const auto& value = instance.symbols[s];
        if (value && std::ranges::find(values, *value) == values.end()) values.push_back(*value);
      }
      for (const auto& value : values) {
        if (std::holds_alternative<std::vector<std::int64_t>>(value)) continue;
        if (is_open_degree(rule_, s)) continue;  // other degrees are as good
        out_.push_back(make_binary(Operation::kNotEqual, make_symbol(s), {.literal = value}));
        out_.push_back(make_equal(make_symbol(s), {.literal = value}));
      }
      for (std::size_t r = s + 1; r < rule_.symbols.size(); ++r) {
        out_.push_back(make_equal(make_symbol(s), make_symbol(r)));
        out_.push_back(make_binary(Operation::kNotEqual, make_symbol(s), make_symbol(r)));
      }
    }
  }

  void add_degree_conditions() {
    for (std::size_t t = 0; t < rule_.tensors.size(); ++t) {
      out_.push_back(make_equal(make_tensor_expression(Operation::kPartial, {t}), make_literal(1)));
      out_.push_back(
          make_equal(make_tensor_expression(Operation::kReplicas, {t}), make_literal(1)));
      for (std::size_t i = 0; i < ranks_; ++i) {
        out_.push_back(
            make_equal(make_indexed(Operation::kDegree, t, make_literal(static_cast<int>(i))),
                       make_literal(1)));
      }
      for (std::size_t s = 0; s < rule_.symbols.size(); ++s) {
        if (is_degree(rule_, s)) continue;
        out_.push_back(
            make_equal(make_indexed(Operation::kDegree, t, make_symbol(s)), make_literal(1)));
      }
    }
    for (std::size_t s = 0; s < rule_.symbols.size(); ++s) {
      if (!is_degree(rule_, s) || !is_number(s)) continue;
      out_.push_back(make_binary(Operation::kLess, make_literal(0), make_symbol(s)));
      for (std::size_t t = 0; t < rule_.tensors.size(); ++t)
        add_divisibility_conditions(t, make_symbol(s));
    }
    for (auto n : find_named_degrees(rule_)) {
      for (std::size_t t = 0; t < rule_.tensors.size(); ++t)
        add_divisibility_conditions(t, make_literal(n));
    }
  }

  [[nodiscard]] bool is_number(std::size_t s) const {
    return std::ranges::all_of(instances_, [&](const Instance& instance) {
      return std::holds_alternative<std::int64_t>(*instance.symbols[s]);
    });
  }

  // Adds conditions that a degree divides the shard size of a dimension.
  void add_divisibility_conditions(std::size_t tensor, const Expression& degree) {
    const auto divides = [&](const Expression& d) {
      out_.push_back(
          make_binary(Operation::kDivides, degree,
                      make_binary(Operation::kDivide, make_indexed(Operation::kDim, tensor, d),
                                  make_indexed(Operation::kDegree, tensor, d))));
    };
    for (std::size_t i = 0; i < ranks_; ++i) divides(make_literal(static_cast<int>(i)));
    for (std::size_t s = 0; s < rule_.symbols.size(); ++s) {
      if (!is_degree(rule_, s) && is_number(s)) divides(make_symbol(s));
    }
  }

  void add_size_conditions() {
    for (std::size_t t = 0; t < rule_.tensors.size(); ++t) {
      for (std::size_t i = 0; i < ranks_; ++i) {
        const auto dim = make_indexed(Operation::kDim, t, make_literal(static_cast<int>(i)));
        out_.push_back(
            make_equal(make_binary(Operation::kRemainder, dim, make_literal(2)), make_literal(1)));
        out_.push_back(make_binary(Operation::kLess, make_literal(1), dim));
        for (std::int64_t n : {1, 2, 3}) out_.push_back(make_equal(dim, make_literal(n)));
        for (std::size_t j = i + 1; j < ranks_; ++j) {
          out_.push_back(
              make_equal(dim, make_indexed(Operation::kDim, t, make_literal(static_cast<int>(j)))));
        }
        for (std::size_t s = 0; s < rule_.symbols.size(); ++s) {
          out_.push_back(make_equal(dim, make_symbol(s)));
        }
      }
    }
  }

  const Rule& rule_;
  std::span<const Instance> instances_;
  std::size_t ranks_ = 0;
  std::vector<Expression> out_;
  std::vector<Word> words_;
};

// A set of instances, one bit each.
class Bits {
 public:
  explicit Bits(std::size_t count) : words_((count + 63) / 64) {}
  void set(std::size_t i) { words_[i / 64] |= std::uint64_t{1} << (i % 64); }
  Bits& operator&=(const Bits& other) {
    for (std::size_t w = 0; w < words_.size(); ++w) words_[w] &= other.words_[w];
    return *this;
  }
  [[nodiscard]] std::size_t count() const {
    std::size_t out = 0;
    for (auto w : words_) out += static_cast<std::size_t>(std::popcount(w));
    return out;
  }

 private:
  std::vector<std::uint64_t> words_;
};

struct ConditionCandidate {
  Expression condition;
  double penalty = 0;
  Bits good;
  Bits bad;
};

// Instances, prepared for evaluating conditions on them.
class PreparedInstances {
 public:
  explicit PreparedInstances(std::span<const Instance> instances) : instances_(instances) {
    tensors_.reserve(instances.size());
    for (const auto& instance : instances) {
      auto& tensors = tensors_.emplace_back();
      for (const auto& t : instance.tensors) tensors.push_back(&t);
    }
  }

  [[nodiscard]] Bits find_holding(const Expression& condition) const {
    Bits out(instances_.size());
    for (std::size_t i = 0; i < instances_.size(); ++i) {
      if (rewrite::holds(condition, {tensors_[i], instances_[i].symbols})) out.set(i);
    }
    return out;
  }

 private:
  std::span<const Instance> instances_;
  std::vector<std::vector<const TensorType*>> tensors_;  // by instance
};

struct ConditionChoice {
  std::vector<Expression> conditions;
  double score = 0;  // fraction of good instances, less the penalties
};

Bits make_full_set(std::size_t count) {
  Bits out(count);
  for (std::size_t i = 0; i < count; ++i) out.set(i);
  return out;
}

// Adds one condition at a time until all bad instances are excluded. `weight` is the weight of good
// instances accepted against bad ones excluded.
std::optional<ConditionChoice> choose_conditions(const std::vector<ConditionCandidate>& candidates,
                                                 std::size_t good, std::size_t bad, double weight) {
  ConditionChoice out;
  double penalties = 0;
  auto left_good = make_full_set(good);
  auto left_bad = make_full_set(bad);
  while (left_bad.count() > 0 && out.conditions.size() < kMostConditions) {
    const ConditionCandidate* best = nullptr;
    double best_score = 0;
    const auto goods = static_cast<double>(left_good.count());
    const auto bads = static_cast<double>(left_bad.count());
    for (const auto& c : candidates) {
      auto g = left_good;
      auto b = left_bad;
      const auto accepted = static_cast<double>((g &= c.good).count());
      const auto excluded = bads - static_cast<double>((b &= c.bad).count());
      if (accepted == 0 || excluded == 0) continue;
      const double score = weight * (accepted / goods - c.penalty) + excluded / bads + weight;
      if (score <= best_score) continue;
      best_score = score;
      best = &c;
    }
    if (best == nullptr) return std::nullopt;
    out.conditions.push_back(best->condition);
    penalties += best->penalty;
    left_good &= best->good;
    left_bad &= best->bad;
  }
  if (left_bad.count() > 0) return std::nullopt;
  out.score = static_cast<double>(left_good.count()) / static_cast<double>(good) - penalties;
  return out;
}

}  // namespace

std::optional<std::vector<Expression>> find_separating_conditions(const Rule& rule,
                                                                  std::span<const Instance> good,
                                                                  std::span<const Instance> bad) {
  std::vector<Instance> telling;
  std::ranges::copy_if(good, std::back_inserter(telling),
                       [&](const Instance& i) { return !has_open_degree_of_one(rule, i); });
  if (!telling.empty()) good = telling;
  std::vector<Instance> all(good.begin(), good.end());
  all.insert(all.end(), bad.begin(), bad.end());
  const PreparedInstances asked_good(good);
  const PreparedInstances asked_bad(bad);
  std::vector<ConditionCandidate> candidates;
  for (auto& [condition, penalty] : ConditionWords(rule, all).take()) {
    auto on_good = asked_good.find_holding(condition);
    if (on_good.count() == 0) continue;
    auto on_bad = asked_bad.find_holding(condition);
    if (on_bad.count() == bad.size()) continue;
    candidates.push_back({std::move(condition), penalty, std::move(on_good), std::move(on_bad)});
  }
  // Takes the choice that accepts most good instances, over several weights.
  std::optional<ConditionChoice> best;
  for (const double weight : {1.0, 3.0, 8.0}) {
    auto choice = choose_conditions(candidates, good.size(), bad.size(), weight);
    if (choice && (!best || choice->score > best->score)) best = std::move(choice);
  }
  if (!best) return std::nullopt;
  return std::move(best->conditions);
}

}  // namespace tandem::verify
