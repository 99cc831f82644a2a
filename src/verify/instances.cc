#include "verify/instances.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "verify/candidate_types.h"
#include "verify/rule_typer.h"
#include "verify/search_steps.h"
#include "verify/size_moves.h"
#include "verify/symbol_values.h"
#include "verify/type_hints.h"

namespace tandem::verify {

namespace {

using TypeId = TypeTable::TypeId;

constexpr std::array<std::size_t, 4> kRanks = {2, 3, 1, 4};
constexpr int kMostDeviations = 3;
constexpr int kOfBasesAlone = 10;  // deviations from here on make bases but no patterns
constexpr std::size_t kMostFound = 10000;
constexpr std::int64_t kMostPadding = 3;

class PatternSearch {
 public:
  PatternSearch(const Rule& rule, const PatternLimits& limits)
      : rule_(rule),
        limits_(limits),
        parallel_(is_parallel(rule)),
        index_(find_index_variables(rule)),
        said_(find_fixed_sizes(rule)),
        values_(find_symbol_values(rule)),
        degrees_(parallel_ ? find_named_degrees(rule) : std::vector<std::int64_t>{}),
        unusual_(compute_unusual_divisor()),
        plan_(plan_search(rule, values_)),
        variables_(static_cast<std::size_t>(
            std::ranges::count_if(rule.source.nodes, &rewrite::PatternNode::is_variable))),
        types_(rule.source.nodes.size()),
        tensor_ids_(rule.tensors.size()),
        tensors_(rule.tensors.size(), nullptr) {
    current_.tensors.resize(rule.tensors.size());
    current_.symbols.resize(rule.symbols.size());
    operators_.reserve(rule.source.nodes.size());
    for (const auto& node : rule.source.nodes) operators_.emplace_back(node);
  }

  Patterns run() {
    const auto sizes = list_base_sizes();
    for (auto size : sizes) {
      try_deviations({size, {1}, list_counts()}, 0);
      if (found_.empty()) continue;
      for (int k = 1; k <= (parallel_ ? 4 : 2); ++k) try_deviations({size, {1}, list_counts()}, k);
      if (size == 1) try_sizes_next_to_ones(sizes);
      if (!parallel_) try_halves(size);
      break;
    }
    // Tries a few other sizes first, then padded ones, of which there are many.
    for (const bool padded : {false, true}) {
      tried_ = 0;
      for (int k = 1; k <= kMostDeviations && found_.empty(); ++k) try_unequal_sizes(k, padded);
    }
    if (found_.empty() && parallel_) try_combining_twice();
    return select_patterns();
  }

 private:
  [[nodiscard]] std::vector<std::int64_t> list_base_sizes() const {
    if (unusual_ > 1) return {2 * unusual_, unusual_, 4 * unusual_, 4, 12, 2, 3, 6, 1, 5};
    if (parallel_ || !rule_.symbols.empty()) return {4, 12, 2, 3, 6, 1, 5};
    return {2, 4, 3, 12, 6, 1, 5};
  }

  void try_deviations(CandidateTypes candidates, int deviations) {
    deviations_ = deviations;
    try_sizes(std::move(candidates), deviations);
  }

  void try_sizes(CandidateTypes candidates, int deviations) {
    candidates_ = &candidates;
    visit(0, deviations, variables_);
    candidates_ = nullptr;
  }

  [[nodiscard]] std::vector<std::int64_t> list_counts() const {
    if (!parallel_) return {};
    auto out = degrees_;
    if (std::ranges::count(out, 2) == 0) out.insert(out.begin(), 2);
    return out;
  }

  // Returns the least common multiple of the named degrees. Returns 1 if it divides 4, as it then
  // fits the usual sizes, or if it is large.
  [[nodiscard]] std::int64_t compute_unusual_divisor() const {
    constexpr std::int64_t kMost = 64;
    std::int64_t out = 1;
    for (auto n : degrees_) {
      if (n <= kMost) out = std::lcm(out, n);
      if (out > kMost) return 1;
    }
    return out <= 4 && 4 % out == 0 ? 1 : out;
  }

  // Tries one tensor that is half or twice as long as the others, such as a concatenation next to a
  // tensor as long as both inputs. They become bases only, as many as are found soon.
  void try_halves(std::int64_t size) {
    constexpr std::size_t kTries = 1500;
    const bool cut = cut_;
    tried_ = limits_.tries - std::min(kTries, limits_.tries);
    for (int k = 1; k <= 2; ++k) {
      deviations_ = kOfBasesAlone + k;
      try_sizes({size, {size * 2, std::max<std::int64_t>(1, size / 2)}, {}}, k);
    }
    cut_ = cut;
  }

  // Tries other sizes next to some of 1, since a source that fits with all sizes 1 mostly fits
  // there, too. In tensors of one element everything is equal, so a condition that only these
  // fulfil would be proved.
  void try_sizes_next_to_ones(const std::vector<std::int64_t>& sizes) {
    const auto found = found_.size();
    for (auto size : sizes) {
      if (size == 1) continue;
      for (int k = 1; k <= 2; ++k) try_deviations({size, {1}, list_counts()}, k);
      if (found_.size() > found) return;
    }
  }

  // Tries a source that combines its input twice.
  void try_combining_twice() {
    tried_ = 0;
    for (int k = 1; k <= kMostDeviations && found_.empty(); ++k) {
      for (std::int64_t size : {4, 8}) try_deviations({size, {}, {2, 4}}, k);
    }
  }

  // Tries unequal sizes, if no equal ones fit: a kernel next to its image, parts next to wholes.
  void try_unequal_sizes(int deviations, bool padded) {
    for (std::int64_t size : {4, 12, 6, 3, 2}) {
      std::set<std::int64_t> others = {1, size / 2, size * 2, size * 3};
      for (auto literal : list_literals(rule_)) {
        others.insert(literal);
        // Sizes that are padded by the literal on one side, or on both.
        if (padded && literal <= kMostPadding) {
          others.insert({size + literal, size + 2 * literal});
        }
      }
      for (const auto& node : rule_.source.nodes) {
        if (!node.inputs.empty())
          others.insert(size * static_cast<std::int64_t>(node.inputs.size()));
      }
      others.erase(size);
      try_deviations({size, {others.begin(), others.end()}, list_counts()}, deviations);
      if (!found_.empty()) return;
    }
  }

  void visit(std::size_t step, int left, std::size_t tensors_left) {
    if (tried_ > limits_.tries) {
      cut_ = true;
      return;
    }
    ++tried_;
    farthest_ = std::max(farthest_, step);
    if (step == plan_.size()) {
      if (left == 0 && found_.size() < kMostFound) found_.push_back({current_, {}, deviations_});
      return;
    }
    const auto which = plan_[step].which;
    switch (plan_[step].kind) {
      case SearchStep::StepSubject::kTensor:
        return visit_tensor(step, left, tensors_left);
      case SearchStep::StepSubject::kSymbol:
        for (const auto& value : values_[which]) {
          current_.symbols[which] = value;
          visit(step + 1, left, tensors_left);
        }
        current_.symbols[which].reset();
        return;
      case SearchStep::StepSubject::kNode:
        return visit_node(step, left, tensors_left);
      case SearchStep::StepSubject::kCondition:
        if (rewrite::holds(rule_.conditions[which], {tensors_, current_.symbols})) {
          visit(step + 1, left, tensors_left);
        }
    }
  }

  void visit_choices(std::size_t step, int left, std::size_t tensors_left) {
    const auto& [kind, node, symbols, choices] = plan_[step];
    inputs_.clear();
    for (auto i : rule_.source.nodes[node].inputs) inputs_.push_back(types_[i]);
    for (const auto& choice : choices->find_fitting(inputs_)) {
      for (std::size_t s = 0; s < symbols.size(); ++s) {
        current_.symbols[symbols[s]] = values_[symbols[s]][choice.values[s]];
      }
      types_[node] = choice.type;
      visit(step + 1, left, tensors_left);
    }
    for (auto s : symbols) current_.symbols[s].reset();
  }

  // Does the work of NodeChoices if values depend on others.
  void visit_node(std::size_t step, int left, std::size_t tensors_left) {
    const auto node = plan_[step].which;
    const auto& symbols = plan_[step].symbols;
    if (plan_[step].choices != nullptr) return visit_choices(step, left, tensors_left);
    const auto visit_if_typed = [&] {
      if (!type_node(node)) return false;
      visit(step + 1, left, tensors_left);
      return true;
    };
    for (auto s : symbols) current_.symbols[s] = values_[s][0];
    visit_if_typed();
    std::vector<std::vector<const Value*>> fit(symbols.size());
    for (std::size_t i = 0; i < symbols.size(); ++i) {
      const auto& values = values_[symbols[i]];
      for (std::size_t v = 1; v < values.size(); ++v) {
        current_.symbols[symbols[i]] = values[v];
        if (visit_if_typed()) fit[i].push_back(&values[v]);
      }
      current_.symbols[symbols[i]] = values[0];
    }
    for (std::size_t i = 0; i < symbols.size(); ++i) {
      for (std::size_t j = i + 1; j < symbols.size(); ++j) {
        // Two other values may fit together, even if neither fits with the first values.
        visit_pairs(symbols[i], symbols[j], fit[i], fit[j], visit_if_typed);
      }
    }
    for (auto s : symbols) current_.symbols[s].reset();
  }

  template <class Visit>
  void visit_pairs(std::size_t a, std::size_t b, const std::vector<const Value*>& of_a,
                   const std::vector<const Value*>& of_b, Visit&& visit_if_typed) {
    for (const auto* x : of_a) {
      current_.symbols[a] = *x;
      for (const auto* y : of_b) {
        current_.symbols[b] = *y;
        visit_if_typed();
      }
    }
    current_.symbols[a] = values_[a][0];
    current_.symbols[b] = values_[b][0];
  }

  void visit_tensor(std::size_t step, int left, std::size_t tensors_left) {
    const auto which = plan_[step].which;
    tensors_[which] = &current_.tensors[which];
    const auto& said = said_[which];
    for (auto rank : kRanks) {
      if (said.rank != 0 && said.rank != rank) continue;
      for (int k = tensors_left == 1 ? left : 0; k <= left; ++k) {
        for (const auto& candidate : candidates_->get_types(rank, k, index_[which], said)) {
          current_.tensors[which] = candidate.type;
          tensor_ids_[which] = candidate.id;
          visit(step + 1, left - k, tensors_left - 1);
        }
      }
    }
    tensors_[which] = nullptr;
  }

  bool type_node(std::size_t n) {
    const auto& node = rule_.source.nodes[n];
    if (node.is_variable()) {
      types_[n] = tensor_ids_[node.variable];
      return true;
    }
    const auto& op = operators_[n].get_op({tensors_, current_.symbols});
    if (!op) return false;
    inputs_.clear();
    for (auto i : node.inputs) inputs_.push_back(types_[i]);
    types_[n] = TypeTable::get_thread_local().infer_result_type(*op, inputs_);
    return types_[n] != TypeTable::kNone;
  }

  // Orders the patterns: plain ones first, then those of equal ranks, the rest at random.
  Patterns select_patterns() {
    const auto key = [](const InstancePattern& p) {
      std::set<std::size_t> ranks;
      Hash h = 0;
      for (const auto& t : p.base.tensors) {
        ranks.insert(t.shape.rank());
        h = hash_combine(h, t.shape.rank());
        for (auto n : t.shape.sizes) h = hash_combine(h, static_cast<Hash>(n));
      }
      for (const auto& s : p.base.symbols) h = hash_combine(h, rewrite::compute_hash(*s));
      return std::tuple(p.deviations, ranks.size(), h);
    };
    std::vector<std::pair<decltype(key(InstancePattern{})), std::size_t>> order;
    order.reserve(found_.size());
    for (std::size_t i = 0; i < found_.size(); ++i) order.emplace_back(key(found_[i]), i);
    std::ranges::sort(order);
    Patterns out{.all = {}, .bases = {}, .cut = cut_};
    if (found_.empty() && farthest_ < plan_.size()) {
      const auto& last = plan_[farthest_];
      if (last.kind == SearchStep::StepSubject::kNode)
        out.node = static_cast<rewrite::PatternId>(last.which);
      if (last.kind == SearchStep::StepSubject::kCondition) out.condition = last.which;
    }
    for (const auto& [unused, i] : order) {
      if (out.bases.size() < limits_.bases) out.bases.push_back(found_[i].base);
    }
    for (const auto& [unused, i] : order) {
      if (found_[i].deviations > kOfBasesAlone) break;
      if (out.all.size() == limits_.patterns) {
        out.cut = true;
        break;
      }
      find_moves(rule_, found_[i]);
      if (!has_only_movable_ones(found_[i])) out.all.push_back(std::move(found_[i]));
    }
    return out;
  }

  // Returns whether the pattern has sizes of 1 and all of them may move. It is then no pattern of
  // its own.
  static bool has_only_movable_ones(const InstancePattern& pattern) {
    if (pattern.deviations == 0) return false;
    std::size_t at = 0;
    bool any = false;
    for (const auto& type : pattern.base.tensors) {
      if (!type.shape.is_undivided()) return false;
      for (auto n : type.shape.sizes) {
        const bool moves =
            std::ranges::any_of(pattern.moves, [&](const Move& m) { return m[at] != 0; });
        if (n == 1 && !moves) return false;
        any = any || n == 1;
        ++at;
      }
    }
    return any;
  }

  const Rule& rule_;
  PatternLimits limits_;
  bool parallel_;
  std::vector<bool> index_;
  std::vector<Said> said_;  // by tensor variable
  std::vector<std::vector<Value>> values_;
  std::vector<std::int64_t> degrees_;  // named by the rule
  std::int64_t unusual_ = 1;
  std::vector<SearchStep> plan_;
  std::size_t variables_;                // number of variables among the source's nodes
  std::vector<NodeOperator> operators_;  // by node
  std::vector<TypeId> types_;            // by node
  std::vector<TypeId> tensor_ids_;       // by tensor variable
  std::vector<TypeId> inputs_;
  std::vector<const TensorType*> tensors_;
  Instance current_;
  CandidateTypes* candidates_ = nullptr;
  int deviations_ = 0;
  std::vector<InstancePattern> found_;
  std::size_t tried_ = 0;
  std::size_t farthest_ = 0;  // last step that was reached
  bool cut_ = false;
};

}  // namespace

bool is_parallel(const Rule& rule) {
  const auto parallel = [](const rewrite::PatternNode& node) {
    return !node.is_variable() &&
           (node.spec->role == ops::Role::kParallel || node.spec->role == ops::Role::kJoin);
  };
  return std::ranges::any_of(rule.source.nodes, parallel) ||
         std::ranges::any_of(rule.target.nodes, parallel);
}

Patterns find_patterns(const Rule& rule, const PatternLimits& limits) {
  return PatternSearch(rule, limits).run();
}

}  // namespace tandem::verify
