// Rules prepared for matching. Rules with equal sources share the search: a source is matched once,
// and each of its rules only checks its own conditions.
//
// The slots of a source's outputs determine a match: from these, the pattern binds every variable.
// A match therefore stores only its rule, the outputs and the choices.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "rewrite/draft.h"
#include "rewrite/rule.h"

namespace tandem::rewrite {

// A rule and the place where it applies.
struct Match {
  static constexpr std::size_t kMaxOutputs = 4;
  static constexpr std::size_t kMaxChoices = 4;

  std::uint32_t rule = 0;
  std::array<Slot, kMaxOutputs> outputs{};          // slots of the source's outputs
  std::array<std::int32_t, kMaxChoices> choices{};  // values of the rule's choices, in order
  auto operator<=>(const Match&) const = default;
};

class RuleSet {
 public:
  struct Limits {
    std::vector<std::int64_t> degrees = {2};  // values for a symbol that is chosen as a degree
    std::size_t matches = 1'000'000;          // largest number of matches in a draft
  };

  // Throws UserError that names the rule if a rule has more outputs or choices than a match holds.
  RuleSet(std::vector<Rule> rules, Dictionary& dictionary, Limits limits);
  // Not copyable, because prepared sources refer to the rules. For use by one thread, like the
  // dictionary.
  RuleSet(const RuleSet&) = delete;
  RuleSet& operator=(const RuleSet&) = delete;

  [[nodiscard]] const std::vector<Rule>& rules() const { return rules_; }
  [[nodiscard]] const Limits& limits() const { return limits_; }
  // Returns the number of operators on the longest path of all sources.
  [[nodiscard]] std::size_t depth() const { return depth_; }

  // Appends to `out` the matches whose first output is `slot`, for rules with one output.
  void match_single(const Draft& draft, Slot slot, std::vector<Match>& out) const;
  // Appends to `out` the matches with `slot` among their outputs, for rules with several outputs.
  // If several outputs of a match are anchors, only the one with the lowest slot finds it.
  void match_several(const Draft& draft, const Users& users, Slot slot,
                     const std::vector<bool>& is_anchor, std::vector<Match>& out) const;

  // Returns the draft after the rewrite. Returns nullopt if the target does not fit, has other
  // types, equals the source, or would depend on itself. Draft::replace describes `changed`.
  [[nodiscard]] std::optional<Draft> apply(const Draft& draft, const Match& match,
                                           std::vector<Slot>& changed) const;
  // Applies a rule with one output in place. Returns false where the other `apply` returns nullopt.
  bool apply(DraftEdits& edits, const Match& match) const;

 private:
  // An attribute of a pattern's operator that can be compared, or binds symbols, immediately.
  struct CompiledPatternAttribute {
    enum class CompiledAttributeKind : std::uint8_t {
      kValue,
      kSymbol,
      kList
    } kind = CompiledAttributeKind::kValue;
    std::size_t position = 0;                // index in OpSpec::attributes
    ValueId value = {};                      // kValue
    std::uint16_t symbol = 0;                // kSymbol
    const Expression* expression = nullptr;  // kList: a list of symbols and numbers
  };
  // An attribute that has a value only once all symbols are bound.
  struct Computed {
    PatternId node = 0;
    std::size_t position = 0;
    const Expression* expression = nullptr;
  };
  struct CompiledPatternNode {
    bool is_variable = false;
    SpecId spec = {};
    std::vector<CompiledPatternAttribute> attributes;
    std::vector<PatternId> inputs;
  };
  // An output that is to be bound, and the path up to it from a bound node. Each step names a
  // parent and the operand by which it is reached. If the output is not connected, any node may
  // match it.
  struct Climb {
    struct ClimbStep {
      PatternId parent = 0;
      std::size_t operand = 0;
    };
    std::size_t output = 0;
    bool is_connected = false;
    PatternId from = 0;
    std::vector<ClimbStep> steps;
  };
  struct Source {
    std::vector<CompiledPatternNode> nodes;
    std::vector<PatternId> outputs;
    std::vector<Computed> computed;
    std::vector<std::uint32_t> rules;
    std::vector<std::vector<Climb>> climbs;  // by the output that is bound first
  };
  // An output of a source.
  struct Root {
    std::uint32_t source = 0;
    std::uint32_t output = 0;
  };
  class Attempt;

  [[nodiscard]] Source compile(const Rule& rule) const;
  static std::vector<Climb> find_climbs(const Source& source, std::size_t first);
  // Returns the roots that may match at `slot`, by its operator and those of its first two
  // operands.
  const std::vector<Root>& find_roots(const Draft& draft, Slot slot, bool several) const;
  struct Search {
    const Users& users;
    const std::vector<bool>& is_anchor;
    Slot anchor;
  };
  void bind_others(const Attempt& attempt, const Search& search, std::span<const Climb> climbs,
                   std::vector<Match>& out) const;
  void add_matches(const Attempt& attempt, std::vector<Match>& out) const;
  [[nodiscard]] std::vector<std::int64_t> list_choice_values(const Rule& rule, std::uint16_t symbol,
                                                             std::size_t rank) const;
  // Binds the source of a match. Returns nullopt if `draft` does not contain the match.
  std::optional<Attempt> bind(const Draft& draft, const Match& match) const;
  // Adds the target's nodes. Returns the replacements of the source's outputs. Returns an empty
  // list if the target does not fit or equals the source.
  template <class Edited>
  std::vector<Draft::Replacement> add_target(Edited& edited, const Rule& rule,
                                             const Attempt& attempt) const;
  template <class Edited>
  std::vector<Draft::Replacement> add_target(Edited& edited, const Rule& rule,
                                             const Attempt& attempt,
                                             const Bindings& bindings) const;
  std::optional<OpId> make_op(const PatternNode& node, const Bindings& bindings) const;

  std::vector<Rule> rules_;
  Dictionary& dictionary_;
  Limits limits_;
  std::vector<Source> sources_;
  std::vector<std::uint32_t> source_of_;  // index in sources_, by rule
  std::size_t depth_ = 0;
  mutable std::unordered_map<std::uint64_t, std::vector<Root>> roots_;  // filled on demand
};

}  // namespace tandem::rewrite
