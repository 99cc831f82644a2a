// The minimum of a sum of small cost tables: each variable has a few states, each table depends on
// one or two variables. Variables with at most two neighbours are eliminated (a min-plus product of
// their tables) until none is left; on series-parallel networks that is exact.
//
// Tables carry an id. Products of tables with the same ids are made once, so a network of 96 equal
// blocks costs about as much as one, and chains of equal blocks go by squaring.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
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

struct Network {
  struct Edge {
    std::size_t a = 0;
    std::size_t b = 0;
    TablePtr table;  // rows: states of a, cols: states of b
  };
  std::vector<TablePtr> unary;  // by variable
  std::vector<Edge> edges;
};

struct Minimum {
  std::vector<std::size_t> state;  // by variable
  double cost = 0;
  bool exact = true;         // false when variables had to be pinned
  std::size_t products = 0;  // tables made, after sharing
};

// `pins[v]` is the state a variable is fixed to if the network is not series-parallel.
Minimum minimize(const Network& network, std::span<const std::size_t> pins);

}  // namespace tandem::search
