// Substitution selection: searches the rewrites of a piece, best first. It expands the cheapest
// known graph by every rule at every place. Graphs that cost more than alpha times the best are
// dropped. It ends when none is left or the limit of candidates is reached. A graph's cost is that
// of its best mapping (mapping.h).
//
// Example with alpha = 1.05: the piece costs 10 ms. A graph of 10.4 ms is queued, one of 11 ms is
// dropped. Once a graph of 8 ms is found, that of 10.4 ms is not expanded any more.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "rewrite/matches.h"
#include "unity/initial_layouts.h"
#include "unity/mapping.h"
#include "unity/search_rules.h"

namespace tandem::unity {

// A part of the model by itself.
struct ModelPiece {
  graph::Graph graph;
  std::optional<BorderInput> border = {};
  bool has_border_output = false;
  std::vector<InitialLayouts> initial_layouts = {};  // by node of the graph
};

struct Substitution {
  double alpha = 1.05;
  std::span<const InitialLayouts> initial_layouts = {};  // by node of the model
  bool only_initial_layouts = false;                     // starts from the single seed alone
  std::size_t candidates = 0;                            // limit for a piece
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

  Found find_best(const ModelPiece& piece, const Substitution& options);

  // Returns whether rules split all operators as the seed does.
  bool can_reach(const graph::Graph& model, const InitialLayouts& seed);

  // Returns the drafts after each of the steps, the piece's own draft first.
  std::vector<rewrite::Draft> replay_steps(const ModelPiece& piece,
                                           const std::vector<rewrite::Match>& steps);

  [[nodiscard]] const rewrite::RuleSet& rules() const { return rules_; }
  rewrite::Dictionary& dictionary() { return dictionary_; }
  MappingSearch& mapping() { return mapping_; }
  Placements& placements() { return placements_; }

 private:
  class SubstitutionSearch;
  enum class SubstitutionStart : std::uint8_t { kPiece, kSamples, kInitialLayouts };

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
