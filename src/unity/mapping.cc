#include "unity/mapping.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace tandem::unity {

namespace {

constexpr std::size_t kChains = 256;                         // chains retained per vertex
constexpr std::size_t kMostEntries = std::size_t{1} << 24U;  // entries of cached tables

// Returns the position of a vertex in a sorted list, or nullopt.
std::optional<std::size_t> find_index(const std::vector<std::uint32_t>& inner,
                                      std::uint32_t vertex) {
  const auto at = std::ranges::lower_bound(inner, vertex);
  if (at == inner.end() || *at != vertex) return std::nullopt;
  return static_cast<std::size_t>(at - inner.begin());
}

}  // namespace

double MappingSearch::cost(const TaskGraph& graph) {
  graph_ = &graph;
  if (graph.vertices.empty()) return 0;  // nothing is computed
  if (!options_.programs) {
    TaskMapping best;
    enumerate(best);
    return best.seconds;
  }
  if (!options_.caches || entries_ > kMostEntries) {
    tables_.clear();
    entries_ = 0;
  }
  const auto part = make_whole_subgraph();
  const auto table = cost_segment(part);
  const auto& last = placements(part.last, kWholeMachine);
  double out = kImpossible;
  for (std::size_t c = 0; c < last.size(); ++c) {
    out = std::min(out, table->at(0, c) + last[c].seconds);
  }
  return out;
}

TaskMapping MappingSearch::find_best(const TaskGraph& graph) {
  TaskMapping out;
  out.seconds = cost(graph);
  if (!options_.programs) {
    if (!graph.vertices.empty()) enumerate(out);
    return out;
  }
  if (out.seconds == kImpossible || graph.vertices.empty()) return out;
  out.places.resize(graph.vertices.size());
  places_ = &out.places;
  const auto part = make_whole_subgraph();
  const auto table = cost_segment(part);
  const auto& last = placements(part.last, kWholeMachine);
  std::size_t col = 0;
  while (table->at(0, col) + last[col].seconds != out.seconds) ++col;
  out.places[part.last].placement = static_cast<std::uint32_t>(col);
  place_segment(part, 0, col);
  return out;
}

MappingSearch::MappedSubgraph MappingSearch::make_whole_subgraph() const {
  MappedSubgraph out;
  out.last = static_cast<std::uint32_t>(graph_->vertices.size() - 1);
  out.inner.resize(out.last);
  std::iota(out.inner.begin(), out.inner.end(), 0U);
  return out;
}

std::size_t MappingSearch::count_rows(const MappedSubgraph& part) {
  return part.first == kNobody ? 1 : placements(part.first, part.first_region).size();
}

// Returns a hash of the vertices' kinds and the edges between them. It does not depend on which
// vertices they are.
Hash MappingSearch::compute_hash(const MappedSubgraph& part, Hash seed) const {
  const auto& vertices = graph_->vertices;
  Hash h = hash_combine(seed, part.first == kNobody ? kNobody : vertices[part.first].kind);
  h = hash_combine(
      h, (Hash{part.first_region} << 40U) | (Hash{part.region} << 20U) | part.last_region);
  const auto add = [&](std::uint32_t v) {
    h = hash_combine(h, vertices[v].kind);
    for (const auto& edge : vertices[v].in) {
      Hash from = 1;
      if (edge.from != part.first) {
        const auto index = find_index(part.inner, edge.from);
        if (!index) continue;
        from = 2 + *index;
      }
      h = hash_combine(h, (from << 8U) | edge.operand);
    }
  };
  for (auto v : part.inner) add(v);
  add(part.last);
  return h;
}

template <class Make>
MappingSearch::TablePtr MappingSearch::memoize_table(const MappedSubgraph& part,
                                                     std::string_view what, Make&& make) {
  const auto key = compute_hash(part, hash_text(what));
  if (const auto known = tables_.find(key); known != tables_.end()) return known->second;
  auto table = std::make_shared<const CostTable>(make());
  entries_ += table->seconds.size();
  ++computed_tables_;
  return tables_.emplace(key, std::move(table)).first->second;
}

// --- Costs --------------------------------------------------------------------------------------

MappingSearch::TablePtr MappingSearch::cost_segment(const MappedSubgraph& part) {
  return memoize_table(part, "segment", [&] {
    const auto cols = placements(part.last, part.last_region).size();
    CostTable out{count_rows(part), cols, std::vector<double>(count_rows(part) * cols)};
    if (!part.inner.empty()) out = *cost_branches(part);
    for (const auto& edge : graph_->vertices[part.last].in) {
      if (edge.from != part.first) continue;
      const auto& table = placements_.get_reshard_costs(
          graph_->vertices[part.first].kind, part.first_region, graph_->vertices[part.last].kind,
          part.last_region, edge.operand);
      for (std::size_t i = 0; i < out.seconds.size(); ++i) out.seconds[i] += table.seconds[i];
    }
    return out;
  });
}

MappingSearch::TablePtr MappingSearch::cost_branches(const MappedSubgraph& part) {
  const auto sides = split(part);
  if (!sides) return cost_branch(part);
  return memoize_table(part, "branches", [&] { return cost_split(sides->first, sides->second); });
}

// Costs the two parts one after the other on all devices, and side by side on each division.
CostTable MappingSearch::cost_split(const MappedSubgraph& one, const MappedSubgraph& rest) {
  auto out = *cost_branch(one);
  const auto after = cost_branches(rest);
  for (std::size_t i = 0; i < out.seconds.size(); ++i) out.seconds[i] += after->seconds[i];
  const auto divisions = placements_.regions().get_divisions(one.region);
  const auto try_at = [&](RegionId first, RegionId second) {
    auto a = one;
    auto b = rest;
    a.region = first;
    b.region = second;
    const auto left = cost_branch(a);
    const auto right = cost_branches(b);
    for (std::size_t i = 0; i < out.seconds.size(); ++i) {
      out.seconds[i] = std::min(out.seconds[i], std::max(left->seconds[i], right->seconds[i]));
    }
  };
  for (const auto& division : divisions) {
    try_at(division.first, division.second);
    try_at(division.second, division.first);
  }
  return out;
}

MappingSearch::TablePtr MappingSearch::cost_branch(const MappedSubgraph& part) {
  return memoize_table(part, "branch", [&] {
    const auto cuts = find_cuts(part);
    return cuts.empty() ? cost_one_by_one(part) : cost_sequence(part, cuts);
  });
}

namespace {

// Returns the parts between one cut and the next.
template <class Part>
std::vector<Part> split_at_cuts(const Part& part, const std::vector<std::size_t>& cuts) {
  std::vector<Part> out;
  std::size_t from = 0;
  const auto inner = [&](std::size_t until) {
    return std::vector<std::uint32_t>(part.inner.begin() + static_cast<std::ptrdiff_t>(from),
                                      part.inner.begin() + static_cast<std::ptrdiff_t>(until));
  };
  auto first = part.first;
  auto first_region = part.first_region;
  for (auto cut : cuts) {
    out.push_back({first, inner(cut), part.inner[cut], first_region, part.region, part.region});
    first = part.inner[cut];
    first_region = part.region;
    from = cut + 1;
  }
  out.push_back(
      {first, inner(part.inner.size()), part.last, first_region, part.region, part.last_region});
  return out;
}

// Returns the cheapest costs of `before` followed by `table`: a min-plus matrix multiplication.
CostTable multiply_min_plus(const CostTable& before, const CostTable& table) {
  CostTable out{before.rows, table.cols,
                std::vector<double>(before.rows * table.cols, kImpossible)};
  for (std::size_t r = 0; r < before.rows; ++r) {
    for (std::size_t k = 0; k < before.cols; ++k) {
      const double so_far = before.at(r, k);
      if (so_far == kImpossible) continue;
      for (std::size_t c = 0; c < table.cols; ++c) {
        auto& entry = out.seconds[r * table.cols + c];
        entry = std::min(entry, so_far + table.at(k, c));
      }
    }
  }
  return out;
}

void add_to_columns(CostTable& table, const std::vector<Placement>& placements) {
  for (std::size_t i = 0; i < table.seconds.size(); ++i) {
    table.seconds[i] += placements[i % table.cols].seconds;
  }
}

}  // namespace

CostTable MappingSearch::cost_sequence(const MappedSubgraph& part,
                                       const std::vector<std::size_t>& cuts) {
  const auto steps = split_at_cuts(part, cuts);
  auto out = *cost_segment(steps[0]);
  for (std::size_t i = 1; i < steps.size(); ++i) {
    add_to_columns(out, placements(steps[i].first, part.region));
    out = multiply_min_plus(out, *cost_segment(steps[i]));
  }
  return out;
}

CostTable MappingSearch::cost_one_by_one(const MappedSubgraph& part) {
  const auto cols = placements(part.last, part.last_region).size();
  CostTable out{count_rows(part), cols, {}};
  for (std::size_t r = 0; r < out.rows; ++r) {
    const auto all = find_chains(part, r);
    for (std::size_t c = 0; c < cols; ++c) {
      double least = kImpossible;
      for (const auto& chain : all) least = std::min(least, cost_to_last(part, chain, c));
      out.seconds.push_back(least);
    }
  }
  return out;
}

// Returns the costs of the edges into the chain's next vertex, which may be the part's last one.
double MappingSearch::cost_edges_into(const MappedSubgraph& part, std::uint32_t vertex,
                                      std::size_t placement, std::size_t row, const Chain& chain) {
  const auto& vertices = graph_->vertices;
  const auto region = vertex == part.last ? part.last_region : part.region;
  double out = 0;
  for (const auto& edge : vertices[vertex].in) {
    const auto index = find_index(part.inner, edge.from);
    const bool is_first = edge.from == part.first;
    if (!index && (!is_first || vertex == part.last)) continue;
    const auto& table = placements_.get_reshard_costs(vertices[edge.from].kind,
                                                      is_first ? part.first_region : part.region,
                                                      vertices[vertex].kind, region, edge.operand);
    out += table.at(is_first ? row : chain.placements[*index], placement);
  }
  return out;
}

double MappingSearch::cost_to_last(const MappedSubgraph& part, const Chain& chain,
                                   std::size_t col) {
  return chain.seconds + cost_edges_into(part, part.last, col, 0, chain);
}

std::vector<MappingSearch::Chain> MappingSearch::find_chains(const MappedSubgraph& part,
                                                             std::size_t row) {
  // Last position that needs each inner vertex.
  std::vector<std::size_t> needed(part.inner.size());
  const auto note = [&](std::uint32_t user, std::size_t position) {
    for (const auto& edge : graph_->vertices[user].in) {
      if (const auto index = find_index(part.inner, edge.from)) needed[*index] = position;
    }
  };
  for (std::size_t i = 0; i < part.inner.size(); ++i) note(part.inner[i], i);
  note(part.last, part.inner.size());

  std::vector<Chain> all = {{}};
  for (std::size_t i = 0; i < part.inner.size(); ++i) {
    // The cheapest chain for each combination of placements that are still needed.
    std::map<std::vector<std::uint32_t>, Chain> next;
    const auto& own = placements(part.inner[i], part.region);
    for (const auto& chain : all) {
      for (std::uint32_t p = 0; p < own.size(); ++p) {
        auto longer = chain;
        longer.seconds += own[p].seconds + cost_edges_into(part, part.inner[i], p, row, chain);
        if (longer.seconds == kImpossible) continue;
        longer.placements.push_back(p);
        std::vector<std::uint32_t> live;
        for (std::size_t j = 0; j <= i; ++j) {
          if (needed[j] > i) live.push_back(longer.placements[j]);
        }
        const auto [at, fresh] = next.try_emplace(std::move(live), longer);
        if (!fresh && longer.seconds < at->second.seconds) at->second = std::move(longer);
      }
    }
    all.clear();
    for (auto& [live, chain] : next) all.push_back(std::move(chain));
    std::ranges::stable_sort(all, {}, &Chain::seconds);
    is_cut_ = is_cut_ || all.size() > kChains;
    all.resize(std::min(all.size(), kChains));
  }
  return all;
}

// --- The choices --------------------------------------------------------------------------------

void MappingSearch::place_segment(const MappedSubgraph& part, std::size_t row, std::size_t col) {
  if (!part.inner.empty()) place_branches(part, row, col);
}

void MappingSearch::place_branches(const MappedSubgraph& part, std::size_t row, std::size_t col) {
  const auto sides = split(part);
  if (!sides) return place_branch(part, row, col);
  auto one = sides->first;
  auto rest = sides->second;
  const auto wanted = cost_branches(part)->at(row, col);
  const auto place = [&](RegionId first, RegionId second) {
    one.region = first;
    rest.region = second;
    place_branch(one, row, col);
    place_branches(rest, row, col);
  };
  if (cost_branch(one)->at(row, col) + cost_branches(rest)->at(row, col) == wanted) {
    return place(part.region, part.region);
  }
  const auto is_it = [&](RegionId first, RegionId second) {
    one.region = first;
    rest.region = second;
    return std::max(cost_branch(one)->at(row, col), cost_branches(rest)->at(row, col)) == wanted;
  };
  for (const auto& division : placements_.regions().get_divisions(part.region)) {
    if (is_it(division.first, division.second)) return place(division.first, division.second);
    if (is_it(division.second, division.first)) return place(division.second, division.first);
  }
  CHECK(false, wanted, "is the cost of no side");
}

void MappingSearch::place_branch(const MappedSubgraph& part, std::size_t row, std::size_t col) {
  const auto cuts = find_cuts(part);
  if (cuts.empty()) {
    place_one_by_one(part, row, col);
  } else {
    place_sequence(part, cuts, row, col);
  }
}

void MappingSearch::place_sequence(const MappedSubgraph& part, const std::vector<std::size_t>& cuts,
                                   std::size_t row, std::size_t col) {
  const auto steps = split_at_cuts(part, cuts);
  std::vector<CostTable> reached;  // from this row, by placements of each cut
  const auto first = cost_segment(steps[0]);
  reached.push_back({1, first->cols, {}});
  for (std::size_t c = 0; c < first->cols; ++c) reached[0].seconds.push_back(first->at(row, c));
  for (std::size_t i = 1; i < steps.size(); ++i) {
    add_to_columns(reached.back(), placements(steps[i].first, part.region));
    reached.push_back(multiply_min_plus(reached.back(), *cost_segment(steps[i])));
  }
  auto at = col;
  for (std::size_t i = steps.size(); i-- > 1;) {
    const auto table = cost_segment(steps[i]);
    std::size_t from = 0;
    for (std::size_t r = 1; r < table->rows; ++r) {
      const auto by = [&](std::size_t row) {
        return reached[i - 1].at(0, row) + table->at(row, at);
      };
      if (by(r) < by(from)) from = r;
    }
    (*places_)[steps[i].first] = {part.region, static_cast<std::uint32_t>(from)};
    place_segment(steps[i], from, at);
    at = from;
  }
  place_segment(steps[0], row, at);
}

void MappingSearch::place_one_by_one(const MappedSubgraph& part, std::size_t row, std::size_t col) {
  const auto all = find_chains(part, row);
  const auto best = std::ranges::min_element(
      all, {}, [&](const Chain& chain) { return cost_to_last(part, chain, col); });
  for (std::size_t i = 0; i < part.inner.size(); ++i) {
    (*places_)[part.inner[i]] = {part.region, best->placements[i]};
  }
}

// --- Splits -------------------------------------------------------------------------------------

// Returns the inner vertices that no edge bypasses. If nothing comes before the part, its first
// vertex divides nothing; it is omitted if there are others.
std::vector<std::size_t> MappingSearch::find_cuts(const MappedSubgraph& part) const {
  const auto n = part.inner.size();
  std::vector<std::size_t> farthest(n + 1);  // last reader of each; of `first` at the end
  const auto note = [&](std::uint32_t user, std::size_t position) {
    for (const auto& edge : graph_->vertices[user].in) {
      const auto index = find_index(part.inner, edge.from);
      if (index) farthest[*index] = std::max(farthest[*index], position);
      if (edge.from == part.first && position < n) farthest[n] = std::max(farthest[n], position);
    }
  };
  for (std::size_t i = 0; i < n; ++i) note(part.inner[i], i);
  note(part.last, n);
  std::vector<std::size_t> out;
  std::size_t reach = part.first == kNobody ? 0 : farthest[n];
  for (std::size_t i = 0; i < n; ++i) {
    if (reach <= i) out.push_back(i);
    reach = std::max(reach, farthest[i]);
  }
  if (part.first == kNobody && out.size() > 1 && out[0] == 0) out.erase(out.begin());
  return out;
}

std::vector<MappingSearch::Inner> MappingSearch::find_branches(const MappedSubgraph& part) const {
  std::vector<std::size_t> root(part.inner.size());
  std::iota(root.begin(), root.end(), std::size_t{0});
  const auto find = [&](std::size_t i) {
    while (root[i] != i) i = root[i] = root[root[i]];
    return i;
  };
  for (std::size_t i = 0; i < part.inner.size(); ++i) {
    for (const auto& edge : graph_->vertices[part.inner[i]].in) {
      const auto index = find_index(part.inner, edge.from);
      if (!index) continue;
      const auto a = find(*index);
      const auto b = find(i);
      root[std::max(a, b)] = std::min(a, b);
    }
  }
  std::vector<Inner> out;
  std::map<std::size_t, std::size_t> of_root;
  for (std::size_t i = 0; i < part.inner.size(); ++i) {
    const auto [at, fresh] = of_root.try_emplace(find(i), out.size());
    if (fresh) out.emplace_back();
    out[at->second].push_back(part.inner[i]);
  }
  return out;
}

std::optional<std::pair<MappingSearch::MappedSubgraph, MappingSearch::MappedSubgraph>>
MappingSearch::split(const MappedSubgraph& part) const {
  auto sides = find_branches(part);
  if (sides.size() < 2) return std::nullopt;
  auto one = part;
  auto rest = part;
  one.inner = std::move(sides[0]);
  rest.inner.clear();
  for (std::size_t i = 1; i < sides.size(); ++i) {
    rest.inner.insert(rest.inner.end(), sides[i].begin(), sides[i].end());
  }
  std::ranges::sort(rest.inner);
  return std::pair{std::move(one), std::move(rest)};
}

// --- Without the program ------------------------------------------------------------------------

// Tries all placements of all operators on the whole machine, one after another.
void MappingSearch::enumerate(TaskMapping& best) {
  const auto n = static_cast<std::uint32_t>(graph_->vertices.size());
  MappedSubgraph part = make_whole_subgraph();
  part.inner.push_back(part.last);
  part.last = kNobody;
  best = {};
  std::size_t steps = 0;
  bool over = false;
  Chain chain;
  const auto go = [&](const auto& self, std::uint32_t v) -> void {
    if (over) return;
    if (v == n) {
      if (chain.seconds >= best.seconds) return;
      best.seconds = chain.seconds;
      best.places.clear();
      for (auto p : chain.placements) best.places.push_back({kWholeMachine, p});
      return;
    }
    if ((++steps & 0xfffU) == 0 && options_.is_over) over = options_.is_over();
    const auto before = chain.seconds;
    const auto count = placements(v, kWholeMachine).size();
    for (std::uint32_t p = 0; p < count; ++p) {
      chain.seconds =
          before + placements(v, kWholeMachine)[p].seconds + cost_edges_into(part, v, p, 0, chain);
      chain.placements.push_back(p);
      self(self, v + 1);
      chain.placements.pop_back();
    }
    chain.seconds = before;
  };
  go(go, 0);
}

}  // namespace tandem::unity
