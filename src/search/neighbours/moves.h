// Rewriting by moves: one rule at all places that look alike, or at every other one. The equal
// layers of a network are rewritten together, so that a network of many layers has no more moves
// than one of three, and what was found on the one can be done to the other.
#pragma once

#include <optional>
#include <vector>

#include "rewrite/derivation.h"
#include "rewrite/matches.h"

namespace tandem::search {

struct Move {
  std::uint32_t rule = 0;
  Hash look = 0;  // of the place: the operators and types that the rule sees there
  // Of the places in their order: all, those at 0, 2, 4, ..., those at 1, 3, 5, ... or a single
  // one.
  enum class Which : std::uint8_t { kAll, kEven, kOdd, kOne } which = Which::kAll;
  std::uint32_t one = 0;  // which single one
  auto operator<=>(const Move&) const = default;
};

// A graph on its way, with the moves that it has.
class Rewriting {
 public:
  // Of rules without choices. Those of one RuleSet know each other's moves.
  Rewriting(const graph::Graph& first, const rewrite::RuleSet& rules,
            rewrite::Dictionary& dictionary);

  // Of all places each. Distinct, ascending.
  [[nodiscard]] std::vector<Move> moves() const;
  // Of a single place each.
  [[nodiscard]] std::vector<Move> single_moves() const;
  // Nothing where the rule does not fit at any of the places. `steps` receives what was done.
  [[nodiscard]] std::optional<Rewriting> after(const Move& move,
                                               rewrite::Derivation* steps = nullptr) const;
  [[nodiscard]] const rewrite::Draft& draft() const { return draft_; }

 private:
  struct At {
    Move move;
    rewrite::Match match;
  };
  [[nodiscard]] std::vector<At> places() const;
  // Those that the move is about, in their order.
  [[nodiscard]] std::vector<rewrite::Match> places_of(const Move& move) const;

  const rewrite::RuleSet* rules_;
  rewrite::Draft draft_;
  rewrite::Matches matches_;
};

}  // namespace tandem::search
