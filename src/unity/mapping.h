// Maps the operators of a parallel computation graph to devices at the least cost of a step:
// Unity's dynamic program.
//
// Sequence split: an operator that all paths pass cuts a subgraph in two. Both parts are costed for
// each placement of that operator. Parallel split: one of the branches between two such operators
// and the rest run one after the other on all devices, and their costs are added. Or they run at
// the same time on parts of the devices, and the longer one counts. The cost of a subgraph only
// depends on the placements at its two ends. It is cached by the subgraph's structure, so similar
// graphs share most costs.
//
// Example: two branches take 3 and 2 ms on 4 devices, one after the other 5 ms. On 2 devices they
// take 4 and 3 ms, side by side 4 ms, which is better.
//
// A subgraph that neither split divides is not series-parallel. Its operators are placed one after
// another. Only the cheapest chains are retained, by the placements of operators that are still
// needed.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "unity/task_graph.h"

namespace tandem::unity {

// The region of a vertex, and the index of its placement there.
struct VertexPlace {
  RegionId region = kWholeMachine;
  std::uint32_t placement = 0;
};

struct TaskMapping {
  double seconds = kImpossible;
  std::vector<VertexPlace> places;
};

struct MappingOptions {
  bool caches = true;    // caches costs of subgraphs between graphs
  bool programs = true;  // false: tries all placements one after another
  std::function<bool()> is_over = {};
};

class MappingSearch {
 public:
  MappingSearch(Placements& placements, MappingOptions options)
      : placements_(placements), options_(std::move(options)) {}

  // Returns the cost of the best mapping in seconds; infinity if there is none.
  double cost(const TaskGraph& graph);
  TaskMapping find_best(const TaskGraph& graph);

  // Returns whether placements were dropped without being costed.
  [[nodiscard]] bool is_cut() const { return is_cut_; }
  [[nodiscard]] std::size_t table_count() const { return computed_tables_; }  // number computed

 private:
  using Inner = std::vector<std::uint32_t>;  // vertices
  using TablePtr = std::shared_ptr<const CostTable>;
  static constexpr std::uint32_t kNobody = 0xffffffff;

  // The vertices between `first` and `last`; no `first` if nothing comes before.
  struct MappedSubgraph {
    std::uint32_t first = kNobody;
    Inner inner;
    std::uint32_t last = 0;
    RegionId first_region = kWholeMachine;
    RegionId region = kWholeMachine;  // of the inner vertices
    RegionId last_region = kWholeMachine;
  };

  // These functions return costs of the part by the placements of its two ends, without the ends'
  // own costs. segment() covers everything between the ends, branches() omits edges that connect
  // the ends directly, and branch() covers a single branch.
  TablePtr cost_segment(const MappedSubgraph& part);
  TablePtr cost_branches(const MappedSubgraph& part);
  TablePtr cost_branch(const MappedSubgraph& part);
  template <class Make>
  TablePtr memoize_table(const MappedSubgraph& part, std::string_view what, Make&& make);
  CostTable cost_split(const MappedSubgraph& one, const MappedSubgraph& rest);
  CostTable cost_sequence(const MappedSubgraph& part, const std::vector<std::size_t>& cuts);
  CostTable cost_one_by_one(const MappedSubgraph& part);

  // These functions set the placements behind one entry of those tables.
  void place_segment(const MappedSubgraph& part, std::size_t row, std::size_t col);
  void place_branches(const MappedSubgraph& part, std::size_t row, std::size_t col);
  void place_branch(const MappedSubgraph& part, std::size_t row, std::size_t col);
  void place_sequence(const MappedSubgraph& part, const std::vector<std::size_t>& cuts,
                      std::size_t row, std::size_t col);
  void place_one_by_one(const MappedSubgraph& part, std::size_t row, std::size_t col);

  struct Chain {
    double seconds = 0;
    std::vector<std::uint32_t> placements;  // of the inner vertices so far
  };
  std::vector<Chain> find_chains(const MappedSubgraph& part, std::size_t row);
  double cost_to_last(const MappedSubgraph& part, const Chain& chain, std::size_t col);
  double cost_edges_into(const MappedSubgraph& part, std::uint32_t vertex, std::size_t placement,
                         std::size_t row, const Chain& chain);

  [[nodiscard]] std::vector<std::size_t> find_cuts(const MappedSubgraph& part) const;
  [[nodiscard]] std::vector<Inner> find_branches(const MappedSubgraph& part) const;
  // Returns one branch and the rest, or nullopt if there is only one branch.
  [[nodiscard]] std::optional<std::pair<MappedSubgraph, MappedSubgraph>> split(
      const MappedSubgraph& part) const;
  [[nodiscard]] MappedSubgraph make_whole_subgraph() const;
  [[nodiscard]] Hash compute_hash(const MappedSubgraph& part, Hash seed) const;
  const std::vector<Placement>& placements(std::uint32_t vertex, RegionId region) {
    return placements_.get_placements(graph_->vertices[vertex].kind, region);
  }
  std::size_t count_rows(const MappedSubgraph& part);
  void enumerate(TaskMapping& best);

  Placements& placements_;
  MappingOptions options_;
  const TaskGraph* graph_ = nullptr;
  std::vector<VertexPlace>* places_ = nullptr;
  std::unordered_map<Hash, TablePtr> tables_;
  std::size_t entries_ = 0;  // number of entries in tables_
  std::size_t computed_tables_ = 0;
  bool is_cut_ = false;
};

}  // namespace tandem::unity
