#include "plan/chain.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "base/check.h"
#include "base/text.h"
#include "ops/attributes.h"
#include "ops/micro_batches.h"
#include "ops/registry.h"

namespace tandem::plan {

namespace {

using Kind = const ops::OpSpec*;

bool is_split(const ChainLink& link) {
  return link.kind == &ops::kPartition || link.kind == &ops::kReplicate;
}

// Returns whether `merge` undoes `split`.
bool are_inverse(const ChainLink& split, const ChainLink& merge) {
  return (split.kind == &ops::kPartition && merge.kind == &ops::kCombine &&
          split.dim == merge.dim) ||
         (split.kind == &ops::kReplicate && merge.kind == &ops::kUnreplicate);
}

// Returns whether two links differ only in their degrees.
bool are_fusable(const ChainLink& a, const ChainLink& b) {
  return a.kind == b.kind && a.dim == b.dim;
}

// Returns the link's position in the normal form.
std::int64_t get_normal_position(const ChainLink& link) {
  constexpr std::int64_t kDims = 100;
  if (link.kind == &ops::kReduce) return -2;
  if (link.kind == &ops::kUnreplicate) return -1;
  if (link.kind == &ops::kCombine) return link.dim;
  return link.kind == &ops::kPartition ? kDims + link.dim : 2 * kDims;
}

// Returns the name of the reversed rule.
std::string reverse_rule_name(const std::string& rule) {
  constexpr std::string_view kReversed = "-reversed";
  if (rule.ends_with(kReversed)) return rule.substr(0, rule.size() - kReversed.size());
  return rule + std::string(kReversed);
}

// Returns the name of the rule that swaps two links, where `inner` is applied first. Returns
// nullopt if there is none.
std::optional<std::string> find_swap_rule(const ChainLink& inner, const ChainLink& outer) {
  static const std::map<std::pair<Kind, Kind>, std::string> rules = {
      {{&ops::kReplicate, &ops::kPartition}, "swap-partition-replicate"},
      {{&ops::kReduce, &ops::kCombine}, "swap-combine-reduce"},
      {{&ops::kReplicate, &ops::kCombine}, "swap-combine-replicate"},
      {{&ops::kPartition, &ops::kCombine}, "swap-combine-partition"},
      {{&ops::kUnreplicate, &ops::kCombine}, "swap-combine-unreplicate"},
      {{&ops::kPartition, &ops::kUnreplicate}, "swap-unreplicate-partition"},
      {{&ops::kPartition, &ops::kReduce}, "swap-reduce-partition"},
      {{&ops::kReplicate, &ops::kReduce}, "swap-reduce-replicate"},
      {{&ops::kUnreplicate, &ops::kReduce}, "swap-reduce-unreplicate"},
  };
  if (inner.kind == outer.kind) {
    if (inner.kind == &ops::kPartition) return "swap-partitions";
    return inner.kind == &ops::kCombine ? std::optional<std::string>("swap-combines")
                                        : std::nullopt;
  }
  if (const auto at = rules.find({inner.kind, outer.kind}); at != rules.end()) return at->second;
  const auto at = rules.find({outer.kind, inner.kind});
  return at == rules.end() ? std::nullopt : std::optional(reverse_rule_name(at->second));
}

std::string make_fuse_rule_name(const ChainLink& link) {
  return fmt::format("fuse-{}s", link.kind->name);
}

// Converts a chain to its normal form and records the rule steps in both directions.
class Normalizer {
 public:
  explicit Normalizer(Chain chain) : chain_(std::move(chain)) {}

  // Returns false if two links can neither be swapped nor cancelled.
  bool run() {
    drop_sends();
    do {
      if (!sort()) return false;
    } while (cancel_across());
    return true;
  }

  [[nodiscard]] const Chain& chain() const { return chain_; }
  [[nodiscard]] const RuleSteps& forwards() const { return forwards_; }
  [[nodiscard]] RuleSteps backwards() const { return {backwards_.rbegin(), backwards_.rend()}; }

 private:
  // Records a step and its inverse.
  void record_step(RuleStep forwards, RuleStep backwards) {
    forwards_.push_back(std::move(forwards));
    backwards_.push_back(std::move(backwards));
  }

  auto at(std::size_t i) { return chain_.begin() + static_cast<std::ptrdiff_t>(i); }

  void drop_sends() {
    for (std::size_t i = 0; i < chain_.size();) {
      if (chain_[i].kind != &ops::kSend) {
        ++i;
        continue;
      }
      record_step({"send-anywhere", i + 1}, {"send-anywhere-reversed", i});
      chain_.erase(at(i));
    }
  }

  // Fuses two equal kinds of links into one: partition 0 by 2, partition 0 by 3 -> partition 0 by
  // 6.
  void fuse(std::size_t i) {
    const auto rule = make_fuse_rule_name(chain_[i]);
    record_step({rule, i + 2},
                {reverse_rule_name(rule), i + 1, {chain_[i].degree, chain_[i + 1].degree}});
    chain_[i].degree *= chain_[i + 1].degree;
    chain_.erase(at(i + 1));
  }

  // Splits a link into two, the inner one of degree `inner`.
  void split(std::size_t i, std::int64_t inner) {
    const auto rule = make_fuse_rule_name(chain_[i]);
    auto outer = chain_[i];
    outer.degree /= inner;
    record_step({reverse_rule_name(rule), i + 1, {inner, outer.degree}}, {rule, i + 2});
    chain_[i].degree = inner;
    chain_.insert(at(i + 1), outer);
  }

  // Swaps links i and i + 1. Returns false if no rule does that.
  bool swap(std::size_t i) {
    const auto& inner = chain_[i];
    const auto& outer = chain_[i + 1];
    const auto rule = find_swap_rule(inner, outer);
    if (!rule) return false;
    const auto back = inner.kind == outer.kind ? *rule : reverse_rule_name(*rule);
    record_step({*rule, i + 2}, {back, i + 2});
    std::swap(chain_[i], chain_[i + 1]);
    return true;
  }

  // Removes two links of equal degree that undo each other.
  void cancel(std::size_t i) {
    const auto& inner = chain_[i];
    const auto rule = fmt::format("{}-of-{}", chain_[i + 1].kind->name, inner.kind->name);
    std::vector<std::int64_t> choices;
    if (inner.dim >= 0) choices.push_back(inner.dim);
    choices.push_back(inner.degree);
    record_step({rule, i + 2}, {reverse_rule_name(rule), i, choices});
    chain_.erase(at(i), at(i + 2));
  }

  // Removes the common degree of two inverse links. Returns false if there is none.
  bool cancel_common(std::size_t i) {
    const auto common = std::gcd(chain_[i].degree, chain_[i + 1].degree);
    if (common == 1) return false;
    if (chain_[i + 1].degree > common) split(i + 1, common);
    if (chain_[i].degree > common) {
      split(i, chain_[i].degree / common);
      ++i;
    }
    cancel(i);
    return true;
  }

  // Sorts the links by rank and fuses equal kinds. Returns false if that is not possible.
  bool sort() {
    for (std::size_t i = 0; i + 1 < chain_.size();) {
      const auto& inner = chain_[i];
      const auto& outer = chain_[i + 1];
      if (are_fusable(inner, outer)) {
        fuse(i);
      } else if (are_inverse(inner, outer)) {
        if (!cancel_common(i)) return false;
      } else if (get_normal_position(inner) > get_normal_position(outer)) {
        if (!swap(i)) return false;
      } else {
        ++i;
        continue;
      }
      i = 0;
    }
    return true;
  }

  // Cancels one pair of links that make a dimension whole and partition it again, in a sorted
  // chain. Returns whether there was one.
  bool cancel_across() {
    for (std::size_t i = 0; i < chain_.size(); ++i) {
      for (std::size_t j = i + 1; j < chain_.size(); ++j) {
        const bool meet =
            are_inverse(chain_[j], chain_[i]) && std::gcd(chain_[i].degree, chain_[j].degree) > 1;
        if (!meet || is_split(chain_[i])) continue;
        while (i + 1 < j && !is_split(chain_[i + 1])) CHECK(swap(i++));
        while (i + 1 < j) CHECK(swap(--j));
        return cancel_common(i);
      }
    }
    return false;
  }

  Chain chain_;
  RuleSteps forwards_;
  RuleSteps backwards_;  // in the order of the forward steps
};

}  // namespace

ChainLink to_chain_link(const ops::Op& op) {
  if (op.is(ops::kPartition) || op.is(ops::kCombine)) {
    const auto& how = op.get<ops::DimDegree>();
    return {&op.spec(), how.dim, how.degree};
  }
  if (op.is(ops::kPipeline) || op.is(ops::kBatch)) {
    const auto& how = op.get<ops::MicroBatches>();
    return {&op.spec(), how.dim, how.count};
  }
  return {&op.spec(), -1, op.is(ops::kSend) ? 1 : op.get<ops::Degree>().degree};
}

std::string to_text(const Chain& chain) {
  std::vector<std::string> out;
  for (const auto& link : chain) {
    auto text = std::string(link.kind->name);
    if (link.dim >= 0) text += fmt::format(" {} by", link.dim);
    if (link.kind != &ops::kSend) text += fmt::format(" {}", link.degree);
    out.push_back(std::move(text));
  }
  return out.empty() ? "nothing" : join(out, ", ");
}

Chain make_merging_chain(const ParallelShape& shape) {
  Chain out;
  if (shape.partial > 1) out.push_back({&ops::kReduce, -1, shape.partial});
  if (shape.replicas > 1) out.push_back({&ops::kUnreplicate, -1, shape.replicas});
  for (std::size_t d = 0; d < shape.rank(); ++d) {
    if (shape.degrees[d] == 1) continue;
    out.push_back({&ops::kCombine, static_cast<std::int64_t>(d), shape.degrees[d]});
  }
  return out;
}

std::optional<Chain> make_splitting_chain(const ParallelShape& shape) {
  if (shape.partial > 1) return std::nullopt;
  Chain out;
  for (std::size_t d = 0; d < shape.rank(); ++d) {
    if (shape.degrees[d] == 1) continue;
    out.push_back({&ops::kPartition, static_cast<std::int64_t>(d), shape.degrees[d]});
  }
  if (shape.replicas > 1) out.push_back({&ops::kReplicate, -1, shape.replicas});
  return out;
}

std::optional<RuleSteps> find_chain_steps(const Chain& from, const Chain& to) {
  if (from == to) return RuleSteps{};
  Normalizer a(from);
  Normalizer b(to);
  if (!a.run() || !b.run() || a.chain() != b.chain()) return std::nullopt;
  auto out = a.forwards();
  const auto back = b.backwards();
  out.insert(out.end(), back.begin(), back.end());
  return out;
}

}  // namespace tandem::plan
