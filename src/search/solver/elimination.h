// Minimizes a sum of small cost tables. Each variable has a few states, and each table depends on
// one or two variables. Variables are eliminated one by one: a new table gives, for all states of
// the variable's neighbours, the cost of its best state. Example: eliminating b from f(a, b) + g(b,
// c) gives h(a, c), the minimum over b. For a variable with at most two neighbours this is a
// min-plus product of two tables, and series-parallel networks need nothing else. If none is left,
// the variable with the cheapest table is eliminated, over three neighbours or more. That is exact,
// too. Only if this table would exceed Effort are the least promising states dropped.
//
// Tables carry an id, and products of tables with equal ids are computed once. A network of 96
// equal blocks thus costs about as much as one, and a chain of equal blocks is reduced by squaring.
#pragma once

#include <unordered_map>
#include <vector>

#include "base/hash.h"
#include "search/solver/min_plus.h"

namespace tandem::search {

struct CostNetwork {
  struct Edge {
    std::size_t a = 0;
    std::size_t b = 0;
    TablePtr table;  // rows: states of a, cols: states of b
  };
  std::vector<TablePtr> unary;  // by variable
  std::vector<Edge> edges;
};

// Limits of the cost of tables over three variables and more, in additions. An entry counts as at
// least 16 of them, since it takes memory. The total is for one network, whose equal tables count
// once.
struct Effort {
  double table = 1U << 25U;
  double total = 1U << 26U;
  double table_beyond = 1U << 19U;  // limit once the total is spent
};

// Cache of computed tables, by id. Networks with equal tables may share it.
struct MadeTables {
  std::unordered_map<Hash, TablePtr> sums;
  std::unordered_map<Hash, TablePtr> transposed;
  std::unordered_map<Hash, MinPlusProductPtr> products;
  std::size_t entries = 0;
};

struct Minimum {
  std::vector<std::size_t> state;  // by variable
  double cost = 0;
  bool exact = true;                // false if states were dropped
  std::size_t computed_tables = 0;  // products computed, not found in the cache
};

// Returns the least cost of the network and the states that have it. Example, for variables a, b
// and c without costs of their own:
//   f(a, b) = {{1, 5}, {4, 1}}, u(b) = {0, 2}, g(b, c) = {{3, 1}, {0, 6}}
//   eliminate a: u(b) = {1, 3} with a = {0, 1}; eliminate c: u(b) = {2, 3} with c = {1, 0}
//   eliminate b: the cost is 2 at b = 0, and so a = 0 and c = 1
Minimum minimize(const CostNetwork& network, const Effort& effort = {});
Minimum minimize(const CostNetwork& network, const Effort& effort, MadeTables& made);

}  // namespace tandem::search
