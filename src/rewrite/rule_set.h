// Rules made ready for matching. Rules with equal sources share the search for it: a source is
// looked for once, and each of its rules only checks its own conditions.
//
// A place is where a source's outputs are: given those, patterns decide from the outputs down what
// every variable is. So a match holds no more than its rule, the outputs and the choices.
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

struct Match {
  static constexpr std::size_t kMaxOutputs = 4;
  static constexpr std::size_t kMaxChoices = 4;

  std::uint32_t rule = 0;
  std::array<Slot, kMaxOutputs> outputs{};          // of the source, as many as it has
  std::array<std::int32_t, kMaxChoices> choices{};  // of the rule's choices, in order
  auto operator<=>(const Match&) const = default;
};

class RuleSet {
 public:
  struct Limits {
    std::vector<std::int64_t> degrees = {2};  // for symbols that are chosen as a degree
    std::size_t matches = 1'000'000;          // of a draft; more are not looked for
  };

  // Throws UserError naming a rule that has more outputs or choices than a match holds.
  RuleSet(std::vector<Rule> rules, Dictionary& dictionary, Limits limits);
  // What is made ready refers to the rules, and is used as the dictionary is: by one thread.
  RuleSet(const RuleSet&) = delete;
  RuleSet& operator=(const RuleSet&) = delete;

  [[nodiscard]] const std::vector<Rule>& rules() const { return rules_; }
  [[nodiscard]] const Limits& limits() const { return limits_; }
  // The operators one above another in the deepest source.
  [[nodiscard]] std::size_t depth() const { return depth_; }

  // Adds the matches whose first output is `slot`, of rules with one output.
  void match_single(const Draft& draft, Slot slot, std::vector<Match>& out) const;
  // Adds the matches with `slot` among the outputs, of rules with several. Where several of a
  // match's outputs are anchors, only the one with the lowest number finds it.
  void match_several(const Draft& draft, const Users& users, Slot slot,
                     const std::vector<bool>& is_anchor, std::vector<Match>& out) const;

  // The draft after the rewrite. None where the target does not fit there, has other types, is the
  // source again, or would depend on itself. `changed` is as of Draft::replace.
  [[nodiscard]] std::optional<Draft> apply(const Draft& draft, const Match& match,
                                           std::vector<Slot>& changed) const;
  // The same in place, of a rule with one output. Returns false where `apply` gives none.
  bool apply(DraftEdits& edits, const Match& match) const;

 private:
  // Of a pattern's operator, one that can be compared or binds symbols at once.
  struct Attribute {
    enum class Kind : std::uint8_t { kValue, kSymbol, kList } kind = Kind::kValue;
    std::size_t position = 0;                // in OpSpec::attributes
    ValueId value = {};                      // kValue
    std::uint16_t symbol = 0;                // kSymbol
    const Expression* expression = nullptr;  // kList: of symbols and numbers
  };
  // One that has a value only once all symbols are bound.
  struct Computed {
    PatternId node = 0;
    std::size_t position = 0;
    const Expression* expression = nullptr;
  };
  struct Node {
    bool is_variable = false;
    SpecId spec = {};
    std::vector<Attribute> attributes;
    std::vector<PatternId> inputs;
  };
  // An output that is to be bound, and the way up to it from a node that is: by which operand of
  // which parent. Not connected: any node may be it.
  struct Climb {
    struct Step {
      PatternId parent = 0;
      std::size_t operand = 0;
    };
    std::size_t output = 0;
    bool is_connected = false;
    PatternId from = 0;
    std::vector<Step> steps;
  };
  struct Source {
    std::vector<Node> nodes;
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
  static std::vector<Climb> climbs_from(const Source& source, std::size_t first);
  // The roots that may be at `slot`, by its operator and those of its first two operands.
  const std::vector<Root>& roots_at(const Draft& draft, Slot slot, bool several) const;
  struct Search {
    const Users& users;
    const std::vector<bool>& is_anchor;
    Slot anchor;
  };
  void bind_others(const Attempt& attempt, const Search& search, std::span<const Climb> climbs,
                   std::vector<Match>& out) const;
  void add_matches(const Attempt& attempt, std::vector<Match>& out) const;
  [[nodiscard]] std::vector<std::int64_t> candidates(const Rule& rule, std::uint16_t symbol,
                                                     std::size_t rank) const;
  // Null where the match is none of the draft's.
  std::optional<Attempt> bind(const Draft& draft, const Match& match) const;
  // What the target's outputs replace; nothing where the target does not fit or is the source.
  template <class Edited>
  std::vector<Draft::Replacement> add_target(Edited& edited, const Rule& rule,
                                             const Attempt& attempt) const;
  template <class Edited>
  std::vector<Draft::Replacement> add_target(Edited& edited, const Rule& rule,
                                             const Attempt& attempt,
                                             const Bindings& bindings) const;
  std::optional<OpId> make(const PatternNode& node, const Bindings& bindings) const;

  std::vector<Rule> rules_;
  Dictionary& dictionary_;
  Limits limits_;
  std::vector<Source> sources_;
  std::vector<std::uint32_t> source_of_;  // by rule
  std::size_t depth_ = 0;
  mutable std::unordered_map<std::uint64_t, std::vector<Root>> roots_;  // filled as asked
};

}  // namespace tandem::rewrite
