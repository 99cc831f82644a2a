#include "verify/lower_rank_occurrences.h"

#include <algorithm>
#include <iterator>

namespace tandem::verify {

namespace {

using rewrite::Expression;
using rewrite::Operation;

// Per tensor, the least rank that has all dimensions named by number; 0 if none are named.
using Ranks = std::vector<std::int64_t>;

void raise_ranks(Ranks& ranks, const Expression& asked) {
  rewrite::for_each_part(asked, [&](const Expression& part) {
    if (part.operation != Operation::kDim || part.operands[0].operation != Operation::kLiteral) {
      return;
    }
    const auto* d = std::get_if<std::int64_t>(&part.operands[0].literal);
    auto& rank = ranks[part.variables[0]];
    if (d != nullptr) rank = std::max(rank, *d + 1);
  });
}

Ranks compute_required_ranks(const Rule& rule, const rewrite::Side& side) {
  Ranks out(rule.tensors.size());
  for (const auto& node : side.nodes) {
    for (const auto& attribute : node.attributes) raise_ranks(out, attribute);
  }
  return out;
}

Expression make_rank_condition(std::size_t tensor, std::int64_t rank) {
  Expression left{.operation = Operation::kRank, .variables = {static_cast<std::uint16_t>(tensor)}};
  return rewrite::make_expression(Operation::kEqual, std::move(left), Expression{.literal = rank});
}

// Returns the first occurrences found with the given rank of `tensor`. Fixing all ranks keeps the
// search short, as it then tries only sizes.
std::vector<Instance> find_first_occurrences(const Rule& rule, std::size_t tensor,
                                             std::int64_t rank) {
  constexpr PatternLimits kFew{.patterns = 1, .bases = 4, .tries = 3000};
  constexpr std::int64_t kRanks = 3;
  constexpr std::int64_t kMost = 27;  // limit on combinations of ranks
  std::int64_t count = 1;
  for (std::size_t t = 1; t < rule.tensors.size() && count < kMost; ++t) count *= kRanks;
  for (std::int64_t n = 0; n < std::min(count, kMost); ++n) {
    auto narrowed = rule;
    auto rest = n;
    for (std::size_t t = 0; t < rule.tensors.size(); ++t) {
      narrowed.conditions.push_back(make_rank_condition(t, t == tensor ? rank : rest % kRanks + 1));
      if (t != tensor) rest /= kRanks;
    }
    auto found = find_patterns(narrowed, kFew).bases;
    if (!found.empty()) return found;
  }
  return {};
}

}  // namespace

std::vector<Instance> find_lower_rank_occurrences(const Rule& rule) {
  auto known = compute_required_ranks(rule, rule.source);
  for (const auto& condition : rule.conditions) raise_ranks(known, condition);
  const auto asked = compute_required_ranks(rule, rule.target);
  std::vector<Instance> out;
  for (std::size_t t = 0; t < asked.size(); ++t) {
    for (auto rank = std::max<std::int64_t>(1, known[t]); rank < asked[t]; ++rank) {
      std::ranges::move(find_first_occurrences(rule, t, rank), std::back_inserter(out));
    }
  }
  return out;
}

}  // namespace tandem::verify
