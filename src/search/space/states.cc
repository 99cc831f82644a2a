#include "search/space/states.h"

#include <algorithm>

namespace tandem::search {

namespace {

using machine::DigitRole;
using machine::Digits;
using machine::DigitUse;
using machine::Layout;
using machine::NodeLayout;
using strategies::FactorKind;

bool is_of_allowed_kind(const strategies::AnalyzedNode& node, ops::FactorId f, const Dims& dims) {
  switch (node.kinds[f]) {
    case FactorKind::kData:
      return dims.data;
    case FactorKind::kSpatial:
      return dims.spatial;
    case FactorKind::kSequence:
      return dims.sequence;
    case FactorKind::kHead:
      return dims.head;
    case FactorKind::kExpert:
      return dims.expert;
    case FactorKind::kModel:
      return node.signature.use[f] == ops::FactorUse::kReducing ? dims.reduction : dims.model;
  }
  CHECK(false);
}

// Lists every use of every digit, for a small machine.
class AllLayouts {
 public:
  AllLayouts(const strategies::AnalyzedNode& node, const Digits& digits, const Dims& dims,
             const Freedom& freedom)
      : node_(node), digits_(digits), freedom_(freedom) {
    const auto& s = node.signature;
    for (ops::FactorId f = 0; f < s.map.factors.size(); ++f) {
      // Windowed factors need halos, whatever their kind.
      const bool windows = s.use[f] == ops::FactorUse::kWindowed;
      if (!machine::may_cut(s, f) || (windows && !dims.spatial)) continue;
      if (is_of_allowed_kind(node, f, dims)) factors_.push_back(f);
    }
  }

  // All digits pass partial sums through the same set of operands.
  std::vector<NodeLayout> run() {
    assign(0, std::nullopt);
    const auto& sets = node_.signature.partial_inputs;
    for (std::size_t set = 0; set < sets.size(); ++set) {
      if ((sets[set] & ~freedom_.partial) == 0) assign(0, DigitUse::through(set));
    }
    return std::move(out_);
  }

 private:
  // With `through`, lists only layouts in which some digit has that use.
  void assign(std::size_t i, std::optional<DigitUse> through) {
    if (i == digits_.count()) {
      const auto& uses = now_.uses;
      if (!through || std::ranges::find(uses, *through) != uses.end()) out_.push_back(now_);
      return;
    }
    const auto next = [&](DigitUse use) {
      now_.uses[i] = use;
      assign(i + 1, through);
      now_.uses[i] = DigitUse::kIdle;
    };
    next(DigitUse::kReplica);
    if (machine::has_digit(freedom_.redundant, i)) return;
    for (std::int64_t p = 0; p < (freedom_.places ? digits_[i].size : 1); ++p) {
      next(DigitUse::idle(p));
    }
    for (auto f : factors_) {
      if (may_cut_next(node_.signature, f, now_, digits_, i)) next(DigitUse::factor(f));
    }
    if (through) next(*through);
  }

  const strategies::AnalyzedNode& node_;
  const Digits& digits_;
  const Freedom freedom_;
  std::vector<ops::FactorId> factors_;
  NodeLayout now_;
  std::vector<NodeLayout> out_;
};

class Enumerator {
 public:
  Enumerator(const strategies::AnalyzedNode& node, const Digits& digits, const Dims& dims,
             machine::DigitMask redundant)
      : node_(node), digits_(digits) {
    for (std::size_t i = 0; i < digits.count(); ++i) {
      if (machine::has_digit(redundant, i)) {
        now_.uses[i] = DigitUse::kReplica;
      } else {
        free_.push_back(i);
      }
    }
    const auto batch = node.batch();
    if (batch && is_allowed(node, *batch, dims)) batch_ = batch;
    others_ = {DigitUse::kReplica, DigitUse::kIdle};
    for (ops::FactorId f = 0; f < node.signature.map.factors.size(); ++f) {
      if (batch_ != f && is_allowed(node, f, dims)) others_.push_back(DigitUse::factor(f));
    }
  }

  std::vector<NodeLayout> run() {
    assign_level(0);
    return std::move(out_);
  }

 private:
  // Assigns the free digits of the level of digit `begin`, then those after it.
  void assign_level(std::size_t begin) {
    if (begin == free_.size()) {
      out_.push_back(now_);
      return;
    }
    std::size_t end = begin;
    while (end < free_.size() && digits_[free_[end]].level == digits_[free_[begin]].level) ++end;
    assign_batch_then_other(begin, end, begin);
  }

  // Digits before `at` run along the batch. Either the rest of the level has one other use, or the
  // next digit runs along the batch, too.
  void assign_batch_then_other(std::size_t begin, std::size_t end, std::size_t at) {
    if (at == end) {
      assign_level(end);
      return;
    }
    for (auto use : others_) {
      std::size_t i = at;
      while (i < end && assign(i, use)) ++i;
      if (i == end) assign_level(end);
      while (i-- > at) undo(i);
    }
    if (batch_ && assign(at, DigitUse::factor(*batch_))) {
      assign_batch_then_other(begin, end, at + 1);
      undo(at);
    }
  }

  // Returns false, without effect, if the degree does not divide the dimension.
  bool assign(std::size_t i, DigitUse use) {
    if (use.is_factor() && !may_cut_next(node_.signature, use.factor(), now_, digits_, free_[i])) {
      return false;
    }
    now_.uses[free_[i]] = use;
    return true;
  }

  void undo(std::size_t i) { now_.uses[free_[i]] = DigitUse::kIdle; }

  const strategies::AnalyzedNode& node_;
  const Digits& digits_;
  std::vector<std::size_t> free_;  // digits
  std::optional<ops::FactorId> batch_;
  std::vector<DigitUse> others_;
  NodeLayout now_;
  std::vector<NodeLayout> out_;
};

}  // namespace

bool is_allowed(const strategies::AnalyzedNode& node, ops::FactorId f, const Dims& dims) {
  const auto use = node.signature.use[f];
  if (!machine::may_cut(node.signature, f)) return false;
  if (use == ops::FactorUse::kWindowed && node.kinds[f] != FactorKind::kSpatial) return false;
  return is_of_allowed_kind(node, f, dims);
}

std::vector<Dims> list_with_narrower(const Dims& dims,
                                     const std::vector<strategies::AnalyzedNode>& nodes) {
  auto narrower = dims;
  narrower.sequence = false;
  const bool differs = std::ranges::any_of(nodes, [&](const auto& node) {
    for (ops::FactorId f = 0; f < node.signature.map.factors.size(); ++f) {
      if (is_allowed(node, f, dims) && !is_allowed(node, f, narrower)) return true;
    }
    return false;
  });
  if (!differs) return {dims};
  return {narrower, dims};
}

std::vector<NodeLayout> list_node_layouts(const strategies::AnalyzedNode& node,
                                          const Digits& digits, const Dims& dims,
                                          const Freedom& freedom) {
  if (is_small(digits)) return AllLayouts(node, digits, dims, freedom).run();
  return Enumerator(node, digits, dims, freedom.redundant).run();
}

std::vector<Layout> list_tensor_layouts(const Shape& sizes, const Digits& digits,
                                        const Freedom& freedom) {
  std::vector<Layout> out = {Layout(digits.count(), DigitRole::kReplica)};
  for (std::size_t i = 0; i < digits.count(); ++i) {
    std::vector<DigitRole> roles = {DigitRole::kReplica};
    if (!machine::has_digit(freedom.redundant, i)) {
      if (freedom.partial != 0) roles.push_back(DigitRole::kPartial);
      for (std::int64_t p = 0; p < (freedom.places ? digits[i].size : 1); ++p) {
        roles.push_back(DigitRole::idle(p));
      }
      for (std::size_t d = 0; d < sizes.rank(); ++d) roles.push_back(DigitRole::dim(d));
    }
    std::vector<Layout> longer;
    for (auto layout : out) {
      for (auto role : roles) {
        layout.set(i, role);
        if (compute_parallel_shape(layout, sizes, digits)) longer.push_back(layout);
      }
    }
    out = std::move(longer);
  }
  return out;
}

}  // namespace tandem::search
