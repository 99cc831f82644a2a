#include "verify/type_hints.h"

#include <algorithm>
#include <set>

namespace tandem::verify {

namespace {

using rewrite::Expression;
using rewrite::Operation;

std::size_t get_positive_integer(const Expression& e) {
  const auto* n =
      e.operation == Operation::kLiteral ? std::get_if<std::int64_t>(&e.literal) : nullptr;
  return n != nullptr && *n > 0 ? static_cast<std::size_t>(*n) : 0;
}

class SaidReader {
 public:
  explicit SaidReader(const Rule& rule) : out_(rule.tensors.size()) {
    for (std::size_t before = 0, now = 1; before != now;) {
      before = now;
      for (const auto& condition : rule.conditions) read(condition);
      now = known_;
    }
  }
  std::vector<Said> take() { return std::move(out_); }

 private:
  void read(const Expression& e) {
    if (e.operation == Operation::kAnd) {
      std::ranges::for_each(e.operands, [&](const Expression& part) { read(part); });
    } else if (e.operation == Operation::kSameShape) {
      auto& a = out_[e.variables[0]];
      auto& b = out_[e.variables[1]];
      unify(a.rank, b.rank);
      for (std::size_t d = 0; d < a.sizes.size(); ++d) unify(a.sizes[d], b.sizes[d]);
    } else if (e.operation == Operation::kEqual) {
      read_equal(e.operands[0], e.operands[1]);
      read_equal(e.operands[1], e.operands[0]);
    }
  }

  void read_equal(const Expression& a, const Expression& b) {
    if (a.operation == Operation::kRank) {
      auto& rank = out_[a.variables[0]].rank;
      if (b.operation == Operation::kRank) return unify(rank, out_[b.variables[0]].rank);
      return set(rank, get_positive_integer(b));
    }
    auto* size = find_size(a);
    if (size == nullptr) return;
    if (auto* other = find_size(b)) return unify(*size, *other);
    set(*size, static_cast<std::int64_t>(get_positive_integer(b)));
  }

  std::int64_t* find_size(const Expression& e) {
    if (e.operation != Operation::kDim || e.operands[0].operation != Operation::kLiteral) {
      return nullptr;
    }
    const auto* d = std::get_if<std::int64_t>(&e.operands[0].literal);
    auto& sizes = out_[e.variables[0]].sizes;
    const bool inside = d != nullptr && *d >= 0 && *d < static_cast<std::int64_t>(sizes.size());
    return inside ? &sizes[static_cast<std::size_t>(*d)] : nullptr;
  }

  template <class Number>
  void set(Number& to, Number value) {
    if (to != 0 || value == 0) return;
    to = value;
    ++known_;
  }
  template <class Number>
  void unify(Number& a, Number& b) {
    set(a, b);
    set(b, a);
  }

  std::vector<Said> out_;
  std::size_t known_ = 1;
};

}  // namespace

std::vector<Said> find_fixed_sizes(const Rule& rule) { return SaidReader(rule).take(); }

std::vector<std::int64_t> list_literals(const Rule& rule) {
  std::set<std::int64_t> out;
  const auto read = [&](const Expression& e) {
    rewrite::for_each_part(e, [&](const Expression& part) {
      if (part.operation != Operation::kLiteral) return;
      if (const auto* n = std::get_if<std::int64_t>(&part.literal)) out.insert(*n);
      const auto* list = std::get_if<std::vector<std::int64_t>>(&part.literal);
      if (list != nullptr) out.insert(list->begin(), list->end());
    });
  };
  for (const auto& node : rule.source.nodes) std::ranges::for_each(node.attributes, read);
  std::ranges::for_each(rule.conditions, read);
  std::erase_if(out, [](std::int64_t n) { return n < 1 || n > 64; });
  return {out.begin(), out.end()};
}

std::vector<bool> find_index_variables(const Rule& rule) {
  std::vector<bool> out(rule.tensors.size());
  std::vector<bool> index(rule.source.nodes.size());
  for (std::size_t n = rule.source.nodes.size(); n-- > 0;) {
    const auto& node = rule.source.nodes[n];
    if (node.is_variable()) {
      if (index[n]) out[node.variable] = true;
      continue;
    }
    const bool keeps = node.spec->role == ops::Role::kParallel;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (((node.spec->index_inputs >> i) & 1U) != 0 || (keeps && index[n])) {
        index[node.inputs[i]] = true;
      }
    }
  }
  return out;
}

}  // namespace tandem::verify
