// For tests: random cost tables, and the cost of an assignment of a network.
#pragma once

#include <memory>
#include <random>
#include <vector>

#include "search/solver/elimination.h"

namespace tandem::search {

// Returns a random table in which some states exclude each other.
inline TablePtr random_table(std::mt19937_64& random, std::size_t rows, std::size_t cols) {
  auto table = std::make_shared<Table>();
  table->id = random();
  table->rows = rows;
  table->cols = cols;
  for (std::size_t i = 0; i < rows * cols; ++i) {
    table->cost.push_back(random() % 8 == 0 ? kImpossible : static_cast<float>(random() % 100));
  }
  return table;
}

inline double cost_of(const CostNetwork& network, const std::vector<std::size_t>& state) {
  double total = 0;
  for (std::size_t v = 0; v < state.size(); ++v) total += network.unary[v]->at(state[v]);
  for (const auto& e : network.edges) total += e.table->at(state[e.a], state[e.b]);
  return total;
}

}  // namespace tandem::search
