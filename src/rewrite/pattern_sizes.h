// Ranks and sizes of a pattern's tensors as expressions of its variables, where the index text of
// its operators tells: of (linear ?x ?w), size 1 of rank 2 is dim(?w, 0).
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "rewrite/rule.h"

namespace tandem::rewrite {

Expression literal(std::int64_t value);
Expression dim_of(std::uint16_t variable, std::int64_t dimension);
// Computed where both are literals.
Expression combined(Operation operation, Expression a, Expression b);

// Ranks by variable; what is not known is nullopt.
using Ranks = std::vector<std::optional<std::size_t>>;

class PatternSizes {
 public:
  // What is known beside: of nodes. Of those that are stretched, only the first operand tells.
  using Dimension = std::pair<PatternId, std::size_t>;
  struct Known {
    std::map<PatternId, std::size_t> ranks = {};
    std::map<Dimension, Expression> sizes = {};
    std::vector<PatternId> stretched = {};
    // Are operands of one operator of one rank, as where nothing is stretched?
    bool of_one_rank = true;
  };
  // Finds ranks of variables, too, and adds them to those that are known. `side` and `known` must
  // outlive it.
  PatternSizes(const Side& side, Ranks& variables, const Known& known);

  [[nodiscard]] std::optional<std::size_t> rank(PatternId id) const;
  // False where a tensor would have two ranks.
  [[nodiscard]] bool is_consistent() const { return is_consistent_; }
  [[nodiscard]] std::optional<Expression> size(PatternId id, std::size_t axis) const;
  // Of what the tensor is put together along `axis`, by a concat before it: the sizes of the parts.
  // Empty where by none.
  [[nodiscard]] std::vector<Expression> parts(PatternId id, std::size_t axis) const;

 private:
  using Origin = Dimension;
  bool relax(PatternId id, Ranks& variables);
  bool relax_text(PatternId id);
  bool set_rank(PatternId id, std::optional<std::size_t> rank);
  [[nodiscard]] bool is_stretched(PatternId id) const;
  [[nodiscard]] std::vector<Origin> origins(PatternId id, std::size_t axis) const;
  [[nodiscard]] std::optional<Expression> find_size(PatternId id, std::size_t axis) const;
  [[nodiscard]] std::vector<Expression> find_parts(PatternId id, std::size_t axis) const;

  const Side& side_;
  const Known& known_;
  Ranks ranks_;  // by node
  bool is_consistent_ = true;
  mutable std::map<Dimension, std::optional<Expression>> sizes_;
  mutable std::map<Dimension, std::vector<Expression>> parts_;
};

}  // namespace tandem::rewrite
