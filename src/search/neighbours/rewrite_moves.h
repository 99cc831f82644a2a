// Rewrites by moves. A move applies one rule at all places that look the same, or at every other
// one. Equal layers are rewritten together, so a network with many layers has no more moves than
// one with three. A move that was found on the small network can be applied to the large one.
//
// Example: a rule fits in each of 24 equal layers, at places 0 to 23. The move kAll selects all 24,
// kEven selects 0, 2, ..., 22, and kOdd selects 1, 3, ..., 23.
#pragma once

#include <optional>
#include <vector>

#include "rewrite/derivation.h"
#include "rewrite/matches.h"

namespace tandem::search {

struct Move {
  std::uint32_t rule = 0;
  Hash look = 0;  // hash of the operators and types that the rule sees at the place
  // The places that the move selects, in their order: all, those at 0, 2, 4, ..., those at 1, 3, 5,
  // ..., or a single one.
  enum class Which : std::uint8_t { kAll, kEven, kOdd, kOne } which = Which::kAll;
  std::uint32_t one = 0;  // index of the single place
  auto operator<=>(const Move&) const = default;
};

// A partly rewritten graph, with the moves that it allows.
class RewriteState {
 public:
  // Starts from graph `first`. `rules` have no free choices. Moves are only comparable between
  // objects with the same RuleSet.
  RewriteState(const graph::Graph& first, const rewrite::RuleSet& rules,
               rewrite::Dictionary& dictionary);

  // Returns the distinct moves in ascending order, each for all of its places.
  [[nodiscard]] std::vector<Move> list_moves() const;
  // Returns one move for each single place.
  [[nodiscard]] std::vector<Move> list_single_moves() const;
  // Returns the graph after `move`, or nullopt if the rule does not fit at any of the places.
  // Appends the applied steps to `steps`.
  [[nodiscard]] std::optional<RewriteState> apply(const Move& move,
                                                  rewrite::Derivation* steps = nullptr) const;
  [[nodiscard]] const rewrite::Draft& draft() const { return draft_; }

 private:
  struct At {
    Move move;
    rewrite::Match match;
  };
  [[nodiscard]] std::vector<At> find_places() const;
  // Returns the places that `move` selects, in their order.
  [[nodiscard]] std::vector<rewrite::Match> select_places(const Move& move) const;

  const rewrite::RuleSet* rules_;
  rewrite::Draft draft_;
  rewrite::Matches matches_;
};

}  // namespace tandem::search
