// Where the operators of a parallel computation graph run, so that a step costs least: Unity's
// dynamic program.
//
// Sequence split: at an operator that all paths pass, what comes before and what comes after are
// costed for each of its placements. Parallel split: of what lies side by side between two such
// operators one side and the rest run one after the other on everything, which adds up, or each on
// its part of the devices at the same time, and the longer one counts. A cost of a subgraph depends
// on the placements at its two ends alone; it is kept by the structure of the subgraph, so that
// graphs that are much alike share most of them.
//
// A subgraph that neither split divides is not series-parallel: its operators are placed one after
// another, and of the placements of those that are still needed the cheapest are kept.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "unity/task_graph.h"

namespace tandem::unity {

// By vertex: on which region, and which of its placements there.
struct Place {
  RegionId region = kWholeMachine;
  std::uint32_t placement = 0;
};

struct Mapping {
  double seconds = kImpossible;
  std::vector<Place> places;
};

struct MappingOptions {
  bool caches = true;    // costs of subgraphs, among graphs
  bool programs = true;  // else all placements are tried, one after another
  std::function<bool()> is_over = {};
};

class MappingSearch {
 public:
  MappingSearch(Placements& placements, MappingOptions options)
      : placements_(placements), options_(std::move(options)) {}

  // Infinite where there is none.
  double cost(const TaskGraph& graph);
  Mapping best(const TaskGraph& graph);

  // Have placements been dropped unseen?
  [[nodiscard]] bool is_cut() const { return is_cut_; }
  [[nodiscard]] std::size_t tables() const { return made_; }  // that were computed

 private:
  using Inner = std::vector<std::uint32_t>;  // vertices
  using TablePtr = std::shared_ptr<const CostTable>;
  static constexpr std::uint32_t kNobody = 0xffffffff;

  // What lies between two vertices; no first one where nothing comes before.
  struct Part {
    std::uint32_t first = kNobody;
    Inner inner;
    std::uint32_t last = 0;
    RegionId first_region = kWholeMachine;
    RegionId region = kWholeMachine;  // of the inner ones
    RegionId last_region = kWholeMachine;
  };

  // Costs of the part by placements of its two ends, without theirs: of all that is between them;
  // of that without edges straight from one to the other; of a single branch.
  TablePtr segment(const Part& part);
  TablePtr branches(const Part& part);
  TablePtr branch(const Part& part);
  template <class Make>
  TablePtr kept(const Part& part, std::string_view what, Make&& make);
  CostTable beside(const Part& one, const Part& rest);
  CostTable in_sequence(const Part& part, const std::vector<std::size_t>& cuts);
  CostTable one_by_one(const Part& part);

  // The choices behind an entry of those.
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
  // One branch and all others, where there are several.
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
  std::size_t entries_ = 0;  // of tables that are kept
  std::size_t made_ = 0;
  bool is_cut_ = false;
};

}  // namespace tandem::unity
