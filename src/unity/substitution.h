// Substitution selection: searches the rewrites of a piece, best first. It expands the cheapest
// known graph by every rule at every place. Graphs that cost more than alpha times the best are
// dropped. It ends when none is left or the limit of candidates is reached. A graph's cost is that
// of its best mapping (mapping.h).
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
  std::span<const Seed> seeds = {};  // by node of the model
  bool follows_seed = false;         // starts from the single seed alone
  std::size_t candidates = 0;        // limit for a piece
  std::size_t patience = 0;  // candidates without gain that end the search, unless more came before
  std::function<bool()> is_over = {};  // ends it early
  std::function<void()> costed = {};   // called for each candidate
};

struct Found {
  double seconds = kImpossible;
  std::vector<rewrite::Match> steps;  // from the piece's graph on, including simplifications
  std::size_t candidates = 0;
  bool is_complete = false;  // whether every graph within alpha was expanded
};

// The rules and costs that all pieces of a search share.
class Substitutions {
 public:
  Substitutions(Placements& placements, MappingOptions mapping);

  Found best_of(const Piece& piece, const Substitution& options);

  // Returns whether rules split all operators as the seed does.
  bool is_reached(const graph::Graph& model, const Seed& seed);

  // Returns the drafts after each of the steps, the piece's own draft first.
  std::vector<rewrite::Draft> drafts_of(const Piece& piece,
                                        const std::vector<rewrite::Match>& steps);

  [[nodiscard]] const rewrite::RuleSet& rules() const { return rules_; }
  rewrite::Dictionary& dictionary() { return dictionary_; }
  MappingSearch& mapping() { return mapping_; }
  Placements& placements() { return placements_; }

 private:
  class Search;
  enum class Start : std::uint8_t { kPiece, kSamples, kSeeds };

  // Removes parallelization operators that undo each other. Appends the steps of `rules()` that did
  // it.
  void simplify(rewrite::Draft& draft, std::vector<rewrite::Match>& steps) const;

  rewrite::Dictionary dictionary_;
  rewrite::RuleSet rules_;
  std::vector<bool> simplifies_;            // by rule
  std::vector<std::uint32_t> simplifying_;  // indices in rules_, in the order of:
  rewrite::RuleSet simplifiers_;
  Placements& placements_;
  TaskGraphBuilder tasks_;
  MappingSearch mapping_;
};

}  // namespace tandem::unity
