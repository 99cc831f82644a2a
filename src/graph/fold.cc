#include "graph/fold.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <unordered_map>

#include "base/text.h"
#include "graph/text.h"

namespace tandem::graph {

namespace {

constexpr std::string_view kVariables = "ijklmnop";  // one per depth; deeper repeats are not folded
constexpr std::string_view kDigits = "0123456789";

std::string_view get_leading_digits(std::string_view text) {
  return text.substr(0, std::min(text.find_first_not_of(kDigits), text.size()));
}

// A number in a name that can count rounds; 007 cannot.
struct NameNumber {
  std::size_t at, length;
  std::int64_t value;
};

std::vector<NameNumber> find_numbers(std::string_view name) {
  constexpr std::size_t kLongest = 12;
  std::vector<NameNumber> out;
  for (std::size_t at = 0; (at = name.find_first_of(kDigits, at)) != std::string_view::npos;) {
    const auto digits = get_leading_digits(name.substr(at));
    const bool counts = digits.size() <= kLongest && (digits[0] != '0' || digits.size() == 1);
    if (counts) out.push_back({at, digits.size(), parse_int(digits).value()});
    at += digits.size();
  }
  return out;
}

// Returns the common template of two names: "l1.w" and "l2.w" with number 1 -> "l{i}.w". `slot` is
// "{i}". Returns nullopt if the names differ otherwise.
std::optional<std::string> find_common_template(std::string_view a, std::string_view b,
                                                std::int64_t number, std::string_view slot) {
  const auto of_a = fmt::format_int(number);
  const auto of_b = fmt::format_int(number + 1);
  std::string out;
  while (!a.empty() && !b.empty()) {
    const auto from_a = get_leading_digits(a);
    const auto from_b = get_leading_digits(b);
    if (from_a == from_b) {
      if (from_a.empty() && a[0] != b[0]) return std::nullopt;
      out += from_a.empty() ? a.substr(0, 1) : from_a;
    } else if (from_a == of_a.c_str() && from_b == of_b.c_str()) {
      out += slot;
    } else {
      return std::nullopt;
    }
    a.remove_prefix(std::max<std::size_t>(from_a.size(), 1));
    b.remove_prefix(std::max<std::size_t>(from_b.size(), 1));
  }
  if (!a.empty() || !b.empty()) return std::nullopt;
  return out;
}

bool matches_template(std::string_view name, std::string_view text, std::string_view slot,
                      std::string_view number) {
  while (true) {
    const auto at = text.find(slot);
    if (at == std::string_view::npos) return name == text;
    if (!name.starts_with(text.substr(0, at))) return false;
    name.remove_prefix(at);
    text.remove_prefix(at + slot.size());
    if (!name.starts_with(number)) return false;
    name.remove_prefix(number.size());
  }
}

using Position = std::uint32_t;  // index of a node in the graph

// Rounds of `period` nodes from `start` on, numbered from `number`.
struct RepeatRun {
  Position start = 0;
  Position period = 0;
  std::int64_t number = 0;
  std::int64_t count = 1;
  std::string slot;
  std::vector<std::string> names;  // names of one round's nodes, with the slot

  [[nodiscard]] Position end() const { return start + static_cast<Position>(count) * period; }
};

// Folds a graph. It looks for runs from the first node on, takes the first that saves lines, and
// continues after it. Then it looks for runs inside the first round. Inputs from outside of that
// round are the same in all rounds.
class GraphFolder {
 public:
  explicit GraphFolder(const Graph& graph)
      : graph_(graph), work_left_(kWork * (graph.size() + 1000)) {
    for (auto id : graph.ids()) {
      names_.emplace_back(graph.node(id).name);
      for (auto i : graph.inputs(id)) inputs_.push_back(i.value);
      inputs_end_.push_back(inputs_.size());
    }
  }

  std::vector<FoldedLine> run() {
    fold(0, static_cast<Position>(graph_.size()), 0);
    return std::move(lines_);
  }

 private:
  using ByName = std::unordered_map<std::string_view, Position>;

  // An input of at least this value is a carried value; the rest is its index in carried_.
  static constexpr Position kCarried = Position{1} << 31U;
  // Limit of node comparisons per node of the graph; after that, the rest is not folded.
  static constexpr std::size_t kWork = 64;

  [[nodiscard]] std::span<Position> inputs(Position node) {
    const std::size_t begin = node == 0 ? 0 : inputs_end_[node - 1];
    return std::span(inputs_).subspan(begin, inputs_end_[node] - begin);
  }

  void fold(Position begin, Position end, int depth) {
    ByName by_name;
    for (auto p = begin; p < end; ++p) by_name.emplace(names_[p], p);
    if (depth == 0) taken_ = by_name;
    for (auto p = begin; p < end;) {
      const auto run = find_run(p, end, by_name, depth);
      if (run) {
        write_run(*run, depth);
        p = run->end();
      } else {
        write_node(p++, depth);
      }
    }
  }

  // --- Finding ----------------------------------------------------------------------------------

  std::optional<RepeatRun> find_run(Position start, Position end, const ByName& by_name,
                                    int depth) {
    if (static_cast<std::size_t>(depth) == kVariables.size()) return std::nullopt;
    const auto name = names_[start];
    for (const auto& n : find_numbers(name)) {
      const auto next =
          fmt::format("{}{}{}", name.substr(0, n.at), n.value + 1, name.substr(n.at + n.length));
      const auto second = by_name.find(next);
      if (second == by_name.end() || second->second <= start) continue;
      RepeatRun run{.start = start,
                    .period = second->second - start,
                    .number = n.value,
                    .slot = {},
                    .names = {}};
      run.slot = fmt::format("{{{}}}", kVariables[static_cast<std::size_t>(depth)]);
      if (extend(run, end) && saves_lines(run)) return run;
    }
    return std::nullopt;
  }

  // Extends the run by as many equal rounds as follow. Returns false if there are not two.
  bool extend(RepeatRun& run, Position end) {
    if (end - run.start < 2 * run.period) return false;
    for (Position k = 0; k < run.period; ++k) {
      if (!matches_second(run, run.start + k)) return false;
    }
    for (run.count = 2; end - run.end() >= run.period; ++run.count) {
      const fmt::format_int number(run.number + run.count);
      for (Position k = 0; k < run.period; ++k) {
        if (!matches_later(run, k, number.c_str())) return true;
      }
    }
    return true;
  }

  bool is_same_node(Position a, Position b) {
    if (work_left_ == 0) return false;
    --work_left_;
    const Node& x = graph_.node(NodeId(a));
    const Node& y = graph_.node(NodeId(b));
    return x.op == y.op && inputs(a).size() == inputs(b).size() && x.type == y.type;
  }

  [[nodiscard]] static bool is_outside(const RepeatRun& run, Position input) {
    return input < run.start || input >= kCarried;
  }

  // Returns whether the second round has the same node with the next number.
  bool matches_second(RepeatRun& run, Position node) {
    const auto other = node + run.period;
    if (!is_same_node(node, other)) return false;
    for (std::size_t i = 0; i < inputs(node).size(); ++i) {
      const auto a = inputs(node)[i];
      const auto b = inputs(other)[i];
      const bool carried = b >= run.start && b < run.start + run.period;
      if (is_outside(run, a) ? a != b && !carried : b != a + run.period) return false;
    }
    auto name = find_common_template(names_[node], names_[other], run.number, run.slot);
    if (name) run.names.push_back(std::move(*name));
    return name.has_value();
  }

  // Returns whether the k-th node of the next round is the same as in the round before. An input
  // must change from each round to the next as it does from the first to the second.
  bool matches_later(const RepeatRun& run, Position k, std::string_view number) {
    const auto node = run.end() + k;
    const auto before = node - run.period;
    if (!is_same_node(node, before)) return false;
    for (std::size_t i = 0; i < inputs(node).size(); ++i) {
      const bool fixed = inputs(run.start + k)[i] == inputs(run.start + run.period + k)[i];
      if (inputs(node)[i] != inputs(before)[i] + (fixed ? 0 : run.period)) return false;
    }
    return matches_template(names_[node], run.names[k], run.slot, number);
  }

  // --- Carried values

  // A carried value: an input from outside of the first round, and its counterpart for the second
  // round, which is in the first round.
  using Carry = std::pair<Position, Position>;

  template <class Visit>
  void for_each_carried(const RepeatRun& run, Visit&& visit) {
    for (auto node = run.start; node < run.start + run.period; ++node) {
      for (std::size_t i = 0; i < inputs(node).size(); ++i) {
        auto& first = inputs(node)[i];
        const auto later = inputs(node + run.period)[i];
        if (is_outside(run, first) && first != later) visit(Carry{first, later}, first);
      }
    }
  }

  bool saves_lines(const RepeatRun& run) {
    std::map<Carry, int> carries;
    for_each_carried(run, [&](const Carry& carry, Position) { ++carries[carry]; });
    const auto period = static_cast<std::int64_t>(run.period);
    return run.count * period > period + 2 + static_cast<std::int64_t>(carries.size());
  }

  // Returns a name that no node and no value carried here has.
  std::string make_fresh_name() {
    std::string name;
    do name = ++names_tried_ == 1 ? "in" : fmt::format("in{}", names_tried_);
    while (taken_.contains(name));
    return name;
  }

  // --- Writing

  [[nodiscard]] std::string_view get_name(Position input) const {
    return input >= kCarried ? carried_[input - kCarried] : names_[input];
  }

  void write_node(Position node, int depth) {
    std::vector<std::string_view> names;
    for (auto i : inputs(node)) names.push_back(get_name(i));
    const NodeId id(node);
    lines_.push_back({.depth = depth,
                      .text = format_node(graph_.node(id), names_[node], names),
                      .first = id,
                      .name = std::string(names_[node]),
                      .operands = {names.begin(), names.end()}});
  }

  void write_run(const RepeatRun& run, int depth) {
    const std::vector<std::string_view> real(names_.begin() + run.start,
                                             names_.begin() + run.start + run.period);
    const auto carried_before = std::pair(carried_.size(), names_tried_);
    lines_.push_back({.kind = FoldedLine::FoldedLineKind::kRepeat,
                      .depth = depth,
                      .text = fmt::format("repeat {} as {} from {}", run.count,
                                          kVariables[static_cast<std::size_t>(depth)], run.number),
                      .first = NodeId(run.start),
                      .nodes = run.period,
                      .count = run.count,
                      .from = run.number,
                      .name = run.slot});
    std::ranges::copy(run.names, names_.begin() + run.start);
    write_carries(run, depth + 1);
    fold(run.start, run.start + run.period, depth + 1);
    lines_.push_back(
        {.kind = FoldedLine::FoldedLineKind::kEnd, .depth = depth, .text = "end", .nodes = 0});
    std::ranges::copy(real, names_.begin() + run.start);
    carried_.resize(carried_before.first);
    names_tried_ = carried_before.second;
  }

  // Declares the carried values and makes the first round use them.
  void write_carries(const RepeatRun& run, int depth) {
    std::map<Carry, Position> carries;
    for_each_carried(run, [&](const Carry& carry, Position& input) {
      const auto [at, fresh] = carries.try_emplace(carry, kCarried);
      if (fresh) {
        at->second += static_cast<Position>(carried_.size());
        const auto [first, later] = carry;
        const auto name = make_fresh_name();
        lines_.push_back(
            {.kind = FoldedLine::FoldedLineKind::kCarry,
             .depth = depth,
             .text = fmt::format("carry %{} = %{} then %{}", name, get_name(first), names_[later]),
             .nodes = 0,
             .name = name,
             .operands = {std::string(get_name(first)), std::string(names_[later])}});
        carried_.push_back(name);
      }
      input = at->second;
    });
  }

  const Graph& graph_;
  std::vector<std::string_view> names_;  // by node, with the slots of the rounds being written
  std::vector<Position> inputs_;         // inputs of all nodes, concatenated
  std::vector<std::size_t> inputs_end_;  // by node
  std::deque<std::string> carried_;      // names of the values carried here
  std::size_t names_tried_ = 0;          // number of names tried for them
  ByName taken_;                         // all nodes' real names
  std::size_t work_left_;
  std::vector<FoldedLine> lines_;
};

// Returns the column after the longest line with a comment; a few very long lines are ignored.
std::size_t find_comment_column(const std::vector<FoldedLine>& lines,
                                const std::vector<std::string>& comments) {
  constexpr std::size_t kFarthest = 80;
  std::size_t column = 0;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const auto width = 2 * static_cast<std::size_t>(lines[i].depth) + lines[i].text.size() + 2;
    if (!comments[i].empty() && width <= kFarthest) column = std::max(column, width);
  }
  return column;
}

}  // namespace

std::vector<FoldedLine> fold(const Graph& graph) { return GraphFolder(graph).run(); }

std::string to_folded_text(const Graph& graph, const FoldedTextOptions& options) {
  const auto lines = fold(graph);
  std::vector<std::string> comments;
  comments.reserve(lines.size());
  for (const auto& line : lines) {
    comments.push_back(options.comment ? options.comment(line) : std::string());
  }
  const auto column = find_comment_column(lines, comments);
  std::string out;
  for (const auto& line : options.header) out += fmt::format("# {}\n", line);
  out += fmt::format("graph {}\n", graph.name());
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const auto start = out.size();
    out.append(2 * static_cast<std::size_t>(lines[i].depth), ' ').append(lines[i].text);
    if (!comments[i].empty()) {
      const auto width = out.size() - start;
      out.append(std::max(column, width + 2) - width, ' ').append("# ").append(comments[i]);
    }
    out += '\n';
  }
  return out.append(format_return(graph)).append("\n");
}

}  // namespace tandem::graph
