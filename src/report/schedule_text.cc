#include "report/schedule_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/text.h"
#include "report/digit_text.h"
#include "report/plan_text.h"
#include "report/tensor_names.h"

namespace tandem::report {

namespace {

using machine::DigitMask;

std::string order_text(plan::Order order) {
  switch (order) {
    case plan::Order::kGpipe:
      return "all forward passes, then all backward passes";
    case plan::Order::k1F1B:
      return "forward and backward passes alternate after the warm-up";
    case plan::Order::kInterleaved:
      return "as 1f1b, with several stages on each device";
  }
  CHECK(false);
}

std::string pipeline_sentence(const PlanView& view) {
  const auto& s = view.program.schedule;
  const auto& digits = view.program.digits;
  const auto samples = [&] {
    const bool divides = view.plan.batch % s.micro_batches == 0;
    return divides ? fmt::format(" of {} samples over all data parallel ranks",
                                 view.plan.batch / s.micro_batches)
                   : "";
  };
  if (s.stages == 1) {
    return s.micro_batches == 1
               ? "No pipeline and no micro-batches."
               : fmt::format("No pipeline; {} micro-batches{} run one after another.",
                             s.micro_batches, samples());
  }
  const auto ranks = digits.group_size(s.digits);
  auto out = fmt::format("Pipeline of {} stages", s.stages);
  if (ranks > 1) out += " over " + levels_text(s.digits, view.machine, digits);
  if (s.stages > ranks) out += fmt::format(", {} on each device", s.stages / ranks);
  out += s.micro_batches == 1 ? ", no micro-batches"
                              : fmt::format(", {} micro-batches{}", s.micro_batches, samples());
  return out + fmt::format(". Order {}: {}.", name(s.order), order_text(s.order));
}

// Names, those of equal layers folded into one: "l*.scores x24, ...".
class FoldedNames {
 public:
  void add(const std::string& name) {
    ++total_;
    for (auto& known : names_) {
      if (fold_name(known.first) != fold_name(name)) continue;
      known.first = fold_name(name);
      ++known.second;
      return;
    }
    names_.emplace_back(name, 1);
  }
  [[nodiscard]] std::size_t total() const { return total_; }
  [[nodiscard]] std::string text() const {
    constexpr std::size_t kMost = 6;
    std::vector<std::string> out;
    for (const auto& known : names_) {
      if (out.size() == kMost) {
        out.emplace_back("...");
        break;
      }
      out.push_back(known.second > 1 ? fmt::format("{} x{}", known.first, known.second)
                                     : known.first);
    }
    return join(out, ", ");
  }

 private:
  std::vector<std::pair<std::string, std::size_t>> names_;
  std::size_t total_ = 0;
};

std::string recomputation_sentence(const PlanView& view) {
  FoldedNames names;
  for (const auto& task : view.program.tasks) {
    if (task.recomputed && task.kind == lower::TaskKind::kForward) {
      names.add(view.program.pcg.node(task.node).name);
    }
  }
  if (names.total() == 0) {
    return "No recomputation: everything that the backward pass reads is saved.";
  }
  return fmt::format("The backward pass recomputes the results of {} operator{}: {}.",
                     names.total(), names.total() == 1 ? "" : "s", names.text());
}

// Returns a sentence on the weights that are stored as shards and gathered, if there are any.
std::string storage_sentence(const PlanView& view) {
  const auto& program = view.program;
  std::map<DigitMask, std::size_t> gathered;
  bool again = false;
  bool each = false;  // for each micro-batch
  std::size_t weights = 0;
  std::size_t sharded = 0;
  for (auto id : program.pcg.ids()) weights += is_weight(program.pcg.node(id)) ? 1 : 0;
  for (const auto& task : program.tasks) {
    if (task.kind != lower::TaskKind::kMove || task.step.kind != machine::Step::kAllGather)
      continue;
    const auto& buffer = program.buffer(task.reads[0]);
    if (buffer.kind != lower::BufferKind::kWeight) continue;
    if (task.recomputed) {
      again = true;
    } else {
      ++gathered[task.step.digits];
      ++sharded;
      each = each || (task.when == lower::When::kEach && program.schedule.micro_batches > 1);
    }
  }
  if (gathered.empty()) {
    return "Each device stores the weights that it uses, with their optimizer state.";
  }
  std::vector<std::string> parts;
  parts.reserve(gathered.size());
  for (const auto& entry : gathered) {
    parts.push_back(fmt::format("{} over {}", entry.second,
                                levels_text(entry.first, view.machine, program.digits)));
  }
  return fmt::format(
      "{} of {} weights, and their optimizer state, are sharded: {}. They are gathered {}{}.",
      sharded, weights, join(parts, ", "), each ? "before each forward pass" : "once a step",
      again ? ", and regathered before each backward pass" : "");
}

}  // namespace

std::vector<std::string> describe_schedule(const PlanView& view) {
  const auto& s = view.program.schedule;
  std::vector<std::string> out = {pipeline_sentence(view), recomputation_sentence(view),
                                  storage_sentence(view)};
  if (s.whole_gradients) out.emplace_back("Gradients stay unsharded until the step ends.");
  if (s.micro_batches > 1) {
    out.emplace_back(s.reduce_each ? "Gradients are reduced over devices after each micro-batch."
                                   : "Gradients are reduced over devices once per step.");
  }
  if (s.bucket > Bytes{}) {
    out.push_back(fmt::format("Gradients are reduced over devices in buckets of {}.",
                              format_bytes(s.bucket.value)));
  }
  if (s.ring) {
    out.emplace_back(
        "Rings of devices exchange operands block by block instead of gathering them.");
  }
  if (s.is_delayed()) {
    out.emplace_back(
        "Updates are delayed by one step: gradients use the weights of the previous step.");
  }
  if (is_half(view.plan.dtype)) {
    out.push_back(
        fmt::format("Weights are {} {}; gradients are accumulated in {}.", name(view.plan.dtype),
                    s.precision.master ? "with fp32 master weights" : "without master weights",
                    name(s.precision.gradient(view.plan.dtype))));
  }
  return out;
}

std::vector<std::pair<std::string, std::size_t>> count_derivation_rules(
    const rewrite::Derivation& derivation) {
  std::vector<std::pair<std::string, std::size_t>> out;
  for (const auto& step : derivation) {
    auto at = std::ranges::find(out, step.rule, &std::pair<std::string, std::size_t>::first);
    if (at == out.end()) at = out.insert(at, {step.rule, 0});
    ++at->second;
  }
  return out;
}

std::string rules_text(const std::vector<std::pair<std::string, std::size_t>>& rules) {
  std::vector<std::string> out;
  out.reserve(rules.size());
  for (const auto& rule : rules) {
    out.push_back(rule.second > 1 ? fmt::format("{} x{}", rule.first, rule.second) : rule.first);
  }
  return join(out, ", ");
}

}  // namespace tandem::report
