#include "verify/operator_moves.h"

#include <algorithm>
#include <map>
#include <utility>

namespace tandem::verify {

namespace {

using TypeId = TypeTable::TypeId;

class OperatorMoveFinder {
 public:
  // With `sized`, the last operands are only measured.
  OperatorMoveFinder(std::optional<ops::Op> op, const SizedOperator* sized,
                     std::span<const TypeId> inputs)
      : op_(op), sized_(sized) {
    for (auto i : inputs) types_.push_back(table_.type(i));
    for (const auto& type : types_) count_ += type.shape.rank();
    at_base_ = compute_result(Vector(count_), 0);
  }

  OperatorMoves run() {
    std::vector<bool> covered(count_);
    const auto consider = [&](std::initializer_list<std::size_t> which, bool steps) {
      Vector move(count_);
      for (auto i : which) move[i] = 1;
      if (!add(move, steps)) return false;
      for (auto i : which) covered[i] = true;
      return true;
    };
    for (std::size_t i = 0; i < count_; ++i) consider({i}, false);
    const auto single = covered;
    for (std::size_t i = 0; i < count_; ++i) {
      for (std::size_t j = 0; j < count_; ++j) {
        if (i != j && !single[i] && (i < j || single[j])) consider({i, j}, false);
      }
    }
    // The remaining sizes may move by more than 1. A size of 1 is excluded, as it is mostly
    // broadcast.
    for (std::size_t i = 0; i < count_; ++i) covered[i] = covered[i] || size_at(i) == 1;
    for (std::size_t i = 0; i < count_; ++i) {
      if (!covered[i]) consider({i}, true);
    }
    for (std::size_t i = 0; i < count_; ++i) {
      for (std::size_t j = 0; j < count_; ++j) {
        if (i != j && !covered[i]) consider({i, j}, true);
      }
    }
    add_scaled(covered);
    for (std::size_t i = 0; i < count_; ++i) {
      for (std::size_t j = 0; j < count_ && !covered[i]; ++j) {
        for (std::size_t k = j + 1; k < count_ && !covered[i]; ++k) {
          if (i != j && i != k) consider({i, j, k}, false);
        }
      }
    }
    add_all_operands(covered);
    return std::move(out_);
  }

 private:
  // Returns the result's sizes after `times` moves, or nullopt if the operands do not fit.
  std::optional<Vector> compute_result(const Vector& move, std::int64_t times) {
    std::vector<TypeId> inputs;
    inputs.reserve(types_.size());
    std::size_t at = 0;
    for (const auto& type : types_) {
      auto changed = type;
      for (std::size_t d = 0; d < type.shape.rank(); ++d) {
        changed.shape.sizes[d] += times * move[at++];
        if (changed.shape.sizes[d] < 1) return std::nullopt;
        if (changed.shape.sizes[d] % changed.shape.degrees[d] != 0) return std::nullopt;
      }
      inputs.push_back(table_.intern(changed));
    }
    auto op = op_;
    if (sized_ != nullptr) {
      op = make_measured_operator(inputs);
      if (!op) return std::nullopt;
      inputs.resize(inputs.size() - sized_->measured.size());
    }
    const auto id = table_.infer_result_type(*op, inputs);
    if (id == TypeTable::kNone) return std::nullopt;
    const auto& sizes = table_.type(id).shape.sizes;
    return Vector(sizes.begin(), sizes.end());
  }

  std::optional<ops::Op> make_measured_operator(std::span<const TypeId> types) {
    std::vector<const TensorType*> tensors(sized_->instance->tensors.size());
    const auto first = types.size() - sized_->measured.size();
    for (std::size_t m = 0; m < sized_->measured.size(); ++m) {
      tensors[sized_->measured[m]] = &table_.type(types[first + m]);
    }
    return table_.make_op(*sized_->node, {tensors, sized_->instance->symbols});
  }

  [[nodiscard]] std::int64_t size_at(std::size_t i) const {
    for (const auto& type : types_) {
      if (i < type.shape.rank()) return type.shape.sizes[i];
      i -= type.shape.rank();
    }
    return 1;
  }

  // Adds the move, or with `steps` its smallest multiple from 2 to 4, if the result changes evenly.
  // Returns whether it did.
  bool add(const Vector& move, bool steps) {
    for (std::int64_t step = steps ? 2 : 1; step <= (steps ? 4 : 1); ++step) {
      const auto once = compute_result(move, step);
      if (!once || once->size() != at_base_->size()) continue;
      const auto far = compute_result(move, kFar * step);
      if (!far) continue;
      Vector change(once->size());
      bool even = true;
      for (std::size_t d = 0; d < change.size(); ++d) {
        change[d] = (*once)[d] - (*at_base_)[d];
        even = even && (*far)[d] == (*at_base_)[d] + kFar * change[d];
      }
      if (!even) continue;
      auto scaled = move;
      for (auto& n : scaled) n *= step;
      out_.inputs.push_back(std::move(scaled));
      out_.output.push_back(std::move(change));
      return true;
    }
    return false;
  }

  // Adds moves of one size with a multiple of another, as for the channels of all groups and of
  // one.
  void add_scaled(std::vector<bool>& covered) {
    for (std::size_t i = 0; i < count_; ++i) {
      for (std::size_t j = 0; j < count_; ++j) {
        for (std::int64_t times : {2, 3, 4}) {
          if (i == j || covered[i]) continue;
          Vector move(count_);
          move[i] = 1;
          move[j] = times;
          if (add(move, false)) covered[i] = covered[j] = true;
          std::swap(move[i], move[j]);
          if (add(move, false)) covered[i] = covered[j] = true;
        }
      }
    }
  }

  // Adds moves of the same dimension of all operands, for many operands of one shape.
  void add_all_operands(std::vector<bool>& covered) {
    if (types_.size() < 3) return;
    for (std::size_t d = 0; d < types_[0].shape.rank(); ++d) {
      if (covered[d]) continue;
      Vector move(count_);
      std::size_t at = 0;
      for (const auto& type : types_) {
        if (d < type.shape.rank()) move[at + d] = 1;
        at += type.shape.rank();
      }
      add(move, false);
    }
  }

  TypeTable& table_ = TypeTable::get_thread_local();
  std::optional<ops::Op> op_;
  const SizedOperator* sized_;
  std::vector<TensorType> types_;
  std::size_t count_ = 0;
  std::optional<Vector> at_base_;
  OperatorMoves out_;
};

}  // namespace

const OperatorMoves& operator_moves(const ops::Op& op, std::span<const TypeId> inputs) {
  static thread_local std::map<std::pair<const void*, std::vector<TypeId>>, OperatorMoves> known;
  const auto [at, is_new] =
      known.try_emplace({op.raw(), std::vector<TypeId>(inputs.begin(), inputs.end())});
  if (is_new) at->second = OperatorMoveFinder(op, nullptr, inputs).run();
  return at->second;
}

SizedOperator make_sized_operator(const rewrite::PatternNode& node, const Instance& instance) {
  SizedOperator out{&node, &instance, {}};
  for (const auto& attribute : node.attributes) {
    rewrite::for_each_part(attribute, [&](const rewrite::Expression& part) {
      if (part.operation == rewrite::Operation::kSymbol) return;
      for (auto v : part.variables) {
        if (std::ranges::find(out.measured, v) == out.measured.end()) out.measured.push_back(v);
      }
    });
  }
  return out;
}

OperatorMoves operator_moves(const SizedOperator& op, std::span<const TypeId> inputs) {
  std::vector<TypeId> all(inputs.begin(), inputs.end());
  for (auto v : op.measured)
    all.push_back(TypeTable::get_thread_local().intern(op.instance->tensors[v]));
  return OperatorMoveFinder(std::nullopt, &op, all).run();
}

}  // namespace tandem::verify
