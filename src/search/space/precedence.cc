#include "search/space/precedence.h"

#include <algorithm>

namespace tandem::search {

using graph::NodeId;

// Uses the graph's order. All operators before an operator are its ancestors if each has a reader
// at or before it: following readers leads to it. All operators after it are its descendants if
// each reads an operator at or after it. A source comes before all operators if every operator that
// reads only sources reads it. Example: in a -> b -> d, a -> c -> d the ordered operators are a and
// d.
Precedence::Precedence(const graph::Graph& model)
    : position_(model.size(), -1), orders_all_(model.size()) {
  std::vector<NodeId> operators;
  for (auto id : model.ids()) {
    if (model.node(id).op.role() == ops::Role::kSource) continue;
    position_[id.index()] = static_cast<std::int64_t>(operators.size());
    operators.push_back(id);
  }
  const auto count = static_cast<std::int64_t>(operators.size());
  std::vector<std::int64_t> first_reader(operators.size(), count);
  std::vector<std::int64_t> last_read(operators.size(), -1);
  std::vector<std::int64_t> roots_reading(model.size());
  std::int64_t roots = 0;
  for (std::size_t i = 0; i < operators.size(); ++i) {
    auto inputs =
        std::vector<NodeId>(model.inputs(operators[i]).begin(), model.inputs(operators[i]).end());
    for (auto input : inputs) {
      const auto at = position_[input.index()];
      if (at < 0) continue;
      auto& first = first_reader[static_cast<std::size_t>(at)];
      first = std::min(first, static_cast<std::int64_t>(i));
      last_read[i] = std::max(last_read[i], at);
    }
    if (last_read[i] >= 0) continue;
    ++roots;
    std::ranges::sort(inputs);
    inputs.erase(std::unique(inputs.begin(), inputs.end()), inputs.end());
    for (auto input : inputs) ++roots_reading[input.index()];
  }
  std::int64_t latest = 0;  // of the first readers of all operators before
  for (std::int64_t i = 0; i < count; ++i) {
    orders_all_[operators[static_cast<std::size_t>(i)].index()] = latest <= i;
    latest = std::max(latest, first_reader[static_cast<std::size_t>(i)]);
  }
  auto earliest = count;  // of the last operands of all operators after
  for (auto i = count; i-- > 0;) {
    if (earliest < i) orders_all_[operators[static_cast<std::size_t>(i)].index()] = false;
    earliest = std::min(earliest, last_read[static_cast<std::size_t>(i)]);
  }
  for (std::size_t i = 0; i < operators.size(); ++i) {
    const bool follows_all = i == 0 || orders_all_[operators[i - 1].index()];
    const bool is_chain = follows_all && orders_all_[operators[i].index()];
    segments_.push_back(is_chain ? Segment::kChain : Segment::kBranches);
  }
  for (auto id : model.ids()) {
    if (position_[id.index()] < 0) orders_all_[id.index()] = roots_reading[id.index()] == roots;
  }
}

bool Precedence::blocks(NodeId from, NodeId to) const {
  const auto before = position_[from.index()];
  return (before < 0 || orders_all_[from.index()]) && orders_all_[to.index()] &&
         position_[to.index()] == before + 1;
}

Segment Precedence::get_segment(NodeId id) const {
  const auto at = position_[id.index()];
  return at < 0 ? Segment::kAnytime : segments_[static_cast<std::size_t>(at)];
}

Segment Precedence::get_segment_after(NodeId from) const {
  const auto own = get_segment(from);
  if (own == Segment::kAnytime || !orders_all_[from.index()]) return own;
  const auto next = static_cast<std::size_t>(position_[from.index()]) + 1;
  return next < segments_.size() ? segments_[next] : own;
}

bool Precedence::has(Segment segment) const {
  return std::ranges::find(segments_, segment) != segments_.end();
}

}  // namespace tandem::search
