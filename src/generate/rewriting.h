// Does an equation follow from others? Those are used as rewrites, in both directions, on both
// sides of it, breadth first, until the two meet or a bound is reached. A bound that is reached
// leaves an equation that might follow: it is kept.
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
  std::size_t states = 300;  // that are looked at, of both sides together
  std::size_t growth = 1;    // how many operators more than the larger side has
};

class Rewriting {
 public:
  Rewriting(const TensorTable& table, Formulas& formulas)
      : table_(table), formulas_(formulas), steps_(formulas.programs().operations().size()) {}

  // Of several outputs: from left to right, where the outputs on the left are in different places.
  void add(const Equation& equation);
  // One of several outputs that was added.
  void forget(const Equation& equation);
  // Of one output.
  bool derives(const Equation& equation, const Bounds& bounds);
  // Of several: does the left become the right, as a graph does by rules? Steps that lose a
  // variable have no way back, so that from the right only those of `backward` are taken.
  bool derives(const Equation& equation, Rewriting& backward, const Bounds& bounds);

 private:
  // What the root of a formula is made by, and its first two operands: most steps fit a formula in
  // the first only.
  struct Roots {
    std::uint16_t operation = kVariable;
    std::array<std::uint16_t, 2> operands = {kVariable, kVariable};
  };
  struct Step {
    FormulaId pattern = 0;
    FormulaId replacement = 0;
    Roots roots;
    std::uint32_t number = 0;
  };
  // By variable of the pattern, what is in its place.
  struct Match {
    static constexpr std::size_t kMost = 32;
    std::array<Formulas::Image, kMost> images;
    std::size_t count = 0;
    [[nodiscard]] std::span<const Formulas::Image> all() const {
      return std::span(images).first(count);
    }
  };
  // What is still to be matched.
  struct Open {
    static constexpr std::size_t kMost = 64;
    struct Pair {
      FormulaId pattern;
      FormulaId formula;
    };
    std::array<Pair, kMost> pairs;
    std::size_t count = 0;
    void add(FormulaId pattern, FormulaId formula) {
      CHECK(count < kMost);
      pairs[count++] = {pattern, formula};
    }
  };

  void add_step(FormulaId pattern, FormulaId replacement);
  [[nodiscard]] Roots roots_of(FormulaId id) const;
  [[nodiscard]] bool may_fit(const Roots& pattern, const Roots& formula) const;
  void match_all(Open open, Match match, std::vector<Match>& out) const;
  bool holds(const Step& step, const Match& match);
  const std::vector<FormulaId>& rewrites(FormulaId formula);
  bool expand(FormulaId state, std::size_t limit, bool side, std::vector<FormulaId>& next);

  // The same of lists of formulas, one for each output.
  using State = std::vector<FormulaId>;
  struct StepOfSeveral {
    State patterns;
    State replacements;
    bool operator==(const StepOfSeveral&) const = default;
  };
  std::vector<State> rewrites_of_several(const State& state);
  void rewrite_by(const StepOfSeveral& step, const State& state, std::vector<State>& out);
  bool holds_at(const StepOfSeveral& step, const Match& match);
  // The state with images of some of its parts.
  std::optional<State> replaced(const State& state, std::span<const Formulas::Image> images);
  [[nodiscard]] State parts_of(const State& state) const;

  const TensorTable& table_;
  Formulas& formulas_;
  std::vector<std::vector<Step>> steps_;  // by the pattern's operation
  std::uint32_t number_of_steps_ = 0;
  std::vector<StepOfSeveral> several_;
  // By step and the types of what its variables stand for: those asked, and of these those that
  // hold.
  HashSet asked_;
  HashSet hold_;
  // What the steps make of a formula at its root, and how many steps of its operation there were.
  struct Known {
    std::size_t steps = 0;
    std::vector<FormulaId> images;
  };
  std::deque<Known> known_;
  std::vector<std::uint32_t> known_at_;  // by formula, where in it and one more; 0: nowhere yet
  std::vector<Match> matches_;           // kept for their storage, as are parts_
  std::vector<FormulaId> parts_;         // of the state that is expanded
  // By formula, in which search it was reached last and from which side.
  std::vector<std::uint32_t> reached_;
  std::uint32_t search_ = 0;
};

}  // namespace tandem::generate
