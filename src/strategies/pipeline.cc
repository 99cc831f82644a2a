#include "strategies/pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/divisor.h"
#include "ops/registry.h"
#include "strategies/recomputation.h"
#include "strategies/stages.h"

namespace tandem::strategies {

namespace {

using machine::DigitMask;
using machine::DigitRole;
using machine::Digits;
using machine::DigitUse;
using machine::has_digit;
using machine::Layout;

bool regathers_weights(const Setting& s) {
  return s.family == Family::kFsdp || s.family == Family::kMadmax || s.zero == 3;
}

bool reduces_each_micro_batch(const Setting& s) { return regathers_weights(s) || s.zero == 2; }

void mark_recomputed(const Setting& setting, const Problem& problem, Choices& choices) {
  if (setting.recompute != Recompute::kNone) {
    const auto again = find_recomputed(setting.recompute, problem);
    for (std::size_t n = 0; n < choices.size(); ++n) choices[n].recompute = again[n];
  }
  // Megatron saves sequence-sharded activations for backward and regathers them.
  if (setting.sp) {
    for (auto& choice : choices) choice.regather = true;
  }
  if (!regathers_weights(setting)) return;
  for (auto id : problem.model.ids()) {
    if (is_weight(problem.model.node(id))) choices[id.index()].recompute = true;
  }
}

void put_in_stages(const Digits& digits, DigitMask ranks, const std::vector<std::uint16_t>& stage,
                   Choices& choices) {
  const auto count = digits.group_size(ranks);
  for (std::size_t n = 0; n < choices.size(); ++n) {
    auto& choice = choices[n];
    choice.stage = stage[n];
    for (std::size_t i = 0; i < digits.count(); ++i) {
      if (!has_digit(ranks, i)) continue;
      const auto place = digits.coordinate_of_rank(stage[n] % count, ranks, i);
      choice.node.uses[i] = DigitUse::idle(place);
      if (choice.source.count() > 0) choice.source.set(i, DigitRole::idle(place));
    }
  }
}

// Puts the digit of the micro-batches before the others.
class MicroBatchCutter {
 public:
  MicroBatchCutter(const Problem& problem, std::int64_t micro_batches)
      : problem_(problem), digits_(problem.digits), micro_batches_(micro_batches) {}

  std::optional<Refusal> cut(Choices& choices) const {
    for (auto id : problem_.model.ids()) {
      auto& choice = choices[id.index()];
      const auto& node = problem_.model.node(id);
      if (node.op.role() == ops::Role::kCompute) {
        if (auto refusal = cut_operator(id, choice)) return refusal;
      }
    }
    const auto consumers = problem_.model.consumers();
    for (auto id : problem_.model.ids()) {
      if (problem_.model.node(id).op.role() == ops::Role::kSource) {
        cut_source(id, consumers[id.index()], choices);
      }
    }
    return std::nullopt;
  }

 private:
  std::optional<Refusal> cut_operator(graph::NodeId id, plan::Choice& choice) const {
    const auto& node = problem_.nodes[id.index()];
    const auto batch = node.batch();
    auto& uses = choice.node.uses;
    std::int64_t degree = micro_batches_;
    for (std::size_t i = 0; batch && i < digits_.count(); ++i) {
      if (uses[i] == DigitUse::factor(*batch)) degree *= digits_[i].size;
    }
    std::copy_backward(uses.begin(), uses.begin() + static_cast<std::ptrdiff_t>(digits_.count()),
                       uses.begin() + static_cast<std::ptrdiff_t>(digits_.count()) + 1);
    uses[0] = batch ? DigitUse::factor(*batch) : DigitUse::kReplica;
    if (!batch) return std::nullopt;
    const auto size = node.signature.map.factors[*batch].size;
    const bool may_cut =
        machine::may_cut(node.signature, *batch) && !machine::is_minor(node.signature, *batch);
    if (may_cut && size % degree == 0) return std::nullopt;
    if (!may_cut) return make_whole_batch_refusal(problem_.model.node(id), size, degree);
    const auto devices = degree / micro_batches_;
    const auto nearest =
        size % devices == 0 ? find_nearest_divisor(size / devices, micro_batches_) : 1;
    return Refusal{fmt::format("batch {} is not divisible by {} micro-batches x {} devices (%{})",
                               size, micro_batches_, devices, problem_.model.node(id).name),
                   fmt::format("the nearest possible value is micro={}", nearest)};
  }

  // Suggests smaller groups for a batch normalization, which can be split between its groups.
  [[nodiscard]] Refusal make_whole_batch_refusal(const graph::Node& node, std::int64_t size,
                                                 std::int64_t degree) const {
    const bool has_groups = node.op.is(ops::kBatchNorm) && size % degree == 0;
    return {fmt::format("{} %{} requires the whole batch, not {} micro-batches", node.op.name(),
                        node.name, micro_batches_),
            has_groups ? fmt::format("use micro=1, or smaller groups: bn_group={}", size / degree)
                       : "use micro=1"};
  }

  // Splits an input into micro-batches if its readers need it so.
  void cut_source(graph::NodeId id, const std::vector<graph::NodeId>& users,
                  Choices& choices) const {
    const auto& old = choices[id.index()].source;
    Layout layout(digits_.count() + 1, DigitRole::kReplica);
    for (std::size_t i = 0; i < digits_.count(); ++i) layout.set(i + 1, old[i]);
    if (!users.empty() && !is_weight(problem_.model.node(id))) {
      const auto user = users[0];
      const auto inputs = problem_.model.inputs(user);
      const auto operand = static_cast<std::size_t>(std::ranges::find(inputs, id) - inputs.begin());
      const auto wanted =
          compute_input_layout(problem_.nodes[user.index()].signature, choices[user.index()].node,
                               digits_.count() + 1, operand);
      layout.set(0, wanted[0]);
    }
    choices[id.index()].source = layout;
  }

  const Problem& problem_;
  const Digits& digits_;
  std::int64_t micro_batches_;
};

}  // namespace

std::optional<DigitMask> find_rank_digits(const Digits& digits, std::int64_t pp) {
  DigitMask out = 0;
  for (std::size_t i = 0; i < digits.count() && pp > 1; ++i) {
    if (pp % digits[i].size != 0 || digits[i].size > DigitRole::kPlaces) continue;
    out |= machine::bit(i);
    pp /= digits[i].size;
  }
  if (pp > 1) return std::nullopt;
  return out;
}

std::int64_t choose_micro_batches(const Problem& problem, std::int64_t dp, std::int64_t pp) {
  // The size that every operator can be split into. A batch norm can only be split between its
  // groups.
  std::int64_t batch = 0;
  for (const auto& n : problem.nodes) {
    if (n.batch()) batch = std::gcd(batch, n.signature.map.factors[*n.batch()].size);
  }
  batch /= dp;
  constexpr std::int64_t kPerStage = 8;
  for (auto n = std::min(batch, kPerStage * pp); n > 1; --n) {
    if (batch % n == 0 && n % pp == 0) return n;
  }
  return 1;
}

std::variant<StrategyStep, Refusal> make_step(const Setting& setting, const Problem& problem,
                                              Choices choices, const std::vector<double>& load,
                                              const std::vector<double>& pace) {
  StrategyStep out{std::move(choices), {}};
  mark_recomputed(setting, problem, out.choices);
  auto& schedule = out.schedule;
  const auto micro = setting.micro.value_or(1);
  schedule.micro_batches = micro;
  schedule.stages = setting.pp * setting.interleave;
  schedule.reduce_each = reduces_each_micro_batch(setting);
  schedule.whole_gradients = setting.zero == 1;
  schedule.bucket = setting.bucket;
  schedule.ring = setting.ring;
  schedule.order = setting.order;
  if (setting.interleave > 1) schedule.order = plan::Order::kInterleaved;
  if (setting.stale) schedule.semantics = plan::Semantics::kDelayed1;
  if (schedule.stages > 1) {
    const auto ranks = find_rank_digits(problem.digits, setting.pp);
    CHECK(ranks.has_value(), setting.pp);
    const auto stage = assign_stages(problem, schedule.stages, *ranks, load, setting.ends, pace);
    if (!stage && setting.ends) {
      return Refusal{fmt::format("the layers cannot be divided into {} stages with these ends",
                                 schedule.stages),
                     "use fewer stages, or smaller numbers in ends"};
    }
    if (!stage) {
      return Refusal{fmt::format("{} can be split into at most {} stages", problem.model.name(),
                                 find_cuts(problem).size()),
                     ""};
    }
    if (setting.interleave > 1 && micro % setting.pp != 0) {
      return Refusal{
          fmt::format("{} micro-batches cannot be interleaved over {} stages", micro, setting.pp),
          fmt::format("use a micro that is a multiple of {}", setting.pp)};
    }
    if (setting.stale && micro < setting.pp) {
      return Refusal{
          fmt::format("delayed updates are impossible with {} micro-batches over {} stages", micro,
                      setting.pp),
          fmt::format("use micro={} or more", setting.pp)};
    }
    put_in_stages(problem.digits, *ranks, *stage, out.choices);
    schedule.digits = *ranks;
  }
  if (micro == 1) return out;
  if (auto refusal = MicroBatchCutter(problem, micro).cut(out.choices)) return std::move(*refusal);
  schedule.digits <<= 1U;  // after the digit of the micro-batches
  return out;
}

}  // namespace tandem::strategies
