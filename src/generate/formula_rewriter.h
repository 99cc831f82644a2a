// Decides whether an equation follows from others. The others are rewrites, used in both directions
// on both sides of the equation. The search is breadth-first and ends when the two sides meet or a
// bound is reached. If a bound is reached, the equation is retained, although it might follow.
#pragma once

#include <array>
#include <deque>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/hash_set.h"
#include "generate/equations.h"

namespace tandem::generate {

struct Bounds {
  std::size_t states = 300;  // largest number of visited states, both sides together
  std::size_t growth = 1;    // number of operators beyond those of the larger side
};

class FormulaRewriter {
 public:
  FormulaRewriter(const TensorTable& table, Formulas& formulas)
      : table_(table), formulas_(formulas), steps_(formulas.programs().operations().size()) {}

  // Adds a rewrite. An equation of several outputs is used from left to right, where its left
  // outputs match different places.
  void add(const Equation& equation);
  // Removes an equation of several outputs that was added.
  void forget(const Equation& equation);
  // Returns whether an equation of one output follows.
  bool derives(const Equation& equation, const Bounds& bounds);
  // Returns whether the left side of an equation of several outputs becomes the right side, as a
  // graph does by rules. A step that loses a variable has no inverse, so the search from the right
  // uses only `backward`.
  bool derives(const Equation& equation, FormulaRewriter& backward, const Bounds& bounds);

 private:
  // The operation of a formula's root, and those of its first two operands. Most steps agree with a
  // formula only in the root, so the operands exclude them quickly.
  struct Roots {
    std::uint16_t operation = kVariable;
    std::array<std::uint16_t, 2> operands = {kVariable, kVariable};
  };
  struct FormulaRewriteStep {
    FormulaId pattern = 0;
    FormulaId replacement = 0;
    Roots roots;
    std::uint32_t number = 0;
  };
  // The images of a pattern's variables.
  struct FormulaMatch {
    static constexpr std::size_t kMost = 32;
    std::array<Formulas::Image, kMost> images;
    std::size_t count = 0;
    [[nodiscard]] std::span<const Formulas::Image> all() const {
      return std::span(images).first(count);
    }
  };
  // The pairs that are still to be matched.
  struct Open {
    static constexpr std::size_t kMost = 64;
    struct FormulaPair {
      FormulaId pattern;
      FormulaId formula;
    };
    std::array<FormulaPair, kMost> pairs;
    std::size_t count = 0;
    void add(FormulaId pattern, FormulaId formula) {
      CHECK(count < kMost);
      pairs[count++] = {pattern, formula};
    }
  };

  void add_step(FormulaId pattern, FormulaId replacement);
  [[nodiscard]] Roots get_roots(FormulaId id) const;
  [[nodiscard]] bool may_fit(const Roots& pattern, const Roots& formula) const;
  void match_all(Open open, FormulaMatch match, std::vector<FormulaMatch>& out) const;
  bool holds(const FormulaRewriteStep& step, const FormulaMatch& match);
  const std::vector<FormulaId>& find_rewrites(FormulaId formula);
  bool expand(FormulaId state, std::size_t limit, bool side, std::vector<FormulaId>& next);

  // States and steps for lists of formulas, one for each output.
  using State = std::vector<FormulaId>;
  struct StepOfSeveral {
    State patterns;
    State replacements;
    bool operator==(const StepOfSeveral&) const = default;
  };
  std::vector<State> find_state_rewrites(const State& state);
  void rewrite_by(const StepOfSeveral& step, const State& state, std::vector<State>& out);
  bool holds_at(const StepOfSeveral& step, const FormulaMatch& match);
  // Returns the state with some of its parts replaced by `images`, or nullopt if that is not legal.
  std::optional<State> replace_parts(const State& state, std::span<const Formulas::Image> images);
  [[nodiscard]] State list_parts(const State& state) const;

  const TensorTable& table_;
  Formulas& formulas_;
  std::vector<std::vector<FormulaRewriteStep>> steps_;  // by the pattern's operation
  std::uint32_t number_of_steps_ = 0;
  std::vector<StepOfSeveral> several_;
  // Hashes of a step and the types of its variables' images: those tested, and those of them that
  // hold.
  HashSet asked_;
  HashSet hold_;
  // Results of the steps at the root of a formula, and the number of its operation's steps that
  // were tried.
  struct CachedRewrites {
    std::size_t steps = 0;
    std::vector<FormulaId> images;
  };
  std::deque<CachedRewrites> known_;
  std::vector<std::uint32_t> known_at_;  // by formula, index in known_ plus one; 0: none
  std::vector<FormulaMatch> matches_;    // reused storage, as are parts_
  std::vector<FormulaId> parts_;         // parts of the state that is expanded
  // Last search that reached each formula, and its side: 2 * search + side.
  std::vector<std::uint32_t> reached_;
  std::uint32_t search_ = 0;
};

}  // namespace tandem::generate
