// Cost tables, and the min-plus product that eliminates a variable. It is the minimum of a sum of
// tables over the variable's states, for all states of the others. Most of a search's time is spent
// here. The minima and maxima of table rows show which states cannot give the minimum, and these
// are skipped.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/hash.h"

namespace tandem::search {

struct Table {
  Hash id = 0;  // equal ids mean equal contents
  std::size_t rows = 0;
  std::size_t cols = 1;
  std::vector<float> cost;  // row-major; kImpossible if the states exclude each other

  [[nodiscard]] float at(std::size_t r, std::size_t c = 0) const { return cost[r * cols + c]; }
};
using TablePtr = std::shared_ptr<const Table>;

inline constexpr float kImpossible = 1e30F;

// The best states of an eliminated variable for all states of its neighbours. The last neighbour
// indexes the table's columns, the others its rows.
struct MinPlusProduct {
  TablePtr table;
  std::vector<std::uint32_t> best;
};
using MinPlusProductPtr = std::shared_ptr<const MinPlusProduct>;

// One table of the sum, with the strides of its entries.
struct Addend {
  const Table* table = nullptr;
  std::size_t own_stride = 0;  // of the eliminated variable
  std::vector<std::size_t>
      strides;  // of the result's variables; 0 for those it lacks, 1 for the last
};

// Returns the minimum over v of unary[v] + the sum of `addends`, for all states of the result's
// variables. `sizes` are their numbers of states. Among equal minima the first v counts. At least
// one addend depends on the last variable.
MinPlusProductPtr compute_min_plus(Hash id, const Table& unary, const std::vector<Addend>& addends,
                                   const std::vector<std::size_t>& sizes);

// Returns the minimum over v of left[a][v] + unary[v] + right[v][c]. For a leaf `right` has one
// column.
//   left {{1, 5}, {4, 0}}, unary {0, 2}, right {{3, 1}, {0, 6}}
//   -> table {{4, 2}, {2, 5}}, best {0, 0, 1, 0}: entry (1, 0) is min(4 + 0 + 3, 0 + 2 + 0)
MinPlusProductPtr compute_min_plus(Hash id, const Table& left, const Table& unary,
                                   const Table& right);

}  // namespace tandem::search
