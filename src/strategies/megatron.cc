// Data parallelism is Megatron's strategy with no tensor digits, so both are built here.
#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "strategies/factor_kinds.h"
#include "strategies/strategies.h"

namespace tandem::strategies {

namespace {

using graph::NodeId;
using machine::DigitMask;
using machine::DigitRole;
using machine::Digits;
using machine::DigitUse;
using machine::Layout;

bool has(DigitMask mask, std::size_t digit) { return ((mask >> digit) & 1U) != 0; }

class Builder {
 public:
  Builder(const graph::Graph& model, const Digits& digits, DigitMask tensor)
      : model_(model),
        digits_(digits),
        tensor_(tensor),
        nodes_(analyze(model)),
        consumers_(model.consumers()),
        split_(model.size()),
        out_{"", std::vector<plan::Choice>(model.size())} {}

  std::optional<Strategy> run() {
    for (auto id : model_.ids()) {
      if (model_.node(id).op.role() == ops::Role::kCompute && !place(id)) return std::nullopt;
    }
    for (auto id : model_.ids()) {
      if (model_.node(id).op.role() == ops::Role::kSource) store(id);
    }
    return std::move(out_);
  }

 private:
  bool place(NodeId id) {
    const auto n = id.index();
    const auto& s = nodes_[n].signature;
    const auto data = digits_.all() & ~tensor_;
    const auto batch = nodes_[n].batch();
    if (batch && digits_.group_size(data) > 1 &&
        (!machine::may_cut(s, *batch) ||
         s.map.factors[*batch].size % digits_.group_size(data) != 0)) {
      return false;
    }
    const auto feature = tensor_ != 0 ? feature_factor(id) : std::nullopt;
    auto& uses = out_.choices[n].node.uses;
    for (std::size_t i = 0; i < digits_.count(); ++i) {
      if (has(data, i)) {
        uses[i] = batch ? DigitUse::factor(*batch) : DigitUse::kReplica;
      } else {
        uses[i] = feature ? DigitUse::factor(*feature) : DigitUse::kReplica;
      }
    }
    const int d = feature ? s.map.output_dim(*feature) : -1;
    if (d >= 0) split_[n] = static_cast<std::size_t>(d);
    return true;
  }

  // The factor that the tensor digits run along: the one its activations are already split on, rows
  // of a weight included; else, where there is a weight, its first factor that the activations lack
  // (the columns, or the heads).
  [[nodiscard]] std::optional<ops::FactorId> feature_factor(NodeId id) const {
    const auto& s = nodes_[id.index()].signature;
    const auto inputs = model_.inputs(id);
    std::optional<ops::FactorId> factor;
    std::vector<bool> from_activation(s.map.factors.size());
    bool has_weight = false;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (is_weight(model_.node(inputs[i]))) {
        has_weight = true;
        continue;
      }
      for (const auto& dim : s.map.inputs[i]) {
        for (auto f : dim.carriers) from_activation[f] = true;
      }
      if (!split_[inputs[i].index()]) continue;
      const auto& carriers = s.map.inputs[i][*split_[inputs[i].index()]].carriers;
      if (carriers.empty()) return std::nullopt;
      const auto f = carriers[0];
      if (factor && *factor != f) return std::nullopt;
      factor = f;
    }
    if (factor) return divides(s, *factor) ? factor : std::nullopt;
    if (!has_weight) return std::nullopt;
    for (const auto& dim : s.map.output) {
      if (dim.carriers.empty()) continue;
      const auto f = dim.carriers[0];
      if (!from_activation[f] && divides(s, f)) return f;
    }
    return std::nullopt;
  }

  [[nodiscard]] bool divides(const ops::Signature& s, ops::FactorId f) const {
    return machine::may_cut(s, f) && s.map.factors[f].size % digits_.group_size(tensor_) == 0;
  }

  // Sources lie as their first user wants them.
  void store(NodeId id) {
    if (const auto& users = consumers_[id.index()]; !users.empty()) {
      const auto user = users[0];
      const auto inputs = model_.inputs(user);
      const auto at = std::ranges::find(inputs, id);
      out_.choices[id.index()].source =
          input_layout(nodes_[user.index()].signature, out_.choices[user.index()].node,
                       digits_.count(), static_cast<std::size_t>(at - inputs.begin()));
      return;
    }
    out_.choices[id.index()].source = Layout(digits_.count(), DigitRole::kReplica);
  }

  const graph::Graph& model_;
  const Digits& digits_;
  DigitMask tensor_;
  std::vector<AnalyzedNode> nodes_;
  std::vector<std::vector<NodeId>> consumers_;
  std::vector<std::optional<std::size_t>> split_;  // by node: the dimension over the tensor digits
  Strategy out_;
};

// Every subset of digits that takes the last ones of each level.
std::vector<DigitMask> tensor_masks(const Digits& digits) {
  std::vector<DigitMask> masks = {0};
  std::size_t begin = 0;
  while (begin < digits.count()) {
    std::size_t end = begin;
    while (end < digits.count() && digits[end].level == digits[begin].level) ++end;
    const auto before = masks;
    DigitMask tail = 0;
    for (std::size_t i = end; i-- > begin;) {
      tail |= DigitMask{1} << i;
      for (auto m : before) masks.push_back(m | tail);
    }
    begin = end;
  }
  return masks;
}

}  // namespace

std::optional<Strategy> megatron(const graph::Graph& model, const Digits& digits,
                                 DigitMask tensor) {
  auto out = Builder(model, digits, tensor).run();
  if (!out) return out;
  const auto tp = digits.group_size(tensor);
  out->name = fmt::format("megatron:tp={},dp={}", tp, digits.devices() / tp);
  return out;
}

std::optional<Strategy> data_parallel(const graph::Graph& model, const Digits& digits) {
  auto out = Builder(model, digits, 0).run();
  if (out) out->name = "dp";
  return out;
}

std::vector<Strategy> megatron_grid(const graph::Graph& model, const Digits& digits) {
  std::vector<Strategy> out;
  for (auto mask : tensor_masks(digits)) {
    if (mask == 0) continue;
    if (auto s = megatron(model, digits, mask)) out.push_back(std::move(*s));
  }
  return out;
}

namespace {

// "tp=2,dp=24": what the name asks for; 0 where it leaves it open.
struct MegatronSettings {
  std::int64_t tp = 0;
  std::int64_t dp = 0;
};

MegatronSettings parse_settings(const std::string& name, std::string_view text) {
  MegatronSettings out;
  for (auto part : split(text, ',')) {
    const auto equals = part.find('=');
    const auto key = trim(part.substr(0, equals));
    const auto value =
        equals == std::string_view::npos ? 0 : parse_int(trim(part.substr(equals + 1))).value_or(0);
    if ((key != "tp" && key != "dp") || value < 1) {
      throw UserError("strategy", name, fmt::format("'{}' is no setting of megatron", part),
                      "there are tp=N and dp=N");
    }
    (key == "tp" ? out.tp : out.dp) = value;
  }
  return out;
}

std::vector<Strategy> named_megatron(const std::string& name, const MegatronSettings& wanted,
                                     const graph::Graph& model, const Digits& digits) {
  std::vector<Strategy> out;
  for (auto mask : tensor_masks(digits)) {
    const auto tp = digits.group_size(mask);
    const bool fits = (wanted.tp == 0 ? mask != 0 : wanted.tp == tp) &&
                      (wanted.dp == 0 || wanted.dp == digits.devices() / tp);
    if (!fits) continue;
    if (auto s = megatron(model, digits, mask)) out.push_back(std::move(*s));
  }
  if (!out.empty()) return out;
  throw UserError("strategy", name,
                  fmt::format("{} devices cannot be grouped so, or the batch does not divide over "
                              "the groups",
                              digits.devices()));
}

}  // namespace

std::vector<Strategy> named_strategies(const std::string& name, const graph::Graph& model,
                                       const Digits& digits) {
  if (name == "dp") {
    if (auto s = data_parallel(model, digits)) return {std::move(*s)};
    throw UserError("strategy", "dp",
                    fmt::format("the batch does not divide over {} devices", digits.devices()),
                    fmt::format("--batch a multiple of {}", digits.devices()));
  }
  const std::string_view megatron_name = "megatron";
  if (name.starts_with(megatron_name)) {
    const auto rest = std::string_view(name).substr(megatron_name.size());
    if (rest.empty()) return named_megatron(name, {}, model, digits);
    if (rest[0] == ':') {
      return named_megatron(name, parse_settings(name, rest.substr(1)), model, digits);
    }
  }
  throw UserError("strategy", name, "there is no such strategy",
                  "there are: dp, megatron, megatron:tp=N,dp=N");
}

}  // namespace tandem::strategies
