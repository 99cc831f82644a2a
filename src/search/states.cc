#include "search/states.h"

namespace tandem::search {

namespace {

using machine::Digits;
using machine::DigitUse;
using machine::NodeLayout;
using strategies::FactorKind;

class Enumerator {
 public:
  Enumerator(const strategies::AnalyzedNode& node, const Digits& digits, const Dims& dims)
      : node_(node), digits_(digits) {
    const auto batch = node.batch();
    if (batch && is_allowed(node, *batch, dims)) batch_ = batch;
    others_ = {DigitUse::kReplica, DigitUse::kIdle};
    for (ops::FactorId f = 0; f < node.signature.map.factors.size(); ++f) {
      if (batch_ != f && is_allowed(node, f, dims)) others_.push_back(DigitUse::factor(f));
    }
  }

  std::vector<NodeLayout> run() {
    level(0);
    return std::move(out_);
  }

 private:
  // Assigns the digits of the level that starts at digit `begin`, then those after.
  void level(std::size_t begin) {
    if (begin == digits_.count()) {
      out_.push_back(now_);
      return;
    }
    std::size_t end = begin;
    while (end < digits_.count() && digits_[end].level == digits_[begin].level) ++end;
    batch_then_other(begin, end, begin);
  }

  // Digits before `at` are along the batch; either the rest of the level has one other use, or the
  // next digit is along the batch too.
  void batch_then_other(std::size_t begin, std::size_t end, std::size_t at) {
    if (at == end) {
      level(end);
      return;
    }
    for (auto use : others_) {
      std::size_t i = at;
      while (i < end && assign(i, use)) ++i;
      if (i == end) level(end);
      while (i-- > at) undo(i);
    }
    if (batch_ && assign(at, DigitUse::factor(*batch_))) {
      batch_then_other(begin, end, at + 1);
      undo(at);
    }
  }

  // False, and nothing done, when the degree would not divide.
  bool assign(std::size_t i, DigitUse use) {
    if (use.is_factor() && !may_cut_next(node_.signature, use.factor(), now_, digits_, i)) {
      return false;
    }
    now_.uses[i] = use;
    return true;
  }

  void undo(std::size_t i) { now_.uses[i] = DigitUse::kIdle; }

  const strategies::AnalyzedNode& node_;
  const Digits& digits_;
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
  switch (node.kinds[f]) {
    case FactorKind::kData:
      return dims.data;
    case FactorKind::kSpatial:
      return dims.spatial;
    case FactorKind::kSequence:
      return dims.sequence;
    case FactorKind::kHead:
      return dims.head;
    case FactorKind::kModel:
      return use == ops::FactorUse::kReducing ? dims.reduction : dims.model;
  }
  CHECK(false);
}

std::vector<NodeLayout> node_layouts(const strategies::AnalyzedNode& node, const Digits& digits,
                                     const Dims& dims) {
  return Enumerator(node, digits, dims).run();
}

}  // namespace tandem::search
