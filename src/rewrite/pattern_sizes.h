// Ranks and sizes of a pattern's tensors as expressions of its variables, as far as the operators'
// index texts give them. Example: the size of (linear ?x ?w) of rank 2 along axis 1 is dim(?w, 0).
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "rewrite/rule.h"

namespace tandem::rewrite {

Expression make_literal(std::int64_t value);
Expression make_dim(std::uint16_t variable, std::int64_t dimension);
// Returns the operation on `a` and `b`, computed if both are literals.
Expression make_folded_operation(Operation operation, Expression a, Expression b);

// Ranks by variable; nullopt if unknown.
using Ranks = std::vector<std::optional<std::size_t>>;

class PatternSizes {
 public:
  // Known ranks and sizes of nodes, besides those that follow from the side. A `stretched` node
  // broadcasts its operands; only the first of them determines its shape.
  using Dimension = std::pair<PatternId, std::size_t>;
  struct KnownPatternSizes {
    std::map<PatternId, std::size_t> ranks = {};
    std::map<Dimension, Expression> sizes = {};
    std::vector<PatternId> stretched = {};
    // Whether all operands of an operator have the same rank, as is the case without broadcasting.
    bool of_one_rank = true;
  };
  // Also finds ranks of variables and adds them to `variables`. `side` and `known` must
  // outlive the object.
  PatternSizes(const Side& side, Ranks& variables, const KnownPatternSizes& known);

  [[nodiscard]] std::optional<std::size_t> rank(PatternId id) const;
  // Returns false if a tensor would have two ranks.
  [[nodiscard]] bool is_consistent() const { return is_consistent_; }
  // Returns the size along `axis`, or nullopt if it is unknown.
  [[nodiscard]] std::optional<Expression> size(PatternId id, std::size_t axis) const;
  // Returns the sizes of the parts along `axis` if a concat built the tensor. Returns an empty list
  // otherwise.
  [[nodiscard]] std::vector<Expression> parts(PatternId id, std::size_t axis) const;

 private:
  using Origin = Dimension;
  bool relax(PatternId id, Ranks& variables);
  bool relax_text(PatternId id);
  bool set_rank(PatternId id, std::optional<std::size_t> rank);
  [[nodiscard]] bool is_stretched(PatternId id) const;
  [[nodiscard]] std::vector<Origin> find_origins(PatternId id, std::size_t axis) const;
  [[nodiscard]] std::optional<Expression> find_size(PatternId id, std::size_t axis) const;
  [[nodiscard]] std::vector<Expression> find_parts(PatternId id, std::size_t axis) const;

  const Side& side_;
  const KnownPatternSizes& known_;
  Ranks ranks_;  // by node
  bool is_consistent_ = true;
  mutable std::map<Dimension, std::optional<Expression>> sizes_;
  mutable std::map<Dimension, std::vector<Expression>> parts_;
};

}  // namespace tandem::rewrite
