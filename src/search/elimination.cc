#include "search/elimination.h"

#include <limits>
#include <map>
#include <unordered_map>

#include "base/check.h"

namespace tandem::search {

namespace {

// The best state of the eliminated variable for every pair of its neighbours' states.
struct Product {
  TablePtr table;
  std::vector<std::uint32_t> best;
};
using ProductPtr = std::shared_ptr<const Product>;

TablePtr transposed(const Table& t) {
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

TablePtr sum(const Table& a, const Table& b) {
  CHECK(a.rows == b.rows && a.cols == b.cols);
  auto out = std::make_shared<Table>(a);
  out->id = hash_combine(a.id, b.id);
  for (std::size_t i = 0; i < a.cost.size(); ++i) out->cost[i] += b.cost[i];
  return out;
}

// cost[c] = min(cost[c], base + row[c]), best[c] = where it came from. Most of a search's time goes
// here, so it must become vector instructions: no branch, not inlined (which loses __restrict), and
// CMakeLists.txt tells the compiler that this file's numbers are finite.
[[gnu::noinline]] void relax(float base, const float* __restrict row, std::uint32_t from,
                             std::size_t count, float* __restrict cost,
                             std::uint32_t* __restrict best) {
  for (std::size_t c = 0; c < count; ++c) {
    const float old = cost[c];
    const std::uint32_t old_best = best[c];
    const float candidate = base + row[c];
    const bool better = candidate < old;
    cost[c] = better ? candidate : old;
    best[c] = better ? from : old_best;
  }
}

// left[a][v] + unary[v] + right[v][c], minimised over v. A leaf has a right side of one column.
ProductPtr product(Hash id, const Table& left, const Table& unary, const Table& right) {
  auto table = std::make_shared<Table>();
  table->id = id;
  table->rows = left.rows;
  table->cols = right.cols;
  table->cost.assign(left.rows * right.cols, std::numeric_limits<float>::max());
  std::vector<std::uint32_t> best(table->cost.size());
  for (std::size_t a = 0; a < left.rows; ++a) {
    for (std::size_t v = 0; v < left.cols; ++v) {
      const float base = left.at(a, v) + unary.at(v);
      if (base >= kImpossible) continue;
      relax(base, right.cost.data() + v * right.cols, static_cast<std::uint32_t>(v), right.cols,
            table->cost.data() + a * right.cols, best.data() + a * right.cols);
    }
  }
  return std::make_shared<Product>(Product{std::move(table), std::move(best)});
}

class Eliminator {
 public:
  explicit Eliminator(const Network& network) : unary_(network.unary), neighbours_(unary_.size()) {
    for (const auto& e : network.edges) connect(e.a, e.b, e.table);
  }

  Minimum run(std::span<const std::size_t> pins) {
    left_.assign(unary_.size(), true);
    std::size_t remaining = unary_.size();
    while (remaining > 0) {
      const auto done = eliminate_round();
      remaining -= done;
      if (done == 0) {
        pin(pins);
        --remaining;
      }
    }
    return expand();
  }

 private:
  struct Step {
    std::size_t variable;
    std::vector<std::size_t> neighbours;  // at most two
    ProductPtr product;                   // null when pinned
    std::size_t pinned = 0;
  };

  void connect(std::size_t a, std::size_t b, const TablePtr& table) {
    CHECK(a != b);
    add_edge(a, b, table);
    add_edge(b, a, transpose(table));
  }

  void add_edge(std::size_t from, std::size_t to, const TablePtr& table) {
    auto& slot = neighbours_[from][to];
    slot = slot ? shared_sum(slot, table) : table;
  }

  TablePtr shared_sum(const TablePtr& a, const TablePtr& b) {
    auto& slot = sums_[hash_combine(a->id, b->id)];
    if (!slot) slot = sum(*a, *b);
    return slot;
  }

  TablePtr transpose(const TablePtr& table) {
    auto& slot = transposes_[table->id];
    if (!slot) slot = transposed(*table);
    return slot;
  }

  ProductPtr shared_product(const TablePtr& left, const TablePtr& unary, const TablePtr& right) {
    const Hash id = hash_combine(hash_combine(left->id, unary->id), right->id);
    auto& slot = products_[id];
    if (!slot) slot = product(id, *left, *unary, *right);
    return slot;
  }

  // Eliminates variables of degree <= 2, no two of them neighbours: so equal blocks of a chain pair
  // up alike and share their products.
  std::size_t eliminate_round() {
    std::vector<bool> blocked(unary_.size());
    std::size_t count = 0;
    for (std::size_t v = 0; v < unary_.size(); ++v) {
      if (!left_[v] || blocked[v] || neighbours_[v].size() > 2) continue;
      for (const auto& [n, table] : neighbours_[v]) blocked[n] = true;
      eliminate(v);
      ++count;
    }
    return count;
  }

  void eliminate(std::size_t v) {
    Step step{v, {}, nullptr};
    for (const auto& [n, table] : neighbours_[v]) step.neighbours.push_back(n);
    const auto constant_row = [&] {
      Table t{hash_combine(hash_text("constant"), unary_[v]->rows), 1, unary_[v]->rows, {}};
      t.cost.assign(t.cols, 0.0F);
      return std::make_shared<const Table>(std::move(t));
    };
    const auto constant_column = [&] { return transpose(constant_row()); };
    const auto& edges = neighbours_[v];
    const auto left =
        step.neighbours.empty() ? constant_row() : neighbours_[step.neighbours[0]].at(v);
    const auto right =
        step.neighbours.size() < 2 ? constant_column() : edges.at(step.neighbours[1]);
    step.product = shared_product(left, unary_[v], right);
    remove(v);
    if (step.neighbours.empty()) {
      constant_ += step.product->table->at(0);
    } else if (step.neighbours.size() == 1) {
      auto& u = unary_[step.neighbours[0]];
      u = shared_sum(u, step.product->table);
    } else {
      connect(step.neighbours[0], step.neighbours[1], step.product->table);
    }
    steps_.push_back(std::move(step));
  }

  void remove(std::size_t v) {
    for (const auto& [n, table] : neighbours_[v]) neighbours_[n].erase(v);
    neighbours_[v].clear();
    left_[v] = false;
  }

  // Fixes the variable with the most neighbours to its given state.
  void pin(std::span<const std::size_t> pins) {
    std::size_t v = unary_.size();
    for (std::size_t i = 0; i < unary_.size(); ++i) {
      if (left_[i] && (v == unary_.size() || neighbours_[i].size() > neighbours_[v].size())) v = i;
    }
    exact_ = false;
    const std::size_t state = pins[v];
    constant_ += unary_[v]->at(state);
    for (const auto& [n, table] : neighbours_[v]) {
      auto column = std::make_shared<Table>();
      column->rows = unary_[n]->rows;
      column->id = hash_combine(hash_combine(table->id, hash_text("pinned")), state);
      for (std::size_t s = 0; s < column->rows; ++s) column->cost.push_back(table->at(state, s));
      unary_[n] = shared_sum(unary_[n], column);
    }
    remove(v);
    steps_.push_back({v, {}, nullptr, state});
  }

  Minimum expand() const {
    Minimum out{std::vector<std::size_t>(unary_.size()), constant_, exact_, products_.size()};
    for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
      if (!step->product) {
        out.state[step->variable] = step->pinned;
        continue;
      }
      const auto& n = step->neighbours;
      const std::size_t row = n.empty() ? 0 : out.state[n[0]];
      const std::size_t col = n.size() < 2 ? 0 : out.state[n[1]];
      out.state[step->variable] = step->product->best[row * step->product->table->cols + col];
    }
    return out;
  }

  std::vector<TablePtr> unary_;
  std::vector<std::map<std::size_t, TablePtr>> neighbours_;  // table rows: the owner's states
  std::vector<bool> left_;
  std::vector<Step> steps_;
  double constant_ = 0;
  bool exact_ = true;
  std::unordered_map<Hash, TablePtr> sums_;
  std::unordered_map<Hash, TablePtr> transposes_;
  std::unordered_map<Hash, ProductPtr> products_;
};

}  // namespace

Minimum minimize(const Network& network, std::span<const std::size_t> pins) {
  return Eliminator(network).run(pins);
}

}  // namespace tandem::search
