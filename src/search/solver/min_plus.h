// Tables of what choices cost, and the product by which a variable is eliminated: of a sum of
// tables the minimum over its states, for all states of the others. Most of a search's time goes
// here. Not every state is added up: from the least and the most of each table's rows it is known
// which states cannot have the minimum.
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
  std::vector<float> cost;  // row-major; kImpossible where the states exclude each other

  [[nodiscard]] float at(std::size_t r, std::size_t c = 0) const { return cost[r * cols + c]; }
};
using TablePtr = std::shared_ptr<const Table>;

inline constexpr float kImpossible = 1e30F;

// The best state of an eliminated variable for all states of its neighbours, the last of which
// count the table's columns and the others its rows.
struct Product {
  TablePtr table;
  std::vector<std::uint32_t> best;
};
using ProductPtr = std::shared_ptr<const Product>;

// One of the tables that are added up: where its entry is for given states.
struct Addend {
  const Table* table = nullptr;
  std::size_t own_stride = 0;  // of the eliminated variable
  std::vector<std::size_t>
      strides;  // of the result's variables; 0 where it lacks one, 1 of the last
};

// min over v of unary[v] + the sum of `addends`, for all states of the result's variables, of which
// there are `sizes`; of equal ones the first v. At least one addend has the last of them.
ProductPtr min_plus(Hash id, const Table& unary, const std::vector<Addend>& addends,
                    const std::vector<std::size_t>& sizes);

// left[a][v] + unary[v] + right[v][c], minimised over v. A leaf has a right side of one column.
ProductPtr min_plus(Hash id, const Table& left, const Table& unary, const Table& right);

}  // namespace tandem::search
