// Substitution selection: the rewritings of a piece, best first. The cheapest graph that was found
// is taken up, every rule applied to it at every place, and what costs more than alpha times the
// best is dropped; until none is left or there have been enough. A graph costs what its best
// mapping does (mapping.h).
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "rewrite/matches.h"
#include "unity/mapping.h"
#include "unity/rules.h"
#include "unity/seeds.h"

namespace tandem::unity {

// A part of the model by itself.
struct Piece {
  graph::Graph graph;
  std::optional<BorderInput> border = {};
  bool has_border_output = false;
  std::vector<Seed> seeds = {};  // by node of the graph
};

struct Substitution {
  double alpha = 1.05;
  std::span<const Seed> seeds = {};  // of the model
  bool follows_seed = false;         // there is one, to begin with it alone
  std::size_t candidates = 0;        // costed at most, for a piece
  std::size_t patience = 0;  // ends it when so many, or as many as before, have gained nothing
  std::function<bool()> is_over = {};  // ends it early
  std::function<void()> costed = {};   // told of each candidate
};

struct Found {
  double seconds = kImpossible;
  std::vector<rewrite::Match> steps;  // from the piece's graph on; simplifications among them
  std::size_t candidates = 0;
  bool is_complete = false;  // nothing else was in reach within alpha
};

// What rules and costs are shared by all pieces of a search.
class Substitutions {
 public:
  Substitutions(Placements& placements, MappingOptions mapping);

  Found best_of(const Piece& piece, const Substitution& options);

  // Do rules cut all operators as the seed has them?
  bool is_reached(const graph::Graph& model, const Seed& seed);

  // The drafts that the steps go through, the piece's own first.
  std::vector<rewrite::Draft> drafts_of(const Piece& piece,
                                        const std::vector<rewrite::Match>& steps);

  [[nodiscard]] const rewrite::RuleSet& rules() const { return rules_; }
  rewrite::Dictionary& dictionary() { return dictionary_; }
  MappingSearch& mapping() { return mapping_; }
  Placements& placements() { return placements_; }

 private:
  class Search;
  enum class Start : std::uint8_t { kPiece, kSamples, kSeeds };

  // Removes parallelization operators that undo each other; the steps of `rules()` that did it.
  void simplify(rewrite::Draft& draft, std::vector<rewrite::Match>& steps) const;

  rewrite::Dictionary dictionary_;
  rewrite::RuleSet rules_;
  std::vector<bool> simplifies_;            // by rule
  std::vector<std::uint32_t> simplifying_;  // rules, in the order of:
  rewrite::RuleSet simplifiers_;
  Placements& placements_;
  TaskGraphBuilder tasks_;
  MappingSearch mapping_;
};

}  // namespace tandem::unity
