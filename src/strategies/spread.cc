#include "strategies/spread.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "ops/registry.h"
#include "strategies/packing.h"
#include "strategies/weight_sharding.h"

namespace tandem::strategies {

namespace {

using graph::NodeId;
using machine::bit;
using machine::DigitMask;
using machine::DigitRole;
using machine::Digits;
using machine::DigitUse;
using machine::has_digit;
using machine::Layout;
using machine::NodeLayout;
using ops::FactorId;

// The uses of one operator's digits, assigned one by one. No factor gets more digits than divide
// it.
class Uses {
 public:
  Uses(const ops::Signature& s, const Digits& digits) : signature_(s), digits_(digits) {
    std::fill_n(layout.uses.begin(), digits.count(), DigitUse::kReplica);
  }

  bool assign(std::size_t digit, FactorId f) {
    if (!machine::may_cut_in_shards(signature_, f) ||
        !may_cut_next(signature_, f, layout, digits_, digit)) {
      return false;
    }
    layout.uses[digit] = DigitUse::factor(f);
    return true;
  }

  // Assigns to `f` the digits of `mask` that it can take, from the outermost. Returns them.
  DigitMask assign_all(DigitMask mask, FactorId f) {
    DigitMask taken = 0;
    for (std::size_t i = 0; i < digits_.count(); ++i) {
      if (has_digit(mask, i) && assign(i, f)) taken |= bit(i);
    }
    return taken;
  }

  [[nodiscard]] bool can_take_all(DigitMask mask, FactorId f) const {
    return Uses(*this).assign_all(mask, f) == mask;
  }
  // Returns the factor along which digit `i` would split the dimension. In a composite dimension it
  // is the first factor that can still be split.
  [[nodiscard]] std::optional<FactorId> find_next_factor(const term::Dim& dim,
                                                         std::size_t i) const {
    const auto at = std::ranges::find_if(dim.carriers, [&](FactorId f) {
      return machine::may_cut_next(signature_, f, layout, digits_, i);
    });
    return at == dim.carriers.end() ? std::nullopt : std::optional(*at);
  }

  NodeLayout layout;

 private:
  const ops::Signature& signature_;
  const Digits& digits_;
};

class Spreader {
 public:
  Spreader(const Problem& problem, const std::vector<OperatorDigits>& jobs)
      : problem_(problem),
        model_(problem.model),
        digits_(problem.digits),
        jobs_(jobs),
        split_(model_.size()),
        shared_(model_.size()),
        results_(model_.size()),
        out_(model_.size()) {}

  std::variant<Choices, Refusal> run() {
    find_shared();
    for (auto id : model_.ids()) {
      if (model_.node(id).op.role() != ops::Role::kCompute) continue;
      if (auto refusal = place(id)) return std::move(*refusal);
    }
    place_whole();
    const auto consumers = model_.consumers();
    for (auto id : model_.ids()) {
      if (model_.node(id).op.role() == ops::Role::kSource) store(id, consumers[id.index()]);
    }
    return std::move(out_);
  }

 private:
  std::optional<Refusal> place(NodeId id) {
    const auto n = id.index();
    const auto& node = problem_.nodes[n];
    const auto& job = jobs_[n];
    Uses uses(node.signature, digits_);
    const auto batch = node.batch();
    if (batch && digits_.group_size(job.data) > 1) {
      if (!uses.can_take_all(job.data, *batch)) return make_batch_refusal(id, *batch);
      uses.assign_all(job.data, *batch);
    }
    if (const auto sequence = find_sequence_factor(node); sequence && job.sequence != 0) {
      uses.assign_all(job.sequence, *sequence);
    }
    auto taken = follow(id, job.split, uses);
    if (taken == 0 && problem_.has_own_weights[n]) taken = start(id, job, uses);
    for (std::size_t i = 0; i < digits_.count(); ++i) {
      if (has_digit(taken, i) &&
          node.signature.map.find_output_dim(uses.layout.uses[i].factor()) >= 0) {
        split_[n] |= bit(i);
      }
    }
    // In a split region, leftover digits compute redundantly: any other use would only move
    // tensors.
    if (taken == 0 || job.rest == Rest::kBatch) {
      const auto rest = job.rest == Rest::kBatch      ? batch
                        : job.rest == Rest::kSequence ? find_sequence_factor(node)
                                                      : std::nullopt;
      if (rest) uses.assign_all(job.split & ~taken, *rest);
    }
    out_[n].node = uses.layout;
    results_[n] = compute_output_layout(node.signature, uses.layout, digits_.count());
    return std::nullopt;
  }

  // Finds shared dimensions: several groups of another factor have one element of it in common,
  // here or in a later operator. Such an operator has a composite dimension, (kv g), of the shared
  // factor and one that the tensor lacks.
  void find_shared() {
    for (std::size_t n = model_.size(); n-- > 0;) {
      const NodeId id(n);
      if (model_.node(id).op.role() != ops::Role::kCompute) continue;
      const auto& s = problem_.nodes[n].signature;
      for (std::size_t i = 0; i < s.map.inputs.size(); ++i) {
        auto& shared = shared_[model_.inputs(id)[i].index()];
        for (std::size_t d = 0; d < s.map.inputs[i].size(); ++d) {
          const auto& carriers = s.map.inputs[i][d].carriers;
          if (carriers.size() != 1) continue;
          const int result = s.map.find_output_dim(carriers[0]);
          const bool later = result >= 0 && (shared_[n] >> static_cast<unsigned>(result) & 1U) != 0;
          if (later || has_groups_of(s, carriers[0], i)) shared |= 1U << d;
        }
      }
    }
  }

  static bool has_groups_of(const ops::Signature& s, FactorId f, std::size_t operand) {
    const auto groups = [&](const term::Dim& dim) {
      return dim.carriers.size() > 1 && dim.carriers[0] == f &&
             s.map.find_input_dim(operand, dim.carriers[1]) < 0;
    };
    return std::ranges::any_of(
        s.map.inputs, [&](const term::Dims& dims) { return std::ranges::any_of(dims, groups); });
  }

  // Continues the split of the activations: every digit splits the factor on which all activations
  // are split. Sources do not count. A region ends where some activation is not split, as in a
  // residual's sum. Operands that lack a minor factor of a composite dimension are replicated, such
  // as keys and values of grouped query heads.
  DigitMask follow(NodeId id, DigitMask mask, Uses& uses) const {
    const auto& s = problem_.nodes[id.index()].signature;
    const auto inputs = model_.inputs(id);
    DigitMask taken = 0;
    for (std::size_t i = 0; i < digits_.count(); ++i) {
      if (!has_digit(mask, i)) continue;
      std::optional<FactorId> factor;
      bool agreed = true;
      std::vector<std::size_t> copies;  // operands that are not split
      for (std::size_t operand = 0; operand < inputs.size() && agreed; ++operand) {
        const auto from = inputs[operand];
        if (model_.node(from).op.role() == ops::Role::kSource) continue;
        if (!has_digit(split_[from.index()], i)) {
          copies.push_back(operand);
          continue;
        }
        const auto dim = results_[from.index()][i].dim();
        const auto next = uses.find_next_factor(s.map.inputs[operand][dim], i);
        agreed = next && factor.value_or(*next) == *next;
        if (agreed) factor = next;
      }
      for (auto operand : copies) {
        agreed = agreed && factor && machine::is_minor(s, *factor) &&
                 s.map.find_input_dim(operand, *factor) < 0;
      }
      if (agreed && factor && uses.assign(i, *factor)) taken |= bit(i);
    }
    return taken;
  }

  // Starts to split a layer. kParts uses the first factor that all digits divide, or else several.
  // kColumns uses only the first factor that any digit divides, and the remaining digits replicate
  // it. Example: 12 heads on 8 devices become 4 parts with 2 replicas each. Splitting a head's
  // features into 8 parts instead would make all attention scores partial sums. A shared factor of
  // size 1 is never split further, such as one key head for all query heads.
  DigitMask start(NodeId id, const OperatorDigits& job, Uses& uses) const {
    if (job.split == 0) return 0;
    const auto candidates = list_own_factors(id, job.start);
    if (job.start == Start::kParts) {
      for (auto f : candidates) {
        if (uses.can_take_all(job.split, f)) return uses.assign_all(job.split, f);
      }
      DigitMask taken = 0;
      for (auto f : candidates) taken |= uses.assign_all(job.split & ~taken, f);
      return taken;
    }
    for (auto f : candidates) {
      if (const auto taken = uses.assign_all(job.split, f)) return taken;
      if (is_unsplittable_shared(id, f)) return 0;
    }
    return 0;
  }

  // Returns whether `f` is a shared dimension of size 1.
  [[nodiscard]] bool is_unsplittable_shared(NodeId id, FactorId f) const {
    const auto& map = problem_.nodes[id.index()].signature.map;
    const int result = map.find_output_dim(f);
    return result >= 0 && (shared_[id.index()] >> static_cast<unsigned>(result) & 1U) != 0 &&
           map.factors[f].size == 1;
  }

  // Returns the factors that a layer may be split on first, in order of preference.
  [[nodiscard]] std::vector<FactorId> list_own_factors(NodeId id, Start start) const {
    const auto& s = problem_.nodes[id.index()].signature;
    const auto inputs = model_.inputs(id);
    std::vector<bool> of_weight(s.map.factors.size());
    std::vector<bool> of_activation(s.map.factors.size());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      for (const auto& dim : s.map.inputs[i]) {
        for (auto f : dim.carriers) {
          (is_weight(model_.node(inputs[i])) ? of_weight : of_activation)[f] = true;
        }
      }
    }
    std::vector<FactorId> parts;
    std::vector<FactorId> columns;
    std::vector<FactorId> rows;
    for (const auto& dim : s.map.output) {
      if (dim.carriers.empty()) continue;
      const auto f = dim.carriers[0];
      if (!of_activation[f]) {
        columns.push_back(f);
      } else if (of_weight[f]) {
        parts.push_back(f);
      }
    }
    for (FactorId f = 0; f < of_weight.size(); ++f) {
      if (of_weight[f] && s.map.find_output_dim(f) < 0) rows.push_back(f);
    }
    if (start == Start::kColumns) return columns;
    std::ranges::copy(columns, std::back_inserter(parts));
    std::ranges::copy(rows, std::back_inserter(parts));
    return parts;
  }

  // Places operators that the digits of Rest::kIdle do not split, each at one of their places.
  void place_whole() {
    std::vector<NodeId> nodes;
    std::vector<Load> loads;
    for (auto id : model_.ids()) {
      if (jobs_[id.index()].rest != Rest::kIdle) continue;
      DigitMask whole = 0;
      for (std::size_t i = 0; i < digits_.count(); ++i) {
        const bool is_free = out_[id.index()].node.uses[i] == DigitUse::kReplica;
        if (has_digit(jobs_[id.index()].split, i) && is_free) whole |= bit(i);
      }
      if (whole == 0) continue;
      nodes.push_back(id);
      loads.push_back({problem_.weight_bytes(id), whole});
    }
    const auto ranks = pack(loads, digits_);
    for (std::size_t n = 0; n < nodes.size(); ++n) {
      for (std::size_t i = 0; i < digits_.count(); ++i) {
        if (!has_digit(loads[n].whole, i)) continue;
        const auto place = digits_.coordinate_of_rank(ranks[n], loads[n].whole, i);
        out_[nodes[n].index()].node.uses[i] = DigitUse::idle(place);
      }
    }
  }

  // Lays out a source as its first reader needs it, sharded if the reader's job says so.
  void store(NodeId id, const std::vector<NodeId>& users) {
    auto& layout = out_[id.index()].source;
    if (users.empty()) {
      layout = Layout(digits_.count(), DigitRole::kReplica);
      return;
    }
    const auto user = users[0];
    const auto inputs = model_.inputs(user);
    const auto at = std::ranges::find(inputs, id);
    layout = compute_input_layout(problem_.nodes[user.index()].signature, out_[user.index()].node,
                                  digits_.count(), static_cast<std::size_t>(at - inputs.begin()));
    if (is_weight(model_.node(id))) {
      layout = shard_weight(layout, model_.node(id).type.shape.sizes, jobs_[user.index()].stored,
                            digits_);
    }
  }

  [[nodiscard]] Refusal make_batch_refusal(NodeId id, FactorId batch) const {
    const auto& node = model_.node(id);
    const auto& s = problem_.nodes[id.index()].signature;
    const auto devices = digits_.group_size(jobs_[id.index()].data);
    const auto place = fmt::format("{} %{}", node.op.name(), node.name);
    if (!machine::may_cut_in_shards(s, batch)) {
      return {fmt::format("{} requires the whole batch", place),
              suggest_norm_groups(node, s.map.factors[batch].size, devices)};
    }
    const auto size = s.map.factors[batch].size;
    if (is_whole_batch(id, batch)) {
      const auto nearest = std::max<std::int64_t>(1, (size + devices / 2) / devices) * devices;
      return {fmt::format("the batch size {} is not divisible by {} devices", size, devices),
              fmt::format("use --batch {}", nearest)};
    }
    const auto samples = model_.node(model_.inputs(id)[0]).type.shape.sizes[0];
    const auto groups = std::max<std::int64_t>(1, (size + devices / 2) / devices) * devices;
    const auto smaller = suggest_norm_groups(node, samples, devices);
    return {
        fmt::format("{} processes the batch in {} groups, which are not divisible by {} devices",
                    place, size, devices),
        fmt::format("use --batch {}, or smaller groups{}", groups * (samples / size),
                    smaller.empty() ? "" : ": " + smaller)};
  }

  // Suggests batch norm groups that fit on one device each; empty if there are none.
  [[nodiscard]] static std::string suggest_norm_groups(const graph::Node& node,
                                                       std::int64_t samples, std::int64_t devices) {
    if (!node.op.is(ops::kBatchNorm) || samples % devices != 0) return {};
    return fmt::format("bn_group={}", samples / devices);
  }

  // Returns whether the factor is the whole batch, and not groups of samples.
  [[nodiscard]] bool is_whole_batch(NodeId id, FactorId batch) const {
    const auto& s = problem_.nodes[id.index()].signature;
    const int dim = s.map.find_input_dim(0, batch);
    return dim < 0 ||
           s.map.inputs[0][static_cast<std::size_t>(dim)].size == s.map.factors[batch].size;
  }

  const Problem& problem_;
  const graph::Graph& model_;
  const Digits& digits_;
  const std::vector<OperatorDigits>& jobs_;
  std::vector<DigitMask> split_;  // by node: digits that split its tensor, without the batch
  std::vector<unsigned> shared_;  // by node, one bit per dimension
  std::vector<Layout> results_;   // by node
  Choices out_;
};

}  // namespace

std::variant<Choices, Refusal> spread(const Problem& problem,
                                      const std::vector<OperatorDigits>& jobs) {
  return Spreader(problem, jobs).run();
}

DigitMask find_dividing_digits(const Digits& digits, DigitMask among, std::int64_t size) {
  DigitMask mask = 0;
  for (std::size_t i = digits.count(); i-- > 0;) {
    if (!has_digit(among, i) || size % digits[i].size != 0) continue;
    mask |= bit(i);
    size /= digits[i].size;
  }
  return mask;
}

}  // namespace tandem::strategies
