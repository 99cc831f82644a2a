#include "verify/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <unordered_set>

#include "base/text.h"
#include "rewrite/rule_text.h"
#include "verify/conditions.h"
#include "verify/evaluate.h"
#include "verify/layouts.h"
#include "verify/lower_rank_occurrences.h"
#include "verify/normal_form.h"
#include "verify/properties.h"
#include "verify/random_instances.h"
#include "verify/rule_typer.h"
#include "verify/size_moves.h"
#include "verify/smt.h"

namespace tandem::verify {

namespace {

constexpr int kMostRefinements = 8;
constexpr std::int64_t kCheap = 100;   // elements of an instance that is evaluated without need
constexpr std::size_t kMostBad = 150;  // limit on counterexamples in total
constexpr std::size_t kMostBadOfPattern = 4;  // limit; more of them show nothing new
constexpr std::size_t kShardedTrials = 3;     // instances run on virtual devices
constexpr int kRealDraws = 12;
// Fewer draws of real numbers are enough once the sides differed in the field alone so often.
constexpr int kOftenInField = 6;
constexpr int kFewRealDraws = 2;
constexpr std::int64_t kManyRows = 40;            // largest size if small ones do not decide ...
constexpr std::size_t kManyRowsPatterns = 4;      // ... patterns ...
constexpr std::size_t kManyRowsTrials = 8;        // ... instances of each
constexpr std::size_t kDraws = 3000;              // draws of types beyond the patterns ...
constexpr std::size_t kDrawsOfConditions = 4500;  // ... if a condition was guessed ...
constexpr std::size_t kNewComputed = 80;          // ... evaluated ones that show something new ...
constexpr std::size_t kOthersComputed = 8;        // ... evaluated others, about ...
constexpr std::int64_t kDrawnElements = 150;      // ... elements of these, at most
constexpr std::size_t kRealTrials = 60;           // instances evaluated in real numbers alone ...
constexpr std::size_t kRealTrialsOfEqual = 2;     // ... if forms are equal

std::int64_t count_elements(const Instance& instance) {
  std::int64_t out = 0;
  for (const auto& t : instance.tensors) out += t.shape.sizes.count();
  return out;
}

// Returns the thread's prover. Z3 reads the properties once in each thread.
const SmtProver& get_smt_prover() {
  static thread_local const SmtProver prover(all_properties());
  return prover;
}

// Judges one rule on all its patterns.
class Judge {
 public:
  // Instances at which the sides have the same values, which holds under any condition.
  using Equal = std::unordered_set<Hash>;

  // `draws` is the number of draws of types beyond the patterns.
  Judge(const Rule& rule, const VerifyOptions& options, std::size_t draws, Equal& equal)
      : rule_(rule), options_(options), draws_(draws), equal_(equal), typer_(rule) {}

  void run() {
    patterns_ = find_patterns(rule_, options_.limits);
    verdict_.patterns = patterns_.all.size();
    verdict_.cut = patterns_.cut;
    if (patterns_.all.empty()) return judge_without_sizes();
    const auto each = std::max<std::size_t>(
        1, std::min(options_.small, options_.small_in_all / patterns_.all.size()));
    for (const auto& pattern : patterns_.all) {
      const auto largest =
          pattern.moves.size() > 5 ? std::min<std::int64_t>(options_.largest, 2) : options_.largest;
      const auto small = list_small_instances(rule_, pattern, largest, each, options_.seed);
      if (small.all.empty() || count_elements(pattern.base) <= kCheap) judge(pattern.base);
      verdict_.cut = verdict_.cut || small.cut;
      const auto before = bad_.size();
      for (const auto& instance : small.all) {
        if (bad_.size() < std::min(kMostBad, before + kMostBadOfPattern)) judge(instance);
      }
      // Without conditions to find, one counterexample is as good as many.
      if (!options_.find_conditions && !bad_.empty()) return refute();
    }
    for (const auto& base : patterns_.bases) {
      if (typer_.check_fit(base) == Fit::kBoth) {
        fitting_.push_back(base);
      } else if (bad_.size() < kMostBad) {
        judge(base);
      }
    }
    // If no value refutes the rule, all instances that fit are good ones.
    if (!by_values_ && !bad_.empty()) good_.insert(good_.end(), fitting_.begin(), fitting_.end());
    if (is_parallel(rule_)) judge_shards();
    if (bad_.empty()) {
      for (const auto& instance : find_lower_rank_occurrences(rule_)) judge(instance);
    }
    if (bad_.empty()) {
      prove();
    } else {
      refute();
    }
  }

  // Tries to refute an unproved rule by indices beyond an embedding table. They may show a
  // difference in values, which no condition excludes.
  void refute_beyond_tables() {
    for (std::size_t i = 0; i < std::min(kRealTrials, good_.size()); ++i) {
      refutation_ = find_refutation_beyond_tables(rule_, good_[i], kFewRealDraws, options_.seed);
      if (!refutation_) continue;
      verdict_.reason.clear();
      return refute();
    }
  }

  // Tries to refute an unproved rule by long sums, since some differences show only there.
  void refute_in_long_sums() {
    Hash trial = 0;
    for (std::size_t p = 0; p < std::min(kManyRowsPatterns, patterns_.all.size()); ++p) {
      auto pattern = patterns_.all[p];
      add_moves_of_equal_sizes(rule_, pattern);
      const auto some =
          list_small_instances(rule_, pattern, kManyRows, kManyRowsTrials, options_.seed + 1);
      for (const auto& instance : some.all) {
        if (typer_.check_fit(instance) != Fit::kBoth) continue;
        const auto seed = hash_combine(options_.seed, ++trial);
        refutation_ = find_refutation_by_few_negatives(rule_, instance, kRealDraws, seed);
        if (!refutation_) continue;
        verdict_.reason.clear();
        return refute();
      }
    }
  }

  RuleVerdict verdict_;
  std::vector<Instance> good_;
  std::vector<Instance> bad_;

 private:
  // Judges a rule whose source was found nowhere. A source that is legal nowhere equals anything.
  void judge_without_sizes() {
    const auto illegal =
        is_parallel(rule_) ? find_illegal_node(rule_, options_.limits) : std::nullopt;
    if (illegal) {
      verdict_.proof = {.status = Status::kProved, .prover = std::string(kProvedByLayouts)};
      verdict_.reason = "applies nowhere: no layout fits " + format_source_up_to(*illegal);
      return;
    }
    verdict_.reason = "no sizes were found at which the source fits";
    if (patterns_.condition) {
      verdict_.reason += ": none of what was tried fulfils " +
                         rewrite::to_text(rule_, rule_.conditions[*patterns_.condition]);
    } else if (patterns_.node) {
      verdict_.reason += ": none of what was tried fits " + format_source_up_to(*patterns_.node);
    }
  }

  [[nodiscard]] std::string format_source_up_to(rewrite::PatternId node) const {
    auto side = rule_.source;
    side.outputs = {node};
    return rewrite::to_text(rule_, side);
  }

  void judge(const Instance& instance) {
    ++verdict_.instances;
    if (typer_.check_fit(instance) != Fit::kBoth) {
      if (!refutation_) refutation_ = describe_misfit(rule_, instance);
      bad_.push_back(instance);
      return;
    }
    const auto hash = hash_instance(instance);
    if (equal_.contains(hash)) {
      good_.push_back(instance);
      return;
    }
    Refutation refutation;
    const int draws = in_field_alone_ < kOftenInField ? kRealDraws : kFewRealDraws;
    switch (compare(rule_, instance, draws, options_.seed, &refutation)) {
      case Comparison::kEqual:
        equal_.insert(hash);
        good_.push_back(instance);
        return;
      case Comparison::kDifferentInField:
        ++in_field_alone_;
        if (verdict_.reason.empty()) {
          verdict_.reason =
              to_text(rule_, instance) + ": differs in the field, not seen in real numbers";
        }
        return;
      case Comparison::kDifferent:
        bad_.push_back(instance);
        keep_smaller(std::move(refutation));
    }
  }

  // Retains the refutation with the smallest tensors, and one by values before one by types.
  void keep_smaller(Refutation refutation) {
    const bool better =
        !by_values_ || count_elements(refutation.instance) < count_elements(refutation_->instance);
    if (better) refutation_ = std::move(refutation);
    by_values_ = true;
  }

  void judge_shards() {
    std::size_t trials = 0;
    for (const auto& instance : good_) {
      if (trials == kShardedTrials) return;
      const bool divided = std::ranges::any_of(
          instance.tensors, [](const auto& t) { return !t.shape.is_undivided(); });
      if (trials > 0 && !divided) continue;
      ++trials;
      if (shards_agree(rule_, instance, options_.seed)) continue;
      bad_.push_back(instance);
      refutation_ = {instance, "the shards of a side do not hold what it means"};
      return;
    }
  }

  // Compares normal forms, of the plainest pattern at all draws and of the others at one each. If
  // the forms differ, the sides may still be equal by other laws, so Z3 is asked.
  void prove() {
    bool forms_equal = true;
    for (std::size_t p = 0; p < patterns_.all.size(); ++p) {
      const int draws = p == 0 ? options_.draws : 1;
      for (int d = 0; d < draws; ++d) {
        const auto seed = hash_combine(options_.seed, hash_combine(p, static_cast<Hash>(d)));
        if (!compare_at(patterns_.all[p], seed, forms_equal)) return;
      }
      if (!compare_with_equal_moves(patterns_.all[p], forms_equal)) return;
    }
    if (forms_equal ? refute_by_undefined_target() : refute_in_reals()) return refute();
    if (refute_at_drawn_instances()) return refute();
    if (!forms_equal && !get_smt_prover().prove(rule_, {}, options_.smt).proved) return;
    verdict_.proof = {.status = Status::kProved, .prover = forms_equal ? "normal forms" : "z3"};
    verdict_.reason.clear();
  }

  // Tries occurrences of the source that the patterns lack. Returns whether one refutes the rule.
  bool refute_at_drawn_instances() {
    // Each added condition gives other draws.
    const auto seed = hash_combine(options_.seed, rule_.conditions.size());
    auto near = patterns_.bases;
    near.insert(near.end(), good_.begin(), good_.end());
    auto drawn = draw_instances(rule_, near, draws_, seed);
    // Evaluates the smallest ones of those that show something new, and a few others.
    std::ranges::stable_sort(drawn, {}, count_elements);
    NoveltyFilter seen;
    std::size_t computed = 0;
    std::vector<const Instance*> others;
    for (const auto& instance : drawn) {
      if (bad_.size() == kMostBad) break;
      if (typer_.check_fit(instance) != Fit::kBoth) {
        judge(instance);
      } else if (count_elements(instance) <= kDrawnElements) {
        if (computed < kNewComputed && seen.is_new(instance)) {
          ++computed;
          judge(instance);
        } else {
          others.push_back(&instance);
        }
      }
    }
    for (std::size_t i = 0; i < others.size() && bad_.size() < kMostBad; ++i) {
      const auto every = std::max<std::size_t>(1, others.size() / kOthersComputed);
      if (i % every == 0) judge(*others[i]);
    }
    return !bad_.empty();
  }

  // Tries real operands that may leave the target undefined. In the field x / 0 is 0.
  bool refute_by_undefined_target() {
    if (good_.empty()) return false;
    refutation_ = find_undefined_target(rule_, good_[0], options_.seed);
    if (refutation_) bad_.push_back(good_[0]);
    return refutation_.has_value();
  }

  // Tries real operands, since values of an opaque function may make instances equal in the field.
  bool refute_in_reals() {
    std::vector<Instance> equal;
    Hash trial = 0;
    for (auto& instance : good_) {
      const bool try_it = equal.size() + bad_.size() < kRealTrials && bad_.size() < kMostBad;
      // Each instance gets other numbers, since many may have one element.
      const auto seed = hash_combine(options_.seed, ++trial);
      auto found = try_it ? verify::find_refutation_in_reals(rule_, instance, kFewRealDraws, seed)
                          : std::nullopt;
      if (!found) {
        equal.push_back(std::move(instance));
        continue;
      }
      keep_smaller(std::move(*found));
      bad_.push_back(std::move(instance));
    }
    good_ = std::move(equal);
    return !bad_.empty();
  }

  // Compares forms with moves of symbols that no operator's operands move, such as the sizes of
  // constants. These are small elsewhere, and what is true of small ones alone would be proved.
  // Returns false as compare_at does.
  bool compare_with_equal_moves(const InstancePattern& pattern, bool& forms_equal) {
    auto wider = pattern;
    add_moves_of_equal_sizes(rule_, wider);
    if (wider.moves.size() == pattern.moves.size()) return true;
    if (!find_generic_instance(rule_, wider, options_.seed)) return true;
    return compare_at(wider, options_.seed, forms_equal);
  }

  // Returns false if it settles the matter: the target does not fit, or no large sizes were found.
  bool compare_at(const InstancePattern& pattern, Hash seed, bool& forms_equal) {
    const auto instance = find_generic_instance(rule_, pattern, seed);
    if (!instance) {
      verdict_.reason = "no large sizes were found like " + to_text(rule_, pattern.base);
      return false;
    }
    const auto source = type_side(rule_.source, *instance);
    const auto target = type_side(rule_.target, *instance);
    if (!target || typer_.check_fit(*instance) != Fit::kBoth) {
      refutation_ = describe_misfit(rule_, *instance);
      bad_.push_back(*instance);
      refute();
      return false;
    }
    if (!forms_equal) return true;
    const auto found = compare_forms(*source, *target);
    forms_equal = found.equal;
    if (!found.equal) {
      verdict_.reason = fmt::format("{} at {}", found.reason, to_text(rule_, *instance));
    }
    return true;
  }

  void refute() {
    verdict_.proof = {.status = Status::kRefuted};
    verdict_.reason.clear();
    verdict_.counterexample = to_text(rule_, *refutation_);
  }

  const Rule& rule_;
  VerifyOptions options_;
  std::size_t draws_;
  Equal& equal_;
  RuleTyper typer_;
  Patterns patterns_;
  std::vector<Instance> fitting_;
  std::optional<Refutation> refutation_;
  bool by_values_ = false;
  int in_field_alone_ = 0;
};

std::string format_conditions(const Rule& rule, std::size_t count) {
  std::vector<std::string> parts;
  for (std::size_t c = 0; c < count; ++c) {
    parts.push_back(rewrite::to_text(rule, rule.conditions[c]));
  }
  return join(parts, " and ");
}

void add_conjuncts(const rewrite::Expression& condition, std::vector<rewrite::Expression>& to) {
  if (condition.operation != rewrite::Operation::kAnd) return to.push_back(condition);
  for (const auto& part : condition.operands) add_conjuncts(part, to);
}

// Returns the rule as with_condition() gives it and as a reader parses it, so that it need not be
// judged again. New conditions come first, and parts joined by `and` are listed one by one.
Rule narrow_rule(const Rule& rule, const std::vector<rewrite::Expression>& conditions) {
  auto out = rule;
  out.conditions.clear();
  for (const auto& condition : conditions) add_conjuncts(condition, out.conditions);
  out.conditions.insert(out.conditions.end(), rule.conditions.begin(), rule.conditions.end());
  return out;
}

}  // namespace

RuleVerdict verify(const Rule& rule, const VerifyOptions& options) {
  Judge::Equal equal;
  Judge first(rule, options, kDraws, equal);
  first.run();
  const bool undecided = first.verdict_.proof.status == Status::kUnproved;
  if (undecided) first.refute_beyond_tables();
  if (options.long_sums && first.verdict_.proof.status == Status::kUnproved) {
    first.refute_in_long_sums();
  }
  auto out = first.verdict_;
  if (undecided || out.proof.status != Status::kRefuted || !options.find_conditions) return out;
  // Adds counterexamples that a condition lets through to those that it must exclude.
  auto good = first.good_;
  auto bad = first.bad_;
  for (int i = 0; i < kMostRefinements && !good.empty(); ++i) {
    const auto conditions = find_separating_conditions(rule, good, bad);
    if (!conditions) return out;
    const auto narrowed = narrow_rule(rule, *conditions);
    Judge judge(narrowed, options, kDrawsOfConditions, equal);
    judge.run();
    if (judge.verdict_.proof.status == Status::kProved) {
      const auto counterexample = out.counterexample;
      out = judge.verdict_;
      out.proof.status = Status::kProvedIf;
      out.proof.condition =
          format_conditions(narrowed, narrowed.conditions.size() - rule.conditions.size());
      out.counterexample = counterexample;
      return out;
    }
    if (judge.bad_.empty()) return out;
    good.insert(good.end(), judge.good_.begin(), judge.good_.end());
    bad.insert(bad.end(), judge.bad_.begin(), judge.bad_.end());
  }
  return out;
}

Rule with_condition(const Rule& rule, const RuleVerdict& verdict) {
  if (verdict.proof.status != Status::kProvedIf) return rule;
  Rule plain = rule;
  plain.conditions.clear();
  auto text = rewrite::to_text(plain) + " if " + verdict.proof.condition;
  const auto existing = format_conditions(rule, rule.conditions.size());
  if (!existing.empty()) text += " and " + existing;
  return rewrite::parse_rule(text)[0];
}

}  // namespace tandem::verify
