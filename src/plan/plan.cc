#include "plan/plan.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "machine/node_layout.h"
#include "ops/signature.h"

namespace tandem::plan {

namespace {

using machine::DigitRole;
using machine::Digits;
using machine::Layout;

[[noreturn]] void fail(const graph::Node& node, const std::string& message) {
  throw UserError("plan", fmt::format("{} %{}", node.op.name(), node.name), message);
}

void check_layout(const graph::Node& node, const Layout& layout, const Digits& digits) {
  if (layout.count() != digits.count()) {
    fail(node, fmt::format("layout '{}' has {} digits, but the machine has {}", to_text(layout),
                           layout.count(), digits.count()));
  }
  const auto shape = compute_parallel_shape(layout, node.type.shape.sizes, digits);
  if (!shape || *shape != node.type.shape) {
    fail(node, fmt::format("layout '{}' does not match the type {}", to_text(layout),
                           to_text(node.type.shape)));
  }
  if (digits.time() != 0 && layout[0].is_idle()) {
    fail(node, fmt::format("layout '{}' leaves the digit of micro-batches idle", to_text(layout)));
  }
  if (!is_weight(node)) return;
  if (layout.digits(DigitRole::kPartial) != 0) {
    fail(node, "a weight cannot be stored as partial sums");
  }
  if (digits.time() != 0 && layout[0] != DigitRole::kReplica) {
    fail(node, fmt::format("layout '{}' splits a weight over micro-batches", to_text(layout)));
  }
}

void check_operands(const MappedGraph& mapped, graph::NodeId id, const Digits& digits) {
  std::vector<Layout> layouts;
  for (auto i : mapped.pcg.inputs(id)) layouts.push_back(mapped.layouts[i.index()]);
  const auto& s = get_node_signature(mapped.pcg, id);
  const auto uses = infer_node_layout(s, layouts, digits);
  if (!uses || compute_output_layout(s, *uses, digits.count()) != mapped.layouts[id.index()]) {
    fail(mapped.pcg.node(id), "the layouts of its operands and its result are inconsistent");
  }
}

// Checks that delayed updates are possible. A step may begin before the previous one has ended, but
// each micro-batch has one buffer. The backward pass of a micro-batch must have ended when the same
// micro-batch of the next step begins.
void check_delay(const Schedule& s, std::int64_t ranks) {
  if (!s.is_delayed()) return;
  const auto fail = [](const std::string& message, const std::string& hint) {
    throw UserError("plan", "schedule", message, hint);
  };
  if (s.order != Order::k1F1B || s.stages != ranks) {
    fail("delays updates, which requires 1f1b with one stage per rank", "");
  }
  if (s.micro_batches < ranks) {
    fail(fmt::format("delays updates over {} ranks, but has only {} micro-batches", ranks,
                     s.micro_batches),
         "use at least as many micro-batches as ranks");
  }
}

// Checks that each operand of a join is where its partial sum will be: operand i is at place i of
// the digits over which the result is partial.
void check_join(const MappedGraph& mapped, graph::NodeId id, const Digits& digits) {
  const auto inputs = mapped.pcg.inputs(id);
  const auto& joined = mapped.layouts[id.index()];
  const auto mask = joined.digits(DigitRole::kPartial) & mapped.layouts[inputs[0].index()].idle();
  if (digits.group_size(mask) != static_cast<std::int64_t>(inputs.size())) {
    fail(mapped.pcg.node(id), fmt::format("joins {} tensors, but over {} devices", inputs.size(),
                                          digits.group_size(mask)));
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    auto expected = joined;
    for (std::size_t d = 0; d < digits.count(); ++d) {
      if ((mask >> d & 1U) == 0) continue;
      expected.set(
          d, DigitRole::idle(digits.coordinate_of_rank(static_cast<std::int64_t>(i), mask, d)));
    }
    const auto& layout = mapped.layouts[inputs[i].index()];
    if (layout == expected) continue;
    fail(mapped.pcg.node(id),
         fmt::format("operand {} has layout '{}', but joining into '{}' requires '{}'", i,
                     to_text(layout), to_text(joined), to_text(expected)));
  }
}

void check_schedule(const Schedule& s, const Digits& digits) {
  const auto fail = [](const std::string& message) {
    throw UserError("plan", "schedule", message);
  };
  const auto ranks = digits.group_size(s.digits);
  if (s.micro_batches != digits.micro_batches()) {
    fail(fmt::format("has {} micro-batches, but the layouts have {}", s.micro_batches,
                     digits.micro_batches()));
  }
  if ((s.digits & ~digits.space()) != 0) fail("has ranks that the machine does not have");
  if (s.stages < 1 || s.stages % ranks != 0) {
    fail(fmt::format("has {} stages, which is not a multiple of {} ranks", s.stages, ranks));
  }
  if (s.order == Order::kInterleaved && s.micro_batches % ranks != 0) {
    fail(fmt::format("interleaves {} micro-batches, which is not a multiple of {} ranks",
                     s.micro_batches, ranks));
  }
  check_delay(s, ranks);
}

void check_stage(const MappedGraph& mapped, graph::NodeId id, const Digits& digits) {
  const auto& node = mapped.pcg.node(id);
  const auto& s = mapped.schedule;
  const auto stage = mapped.stage[id.index()];
  if (stage >= s.stages)
    fail(node, fmt::format("is in stage {}, but there are {} stages", stage, s.stages));
  const auto& layout = mapped.layouts[id.index()];
  if ((s.digits & ~layout.idle()) != 0) {
    fail(node,
         fmt::format("layout '{}' does not belong to a single pipeline stage", to_text(layout)));
  }
  if (compute_place_rank(layout, s.digits, digits) != stage % digits.group_size(s.digits)) {
    fail(node, fmt::format("is in stage {}, but its layout '{}' belongs to another stage", stage,
                           to_text(layout)));
  }
  for (auto i : mapped.pcg.inputs(id)) {
    if (mapped.stage[i.index()] > stage) {
      fail(node, fmt::format("reads %{} of a later stage", mapped.pcg.node(i).name));
    }
  }
}

constexpr std::array kSemanticsNames = {std::string_view("synchronous"),
                                        std::string_view("delayed-1")};

constexpr std::array kOrderNames = {std::string_view("gpipe"), std::string_view("1f1b"),
                                    std::string_view("interleaved")};

constexpr std::array kOptimizerNames = {std::string_view("sgd"), std::string_view("momentum"),
                                        std::string_view("adam")};

template <class Enum>
std::optional<Enum> parse_name(const auto& names, std::string_view text) {
  const auto at = std::ranges::find(names, text);
  if (at == names.end()) return std::nullopt;
  return static_cast<Enum>(at - names.begin());
}

}  // namespace

std::string_view name(Optimizer o) { return kOptimizerNames[static_cast<std::size_t>(o)]; }
std::optional<Optimizer> parse_optimizer(std::string_view text) {
  return parse_name<Optimizer>(kOptimizerNames, text);
}

std::string_view name(Order order) { return kOrderNames[static_cast<std::size_t>(order)]; }
std::string_view name(Semantics s) { return kSemanticsNames[static_cast<std::size_t>(s)]; }

std::optional<Order> parse_order(std::string_view text) {
  return parse_name<Order>(kOrderNames, text);
}
std::optional<Semantics> parse_semantics(std::string_view text) {
  return parse_name<Semantics>(kSemanticsNames, text);
}

void check_mapped(const MappedGraph& mapped, const Digits& digits) {
  check_schedule(mapped.schedule, digits);
  for (auto id : mapped.pcg.ids()) {
    const auto& node = mapped.pcg.node(id);
    check_layout(node, mapped.layouts[id.index()], digits);
    check_stage(mapped, id, digits);
    if (node.op.role() == ops::Role::kCompute) check_operands(mapped, id, digits);
    if (is_join(node)) check_join(mapped, id, digits);
  }
}

}  // namespace tandem::plan
