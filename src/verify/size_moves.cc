#include "verify/size_moves.h"

#include <algorithm>

#include "verify/operator_moves.h"
#include "verify/rule_typer.h"

namespace tandem::verify {

namespace {

std::size_t count_sizes(const Instance& instance) {
  std::size_t out = 0;
  for (const auto& type : instance.tensors) out += type.shape.rank();
  return out;
}

// Returns `base` after `times` moves. Returns nullopt if a size would be below 1 or its degree
// would not divide it.
std::optional<Instance> shift_instance(const Instance& base, const Move& move, std::int64_t times) {
  Instance out = base;
  std::size_t at = 0;
  for (auto& type : out.tensors) {
    for (auto& size : type.shape.sizes) {
      size += times * move[at++];
      if (size < 1) return std::nullopt;
    }
  }
  for (auto& symbol : out.symbols) {
    const auto change = times * move[at++];
    if (change != 0) *symbol = std::get<std::int64_t>(*symbol) + change;
  }
  // Every degree must divide its size.
  for (const auto& type : out.tensors) {
    for (std::size_t d = 0; d < type.shape.rank(); ++d) {
      if (type.shape.sizes[d] % type.shape.degrees[d] != 0) return std::nullopt;
    }
  }
  return out;
}

// A way in which the sizes of all tensors of the source may change.
struct Generator {
  Move change;                // change of the variables
  std::vector<Vector> nodes;  // changes of every typed node's sizes
};

Generator combine_generators(std::span<const Generator> generators, const Vector& factors) {
  Generator out;
  for (std::size_t g = 0; g < generators.size(); ++g) {
    const auto add = [&](Vector& to, const Vector& from) {
      to.resize(from.size());
      for (std::size_t i = 0; i < from.size(); ++i) to[i] += factors[g] * from[i];
    };
    add(out.change, generators[g].change);
    out.nodes.resize(generators[g].nodes.size());
    for (std::size_t n = 0; n < out.nodes.size(); ++n) add(out.nodes[n], generators[g].nodes[n]);
  }
  return out;
}

class MoveFinder {
 public:
  MoveFinder(const Rule& rule, InstancePattern& pattern)
      : rule_(rule),
        pattern_(pattern),
        typer_(rule),
        sizes_(count_sizes(pattern.base)),
        count_(sizes_ + pattern.base.symbols.size()) {}

  void run() {
    compose();
    make_positive();
    std::vector<Move> refused;
    for (const auto& generator : generators_) {
      if (!add(generator.change)) refused.push_back(generator.change);
    }
    add_sums_of_moves(refused);
    add_with_symbols();
  }

  // Adds moves for symbols that are the sizes of a constant, since no operator's moves change
  // several of these at once. Everything as large as a symbol that does not move grows with it.
  void add_moves_of_equal_sizes() {
    const auto symbol = [&](std::size_t s) {
      return std::get_if<std::int64_t>(&*pattern_.base.symbols[s]);
    };
    for (std::size_t s = 0; s < pattern_.base.symbols.size(); ++s) {
      const auto* value = symbol(s);
      const bool moves =
          std::ranges::any_of(pattern_.moves, [&](const Move& m) { return m[sizes_ + s] != 0; });
      if (value != nullptr && *value > 1 && !moves) add(make_change_of_equal(*value));
    }
  }

 private:
  // Goes from operator to operator. Retains the changes of the earlier tensors that are moves of
  // the operator.
  void compose() {
    const auto side = type_side(rule_.source, pattern_.base);
    CHECK(side.has_value(), rule_.name);
    first_.resize(pattern_.base.tensors.size());
    for (std::size_t i = 1; i < first_.size(); ++i) {
      first_[i] = first_[i - 1] + pattern_.base.tensors[i - 1].shape.rank();
    }
    auto& table = TypeTable::get_thread_local();
    for (std::size_t n = 0; n < side->nodes.size(); ++n) {
      const auto& node = side->nodes[n];
      if (node.op) {
        std::vector<TypeTable::TypeId> inputs;
        inputs.reserve(node.inputs.size());
        for (auto i : node.inputs) inputs.push_back(table.intern(side->nodes[i].type));
        const auto sized = make_sized_operator(rule_.source.nodes[n], pattern_.base);
        if (sized.measured.empty()) {
          constrain(node, sized, operator_moves(*node.op, inputs));
        } else {
          constrain(node, sized, operator_moves(sized, inputs));
        }
      } else {
        add_variable(n, first_[node.variable], node.type.shape.rank());
      }
    }
  }

  void add_variable(std::size_t n, std::size_t first, std::size_t rank) {
    for (auto& g : generators_) g.nodes.emplace_back(rank);
    for (std::size_t d = 0; d < rank; ++d) {
      Generator g{Move(count_), std::vector<Vector>(n + 1)};
      for (std::size_t i = 0; i < n; ++i) g.nodes[i].resize(node_ranks_[i]);
      g.nodes[n].resize(rank);
      g.nodes[n][d] = 1;
      g.change[first + d] = 1;
      generators_.push_back(std::move(g));
    }
    node_ranks_.push_back(rank);
  }

  void constrain(const TypedNode& node, const SizedOperator& sized, const OperatorMoves& moves) {
    const auto rank = node.type.shape.rank();
    node_ranks_.push_back(rank);
    const auto count = generators_.size();
    const auto columns = count + moves.inputs.size();
    std::vector<Vector> rows;
    const auto add_row = [&](auto&& change_in) {
      Vector row(columns);
      for (std::size_t g = 0; g < count; ++g) row[g] = change_in(generators_[g]);
      for (std::size_t m = 0; m < moves.inputs.size(); ++m) {
        row[count + m] = -moves.inputs[m][rows.size()];
      }
      rows.push_back(std::move(row));
    };
    for (auto i : node.inputs) {
      for (std::size_t d = 0; d < node_ranks_[i]; ++d) {
        add_row([&](const Generator& g) { return g.nodes[i][d]; });
      }
    }
    for (auto v : sized.measured) {
      for (std::size_t d = 0; d < pattern_.base.tensors[v].shape.rank(); ++d) {
        add_row([&](const Generator& g) { return g.change[first_[v] + d]; });
      }
    }
    std::vector<Generator> next;
    for (const auto& solution : compute_null_space(std::move(rows), columns)) {
      auto g = combine_generators(generators_, solution);
      Vector out(rank);
      for (std::size_t m = 0; m < moves.output.size(); ++m) {
        for (std::size_t d = 0; d < rank; ++d) out[d] += solution[count + m] * moves.output[m][d];
      }
      g.nodes.push_back(std::move(out));
      const bool changes = std::ranges::any_of(g.change, [](auto n) { return n != 0; });
      if (changes) next.push_back(std::move(g));
    }
    generators_ = std::move(next);
  }

  // Makes all changes positive, as sizes only grow. If a size shrinks, adds a move that makes it
  // grow.
  void make_positive() {
    for (auto& g : generators_) {
      for (std::size_t i = 0; i < count_; ++i) {
        for (const auto& other : generators_) {
          if (g.change[i] >= 0 || other.change[i] <= 0) continue;
          const auto times = (-g.change[i] + other.change[i] - 1) / other.change[i];
          for (std::size_t c = 0; c < count_; ++c) g.change[c] += times * other.change[c];
        }
      }
    }
  }

  bool holds(const Move& move, std::int64_t times) {
    const auto instance = shift_instance(pattern_.base, move, times);
    return instance && typer_.occurs(*instance);
  }

  bool add(const Move& move) {
    if (std::ranges::find(pattern_.moves, move) != pattern_.moves.end()) return true;
    for (std::int64_t step : {1, 2, 3, 4}) {
      if (!holds(move, step) || !holds(move, kFar * step)) continue;
      pattern_.moves.push_back(move);
      for (auto& n : pattern_.moves.back()) n *= step;
      return true;
    }
    return false;
  }

  // Adds sums of moves, since a condition may allow moves only together.
  void add_sums_of_moves(const std::vector<Move>& refused) {
    const auto sum = [&](Move a, const Move& b) {
      for (std::size_t i = 0; i < count_; ++i) a[i] += b[i];
      return a;
    };
    const auto known = pattern_.moves;
    for (std::size_t i = 0; i < refused.size(); ++i) {
      bool found = false;
      for (const auto& move : known) found = add(sum(refused[i], move)) || found;
      for (std::size_t j = i + 1; j < refused.size(); ++j) {
        found = add(sum(refused[i], refused[j])) || found;
      }
      for (std::size_t j = i + 1; j < refused.size() && !found; ++j) {
        for (std::size_t k = j + 1; k < refused.size() && !found; ++k) {
          found = add(sum(sum(refused[i], refused[j]), refused[k]));
        }
      }
    }
    if (!refused.empty()) add_tied_moves();
  }

  // Handles conditions that tie more than three moves: a size that does not move grows with all
  // sizes equal to it.
  void add_tied_moves() {
    std::size_t at = 0;
    for (const auto& type : pattern_.base.tensors) {
      for (auto size : type.shape.sizes) {
        const auto place = at++;
        const bool moves =
            std::ranges::any_of(pattern_.moves, [&](const Move& m) { return m[place] != 0; });
        if (size == 1 || moves) continue;
        auto move = make_change_of_equal(size);
        if (add(move)) continue;
        std::fill(move.begin() + static_cast<std::ptrdiff_t>(sizes_), move.end(), 0);
        add(move);
      }
    }
  }

  // Adds integer symbols that grow with a size, as the length of a slice does.
  void add_with_symbols() {
    for (std::size_t s = sizes_; s < count_; ++s) {
      if (!std::holds_alternative<std::int64_t>(*pattern_.base.symbols[s - sizes_])) continue;
      Move alone(count_);
      alone[s] = 1;
      if (add(alone)) continue;
      const auto known = pattern_.moves;
      for (std::size_t i = 0; i < known.size(); ++i) {
        auto move = known[i];
        move[s] = 1;
        if (add(move)) break;
      }
      for (const auto& generator : generators_) {
        auto move = generator.change;
        move[s] = 1;
        if (std::ranges::find(known, generator.change) == known.end() && add(move)) break;
      }
    }
  }

  // Returns the change that increases every size and integer symbol equal to `value`.
  [[nodiscard]] Move make_change_of_equal(std::int64_t value) const {
    Move out;
    for (const auto& type : pattern_.base.tensors) {
      for (auto size : type.shape.sizes) out.push_back(size == value ? 1 : 0);
    }
    for (const auto& symbol : pattern_.base.symbols) {
      const auto* number = std::get_if<std::int64_t>(&*symbol);
      out.push_back(number != nullptr && *number == value ? 1 : 0);
    }
    return out;
  }

  const Rule& rule_;
  InstancePattern& pattern_;
  RuleTyper typer_;
  std::size_t sizes_;
  std::size_t count_;
  std::vector<std::size_t> first_;  // by variable: the position of its first size
  std::vector<std::size_t> node_ranks_;
  std::vector<Generator> generators_;
};

Instance apply_steps(const InstancePattern& pattern, std::span<const std::int64_t> steps,
                     bool& positive) {
  Move sum(count_sizes(pattern.base) + pattern.base.symbols.size());
  for (std::size_t j = 0; j < steps.size(); ++j) {
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += steps[j] * pattern.moves[j][i];
  }
  auto out = shift_instance(pattern.base, sum, 1);
  positive = out.has_value();
  return out.value_or(Instance{});
}

// Returns how often a move may be applied, negative counts included, with all sizes that it changes
// in 1..largest.
std::vector<std::int64_t> list_steps_within(const InstancePattern& pattern, const Move& move,
                                            std::int64_t largest) {
  std::vector<std::int64_t> out;
  for (std::int64_t t = -16; t <= largest; ++t) {
    bool good = true;
    std::size_t at = 0;
    for (const auto& type : pattern.base.tensors) {
      for (auto size : type.shape.sizes) {
        const auto change = move[at++];
        const auto n = size + t * change;
        good = good && (change == 0 || (n >= 1 && n <= std::max(largest, t == 0 ? n : 0)));
      }
    }
    for (const auto& symbol : pattern.base.symbols) {
      const auto change = move[at++];
      good = good &&
             (change == 0 || std::abs(std::get<std::int64_t>(*symbol) + t * change) <= largest);
    }
    if (good) out.push_back(t);
  }
  if (out.empty()) out.push_back(0);
  return out;
}

std::optional<Instance> apply_moves(RuleTyper& typer, const InstancePattern& pattern,
                                    std::span<const std::int64_t> steps) {
  bool positive = false;
  auto out = apply_steps(pattern, steps, positive);
  if (!positive || !typer.occurs(out)) return std::nullopt;
  return out;
}

}  // namespace

void find_moves(const Rule& rule, InstancePattern& pattern) {
  pattern.moves.clear();
  MoveFinder(rule, pattern).run();
}

void add_moves_of_equal_sizes(const Rule& rule, InstancePattern& pattern) {
  MoveFinder(rule, pattern).add_moves_of_equal_sizes();
}

std::optional<Instance> apply_moves(const Rule& rule, const InstancePattern& pattern,
                                    std::span<const std::int64_t> steps) {
  RuleTyper typer(rule);
  return apply_moves(typer, pattern, steps);
}

SmallInstances list_small_instances(const Rule& rule, const InstancePattern& pattern,
                                    std::int64_t largest, std::size_t limit, Hash seed) {
  std::vector<std::vector<std::int64_t>> choices;
  double count = 1;
  for (const auto& move : pattern.moves) {
    choices.push_back(list_steps_within(pattern, move, largest));
    count *= static_cast<double>(choices.back().size());
  }
  SmallInstances out;
  out.cut = count > static_cast<double>(limit);
  const auto tries = out.cut ? limit : static_cast<std::size_t>(count);
  RuleTyper typer(rule);
  std::vector<std::int64_t> steps(choices.size());
  for (std::size_t n = 0; n < tries; ++n) {
    std::size_t rest = n;
    for (std::size_t j = 0; j < choices.size(); ++j) {
      const auto size = choices[j].size();
      const auto pick = out.cut ? hash_combine(hash_combine(seed, n), j) % size : rest % size;
      rest /= size;
      steps[j] = choices[j][pick];
    }
    if (auto instance = apply_moves(typer, pattern, steps)) out.all.push_back(std::move(*instance));
  }
  return out;
}

namespace {

// Returns `count` large steps that differ from each other, in a range of size `range`.
std::vector<std::int64_t> draw_large_steps(std::size_t count, Hash range, Hash seed) {
  constexpr std::int64_t kLeast = 40;
  std::vector<std::int64_t> out;
  out.reserve(count);
  Hash h = hash_combine(seed, range);
  while (out.size() < count) {
    h = mix(h);
    const auto step = kLeast + static_cast<std::int64_t>(h % range);
    if (std::ranges::find(out, step) == out.end()) out.push_back(step);
  }
  return out;
}

// Returns sets of moves to exclude: none, those that change symbols, also each single one, all but
// one.
std::vector<std::vector<bool>> list_excluded_moves(const InstancePattern& pattern) {
  const auto count = pattern.moves.size();
  const auto sizes = count_sizes(pattern.base);
  std::vector<std::vector<bool>> out(2 + 2 * count, std::vector<bool>(count));
  for (std::size_t j = 0; j < count; ++j) {
    const auto& move = pattern.moves[j];
    for (std::size_t i = sizes; i < move.size(); ++i) {
      if (move[i] != 0) out[1][j] = true;
    }
    out[2 + j] = out[1];
    out[2 + j][j] = true;
    out[2 + count + j].assign(count, true);
    out[2 + count + j][j] = false;
  }
  return out;
}

}  // namespace

std::optional<Instance> find_generic_instance(const Rule& rule, const InstancePattern& pattern,
                                              Hash seed) {
  if (pattern.moves.empty()) return pattern.base;
  RuleTyper typer(rule);
  for (const auto& out : list_excluded_moves(pattern)) {
    // Tries smaller steps if these are too large: the product of sizes must stay below 2^50.
    for (Hash range = 1000; range > 4 * pattern.moves.size(); range /= 4) {
      auto steps = draw_large_steps(pattern.moves.size(), range, seed);
      for (std::size_t j = 0; j < steps.size(); ++j) steps[j] *= out[j] ? 0 : 1;
      if (auto instance = apply_moves(typer, pattern, steps)) return instance;
    }
  }
  return std::nullopt;
}

}  // namespace tandem::verify
