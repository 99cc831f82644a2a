// Maps the operators of a parallel computation graph to devices at the least cost of a step:
// Unity's dynamic program.
//
// Sequence split: an operator that all paths pass cuts a subgraph in two. Both parts are costed for
// each placement of that operator. Parallel split: of the branches between two such operators, one
// branch and the rest run one after the other on all devices, and their costs add up. Or they run
// at the same time on parts of the devices, and the longer one counts. The cost of a subgraph only
// depends on the placements at its two ends. It is cached by the subgraph's structure, so similar
// graphs share most costs.
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
struct Place {
  RegionId region = kWholeMachine;
  std::uint32_t placement = 0;
};

struct Mapping {
  double seconds = kImpossible;
  std::vector<Place> places;
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
  Mapping best(const TaskGraph& graph);

  // Returns whether placements were dropped without being costed.
  [[nodiscard]] bool is_cut() const { return is_cut_; }
  [[nodiscard]] std::size_t tables() const { return made_; }  // number computed

 private:
  using Inner = std::vector<std::uint32_t>;  // vertices
  using TablePtr = std::shared_ptr<const CostTable>;
  static constexpr std::uint32_t kNobody = 0xffffffff;

  // The vertices between `first` and `last`; no `first` if nothing comes before.
  struct Part {
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
  TablePtr segment(const Part& part);
  TablePtr branches(const Part& part);
  TablePtr branch(const Part& part);
  template <class Make>
  TablePtr kept(const Part& part, std::string_view what, Make&& make);
  CostTable beside(const Part& one, const Part& rest);
  CostTable in_sequence(const Part& part, const std::vector<std::size_t>& cuts);
  CostTable one_by_one(const Part& part);

  // These functions set the placements behind one entry of those tables.
  void place_segment(const Part& part, std::size_t row, std::size_t col);
  void place_branches(const Part& part, std::size_t row, std::size_t col);
  void place_branch(const Part& part, std::size_t row, std::size_t col);
  void place_sequence(const Part& part, const std::vector<std::size_t>& cuts, std::size_t row,
                      std::size_t col);
  void place_one_by_one(const Part& part, std::size_t row, std::size_t col);

  struct Chain {
    double seconds = 0;
    std::vector<std::uint32_t> placements;  // of the inner vertices so far
  };
  std::vector<Chain> chains(const Part& part, std::size_t row);
  double to_last(const Part& part, const Chain& chain, std::size_t col);
  double edges_into(const Part& part, std::uint32_t vertex, std::size_t placement, std::size_t row,
                    const Chain& chain);

  [[nodiscard]] std::vector<std::size_t> cuts_of(const Part& part) const;
  [[nodiscard]] std::vector<Inner> branches_of(const Part& part) const;
  // Returns one branch and the rest, or nullopt if there is only one branch.
  [[nodiscard]] std::optional<std::pair<Part, Part>> split(const Part& part) const;
  [[nodiscard]] Part whole() const;
  [[nodiscard]] Hash hash_of(const Part& part, Hash seed) const;
  const std::vector<Placement>& placements(std::uint32_t vertex, RegionId region) {
    return placements_.of(graph_->vertices[vertex].kind, region);
  }
  std::size_t rows_of(const Part& part);
  void enumerate(Mapping& best);

  Placements& placements_;
  MappingOptions options_;
  const TaskGraph* graph_ = nullptr;
  std::vector<Place>* places_ = nullptr;
  std::unordered_map<Hash, TablePtr> tables_;
  std::size_t entries_ = 0;  // number of entries in tables_
  std::size_t made_ = 0;
  bool is_cut_ = false;
};

}  // namespace tandem::unity
