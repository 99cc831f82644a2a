#include "search/solver/elimination.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <unordered_map>
#include <unordered_set>

#include "base/check.h"
#include "search/solver/min_plus_block.h"

namespace tandem::search {

namespace {

TablePtr make_transposed(const Table& t) {
  auto out = std::make_shared<Table>();
  out->id = hash_combine(hash_text("transposed"), t.id);
  out->rows = t.cols;
  out->cols = t.rows;
  out->cost.resize(t.cost.size());
  for (std::size_t r = 0; r < t.rows; ++r) {
    for (std::size_t c = 0; c < t.cols; ++c) out->cost[c * t.rows + r] = t.at(r, c);
  }
  return out;
}

TablePtr add_tables(const Table& a, const Table& b) {
  CHECK(a.rows == b.rows && a.cols == b.cols);
  auto out = std::make_shared<Table>(a);
  out->id = hash_combine(a.id, b.id);
  for (std::size_t i = 0; i < a.cost.size(); ++i) out->cost[i] += b.cost[i];
  return out;
}

// Returns the entries of those states of a variable that are in `kept`. `inner` consecutive
// entries belong to one state. If the states are columns, that is fewer than a row has.
TablePtr restrict_states(const Table& table, std::size_t inner, std::size_t states,
                         const std::vector<std::size_t>& kept) {
  auto out = std::make_shared<Table>();
  out->id = hash_combine(hash_combine(table.id, hash_text("restricted")), inner);
  for (auto s : kept) out->id = hash_combine(out->id, s);
  out->cost.resize(table.cost.size() / states * kept.size());
  auto* to = out->cost.data();
  for (std::size_t from = 0; from < table.cost.size(); from += states * inner) {
    for (auto s : kept) to = std::copy_n(table.cost.data() + from + s * inner, inner, to);
  }
  out->cols = inner < table.cols ? kept.size() : table.cols;
  out->rows = out->cost.size() / out->cols;
  return out;
}

// A table over three variables or more. `variables` ascend; the last one indexes the columns of
// `table`, and the others together index its rows.
struct Wide {
  std::vector<std::size_t> variables;
  const Table* table;
};

// The tables between a variable and its neighbours, by ascending neighbour. Rows are the variable's
// own states.
class Neighbours {
 public:
  using Entry = std::pair<std::size_t, const Table*>;

  [[nodiscard]] std::size_t size() const { return entries_.size(); }
  [[nodiscard]] auto begin() const { return entries_.begin(); }
  [[nodiscard]] auto end() const { return entries_.end(); }
  [[nodiscard]] auto begin() { return entries_.begin(); }
  [[nodiscard]] auto end() { return entries_.end(); }
  [[nodiscard]] const Table* at(std::size_t variable) const {
    return std::ranges::lower_bound(entries_, variable, {}, &Entry::first)->second;
  }
  // Returns null for a new neighbour.
  const Table*& operator[](std::size_t variable) {
    auto at = std::ranges::lower_bound(entries_, variable, {}, &Entry::first);
    if (at == entries_.end() || at->first != variable)
      at = entries_.insert(at, {variable, nullptr});
    return at->second;
  }
  void erase(std::size_t variable) {
    std::erase_if(entries_, [&](const Entry& entry) { return entry.first == variable; });
  }
  void clear() { entries_.clear(); }

 private:
  std::vector<Entry> entries_;
};

class Eliminator {
 public:
  Eliminator(const CostNetwork& network, const Effort& effort, MadeTables& made)
      : effort_(effort),
        cache_(made),
        neighbours_(network.unary.size()),
        wide_(network.unary.size()),
        work_(network.unary.size()) {
    for (const auto& u : network.unary) unary_.push_back(u.get());
    for (const auto& e : network.edges) connect(e.a, e.b, e.table.get());
  }

  Minimum run() {
    left_.assign(unary_.size(), true);
    std::size_t remaining = unary_.size();
    while (remaining > 0) {
      const auto done = eliminate_round();
      remaining -= done > 0 ? done : eliminate_wide_round();
    }
    return expand();
  }

 private:
  // One step: the variable was eliminated, or its states except `retained` were dropped.
  struct EliminationStep {
    std::size_t variable;
    std::vector<std::size_t> neighbours;
    const MinPlusProduct* product;   // null: states were dropped
    std::vector<std::size_t> sizes;  // number of states, by neighbour
    std::vector<std::size_t> retained;
  };

  // A table over several variables is listed for each of them.
  using WidePtr = std::shared_ptr<const Wide>;

  [[nodiscard]] std::size_t count_states(std::size_t v) const { return unary_[v]->rows; }

  void connect(std::size_t a, std::size_t b, const Table* table) {
    CHECK(a != b);
    add_edge(a, b, table);
    add_edge(b, a, get_transposed(table));
  }

  void add_edge(std::size_t from, std::size_t to, const Table* table) {
    auto& slot = neighbours_[from][to];
    slot = slot != nullptr ? get_sum(slot, table) : table;
  }

  const Table* get_sum(const Table* a, const Table* b) {
    auto& slot = cache_.sums[hash_combine(a->id, b->id)];
    if (!slot) {
      slot = add_tables(*a, *b);
      cache_.entries += slot->cost.size();
    }
    return slot.get();
  }

  const Table* get_transposed(const Table* table) {
    auto& slot = cache_.transposed[table->id];
    if (!slot) {
      slot = make_transposed(*table);
      cache_.entries += slot->cost.size();
    }
    return slot.get();
  }

  const Table* retain_table(TablePtr table) {
    own_.push_back(std::move(table));
    return own_.back().get();
  }

  MinPlusProductPtr count_product(MinPlusProductPtr made) {
    ++products_;
    cache_.entries += 2 * made->best.size();
    return made;
  }

  const MinPlusProduct* get_product(const Table* left, const Table* unary, const Table* right) {
    const Hash id = hash_combine(hash_combine(left->id, unary->id), right->id);
    auto& slot = cache_.products[id];
    if (!slot) slot = count_product(compute_min_plus(id, *left, *unary, *right));
    return slot.get();
  }

  // Eliminates variables of degree <= 2, no two of them neighbours. Equal blocks of a chain thus
  // pair up in the same way and share their min-plus products.
  std::size_t eliminate_round() {
    std::vector<bool> blocked(unary_.size());
    std::size_t count = 0;
    for (std::size_t v = 0; v < unary_.size(); ++v) {
      if (!left_[v] || blocked[v] || neighbours_[v].size() > 2 || !wide_[v].empty()) continue;
      for (const auto& [n, table] : neighbours_[v]) blocked[n] = true;
      eliminate(v);
      ++count;
    }
    return count;
  }

  void eliminate(std::size_t v) {
    EliminationStep step{v, {}, nullptr, {}, {}};
    for (const auto& [n, table] : neighbours_[v]) {
      step.neighbours.push_back(n);
      step.sizes.push_back(count_states(n));
    }
    const auto constant_row = [&] {
      Table t{hash_combine(hash_text("constant"), unary_[v]->rows), 1, unary_[v]->rows, {}};
      t.cost.assign(t.cols, 0.0F);
      return retain_table(std::make_shared<const Table>(std::move(t)));
    };
    const auto constant_column = [&] { return get_transposed(constant_row()); };
    const auto& edges = neighbours_[v];
    const auto left =
        step.neighbours.empty() ? constant_row() : neighbours_[step.neighbours[0]].at(v);
    const auto right =
        step.neighbours.size() < 2 ? constant_column() : edges.at(step.neighbours[1]);
    step.product = get_product(left, unary_[v], right);
    finish(std::move(step));
  }

  // Removes the variable and adds its min-plus product as a table of its neighbours.
  void finish(EliminationStep step) {
    const auto v = step.variable;
    const auto& n = step.neighbours;
    const auto* table = step.product->table.get();
    remove(v);
    for (auto u : n) work_[u] = 0;
    if (n.empty()) {
      constant_ += table->at(0);
    } else if (n.size() == 1) {
      unary_[n[0]] = get_sum(unary_[n[0]], table);
    } else if (n.size() == 2) {
      connect(n[0], n[1], table);
    } else {
      const auto wide = std::make_shared<const Wide>(Wide{n, table});
      for (auto u : n) wide_[u].push_back(wide);
    }
    steps_.push_back(std::move(step));
  }

  void remove(std::size_t v) {
    for (const auto& [n, table] : neighbours_[v]) neighbours_[n].erase(v);
    neighbours_[v].clear();
    const auto gone = std::move(wide_[v]);
    wide_[v].clear();
    for (const auto& w : gone) forget(*w);
    left_[v] = false;
  }

  void forget(const Wide& wide) {
    for (auto u : wide.variables) {
      std::erase_if(wide_[u], [&](const WidePtr& other) { return other.get() == &wide; });
    }
  }

  // --- Three neighbours and more -----------------------------------------------------------------

  [[nodiscard]] std::vector<std::size_t> list_neighbours(std::size_t v) const {
    std::vector<std::size_t> out;
    for (const auto& [n, table] : neighbours_[v]) out.push_back(n);
    for (const auto& w : wide_[v]) out.insert(out.end(), w->variables.begin(), w->variables.end());
    std::ranges::sort(out);
    out.erase(std::unique(out.begin(), out.end()), out.end());
    std::erase(out, v);
    return out;
  }

  // Returns the additions that eliminating `v` takes. Each entry counts as at least 16, since it
  // takes memory.
  [[nodiscard]] double count_additions(std::size_t v,
                                       const std::vector<std::size_t>& neighbours) const {
    constexpr std::size_t kOfAnEntry = 16;
    auto out = static_cast<double>(std::max(count_states(v), kOfAnEntry));
    for (auto n : neighbours) out *= static_cast<double>(count_states(n));
    return out;
  }

  // Eliminates the cheapest variables, no two of them neighbours, so that equal blocks share
  // products.
  std::size_t eliminate_wide_round() {
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t v = 0; v < unary_.size(); ++v) {
      if (!left_[v]) continue;
      if (work_[v] == 0) work_[v] = count_additions(v, list_neighbours(v));
      least = std::min(least, work_[v]);
    }
    const auto now = work_;
    std::vector<bool> blocked(unary_.size());
    std::size_t count = 0;
    for (std::size_t v = 0; v < unary_.size(); ++v) {
      if (!left_[v] || blocked[v] || now[v] > least) continue;
      for (auto n : list_neighbours(v)) blocked[n] = true;
      eliminate_wide(v);
      ++count;
    }
    return count;
  }

  // Eliminates `v`. Drops states first if it costs too much.
  void eliminate_wide(std::size_t v) {
    auto neighbours = list_neighbours(v);
    const double may = spent_ < effort_.total ? effort_.table : effort_.table_beyond;
    while (count_additions(v, neighbours) > may && narrow_largest(v, neighbours)) continue;
    EliminationStep step{v, std::move(neighbours), nullptr, {}, {}};
    for (auto n : step.neighbours) step.sizes.push_back(count_states(n));
    step.product = get_wide_product(v, step.neighbours, step.sizes);
    // Counts tables from the cache, too: a network's budget must not depend on other networks.
    if (paid_.insert(step.product->table->id).second) spent_ += count_additions(v, step.neighbours);
    finish(std::move(step));
  }

  const MinPlusProduct* get_wide_product(std::size_t v, const std::vector<std::size_t>& neighbours,
                                         const std::vector<std::size_t>& sizes) {
    std::vector<Addend> addends;
    Hash id = hash_combine(hash_text("wide"), unary_[v]->id);
    const auto place = [&](std::size_t n) {
      return static_cast<std::size_t>(std::ranges::find(neighbours, n) - neighbours.begin());
    };
    const auto add = [&](const Table* table, const std::vector<std::size_t>& variables) {
      Addend a{table, 0, std::vector<std::size_t>(neighbours.size())};
      std::size_t stride = 1;
      id = hash_combine(id, table->id);
      for (auto i = variables.size(); i-- > 0;) {
        const auto u = variables[i];
        id = hash_combine(id, u == v ? neighbours.size() : place(u));
        (u == v ? a.own_stride : a.strides[place(u)]) = stride;
        stride *= count_states(u);
      }
      addends.push_back(std::move(a));
    };
    for (const auto& [n, table] : neighbours_[v]) add(table, {v, n});
    for (const auto& w : wide_[v]) {
      if (w->variables.back() != v) {
        add(w->table, w->variables);
        continue;
      }
      // Rows must run along a neighbour, so the eliminated variable goes first.
      auto variables = w->variables;
      std::rotate(variables.begin(), variables.end() - 1, variables.end());
      add(get_transposed(w->table), variables);
    }
    auto& slot = cache_.products[id];
    if (!slot) slot = count_product(compute_min_plus(id, *unary_[v], addends, sizes));
    return slot.get();
  }

  // --- Dropping states ---------------------------------------------------------------------------

  // Drops half the states of `v` or of a neighbour, whichever has most. Returns false if none has
  // two.
  bool narrow_largest(std::size_t v, const std::vector<std::size_t>& neighbours) {
    auto most = v;
    for (auto n : neighbours) {
      if (count_states(n) > count_states(most)) most = n;
    }
    if (count_states(most) < 2) return false;
    drop_half(most);
    return true;
  }

  // Returns a lower bound of each state's cost: the sum of its minima over single tables.
  [[nodiscard]] std::vector<float> bound_state_costs(std::size_t v) const {
    const auto least_of = get_block_kernels().least;
    auto out = unary_[v]->cost;
    for (const auto& [n, table] : neighbours_[v]) {
      for (std::size_t s = 0; s < out.size(); ++s) {
        out[s] += least_of(table->cost.data() + s * table->cols, table->cols);
      }
    }
    for (const auto& w : wide_[v]) {
      const auto inner = count_inner_entries(*w, v);
      std::vector<float> least(out.size(), kImpossible);
      const auto* at = w->table->cost.data();
      for (std::size_t i = 0; i < w->table->cost.size(); i += inner * out.size()) {
        for (auto& slot : least) {
          slot = std::min(slot, inner == 1 ? *at : least_of(at, inner));
          at += inner;
        }
      }
      for (std::size_t s = 0; s < out.size(); ++s) out[s] += least[s];
    }
    return out;
  }

  // Returns the number of table entries that differ only in the variables after `v`.
  [[nodiscard]] std::size_t count_inner_entries(const Wide& wide, std::size_t v) const {
    std::size_t out = 1;
    for (auto i = wide.variables.size(); wide.variables[--i] != v;)
      out *= count_states(wide.variables[i]);
    return out;
  }

  // Keeps the cheaper half of a variable's states.
  void drop_half(std::size_t v) {
    exact_ = false;
    const auto cost = bound_state_costs(v);
    work_[v] = 0;
    for (auto n : list_neighbours(v)) work_[n] = 0;
    std::vector<std::size_t> kept(cost.size());
    std::iota(kept.begin(), kept.end(), std::size_t{0});
    std::ranges::stable_sort(kept, {}, [&](std::size_t s) { return cost[s]; });
    kept.resize((kept.size() + 1) / 2);
    std::ranges::sort(kept);

    const auto restricted_to_kept = [&](const Table* table, std::size_t inner) {
      return retain_table(restrict_states(*table, inner, cost.size(), kept));
    };
    for (auto& [n, table] : neighbours_[v]) {
      table = restricted_to_kept(table, table->cols);
      neighbours_[n][v] = get_transposed(table);
    }
    for (const auto& w : std::vector(wide_[v])) {
      const auto* table = restricted_to_kept(w->table, count_inner_entries(*w, v));
      replace(*w, std::make_shared<const Wide>(Wide{w->variables, table}));
    }
    unary_[v] = restricted_to_kept(unary_[v], 1);
    steps_.push_back({v, {}, nullptr, {}, std::move(kept)});
  }

  void replace(const Wide& old, const WidePtr& by) {
    for (auto u : old.variables) {
      for (auto& w : wide_[u]) {
        if (w.get() == &old) w = by;
      }
    }
  }

  Minimum expand() const {
    Minimum out{std::vector<std::size_t>(unary_.size()), constant_, exact_, products_};
    for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
      auto& state = out.state[step->variable];
      if (!step->product) {
        state = step->retained[state];
        continue;
      }
      std::size_t at = 0;
      for (std::size_t i = 0; i < step->neighbours.size(); ++i) {
        at = at * step->sizes[i] + out.state[step->neighbours[i]];
      }
      state = step->product->best[at];
    }
    return out;
  }

  const Effort effort_;
  MadeTables& cache_;
  double spent_ = 0;
  std::unordered_set<Hash> paid_;  // ids of tables
  std::vector<TablePtr>
      own_;  // tables that others cannot use; the rest belong to the network or made_
  std::vector<const Table*> unary_;
  std::vector<Neighbours> neighbours_;
  std::vector<std::vector<WidePtr>> wide_;
  std::vector<double> work_;  // cost of eliminating it over three neighbours or more; 0: unknown
  std::vector<bool> left_;
  std::vector<EliminationStep> steps_;
  double constant_ = 0;
  bool exact_ = true;
  std::size_t products_ = 0;
};

}  // namespace

Minimum minimize(const CostNetwork& network, const Effort& effort) {
  MadeTables made;
  return minimize(network, effort, made);
}

Minimum minimize(const CostNetwork& network, const Effort& effort, MadeTables& made) {
  return Eliminator(network, effort, made).run();
}

}  // namespace tandem::search
