#include "search/space/precedence.h"

#include <bit>

namespace tandem::search {

namespace {

using graph::NodeId;

// For every node the set of operators that `merge` finds related to it, counted. One bit an
// operator.
class Reach {
 public:
  explicit Reach(std::size_t nodes) : words_((nodes + 63) / 64), bits_(nodes * words_) {}

  void add(std::size_t node, std::size_t member) {
    bits_[node * words_ + member / 64] |= std::uint64_t{1} << (member % 64);
  }
  void merge(std::size_t into, std::size_t from) {
    for (std::size_t w = 0; w < words_; ++w) bits_[into * words_ + w] |= bits_[from * words_ + w];
  }
  [[nodiscard]] std::size_t count(std::size_t node) const {
    std::size_t n = 0;
    for (std::size_t w = 0; w < words_; ++w) {
      n += static_cast<std::size_t>(std::popcount(bits_[node * words_ + w]));
    }
    return n;
  }

 private:
  std::size_t words_;
  std::vector<std::uint64_t> bits_;
};

}  // namespace

Precedence::Precedence(const graph::Graph& model) : before_(model.size()), after_(model.size()) {
  known_ = model.size() <= kMostNodes;
  if (!known_) return;
  Reach before(model.size());
  Reach after(model.size());
  const auto is_operator = [&](NodeId id) {
    return model.node(id).op.role() != ops::Role::kSource;
  };
  for (auto id : model.ids()) {
    if (!is_operator(id)) continue;
    ++operators_;
    before.add(id.index(), id.index());
    after.add(id.index(), id.index());
    for (auto i : model.inputs(id)) before.merge(id.index(), i.index());
  }
  for (std::size_t n = model.size(); n-- > 0;) {
    for (auto i : model.inputs(NodeId(n))) after.merge(i.index(), n);
  }
  for (auto id : model.ids()) {
    before_[id.index()] = before.count(id.index());
    after_[id.index()] = after.count(id.index());
  }
}

bool Precedence::blocks(NodeId from) const {
  if (!known_) return false;
  // An operator stands in both of its own sets, a source in neither.
  const std::size_t itself = before_[from.index()] > 0 ? 1 : 0;
  return before_[from.index()] + after_[from.index()] == operators_ + itself;
}

bool Precedence::blocks(NodeId from, NodeId to) const {
  return known_ && before_[from.index()] + after_[to.index()] == operators_;
}

}  // namespace tandem::search
