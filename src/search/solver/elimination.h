// The minimum of a sum of small cost tables: each variable has a few states, each table depends on
// one or two variables. Variables are eliminated one after another: what the best state of one
// costs, for all states of its neighbours, becomes a table of these. While one with at most two
// neighbours is left that is a min-plus product of two tables, and series-parallel networks come to
// their end so. Where none is left, the one whose table is cheapest goes, over three neighbours or
// more. That is exact, too. Only where such a table would cost more than may be spent are the
// states that promise least dropped until it is cheap enough.
//
// Tables carry an id. Products of tables with the same ids are made once, so a network of 96 equal
// blocks costs about as much as one, and chains of equal blocks go by squaring.
#pragma once

#include <unordered_map>
#include <vector>

#include "base/hash.h"
#include "search/solver/min_plus.h"

namespace tandem::search {

struct Network {
  struct Edge {
    std::size_t a = 0;
    std::size_t b = 0;
    TablePtr table;  // rows: states of a, cols: states of b
  };
  std::vector<TablePtr> unary;  // by variable
  std::vector<Edge> edges;
};

// What tables over three variables and more may cost, in additions; an entry counts as many as it
// would take were it kept for them. The total is of one network's tables, equal ones counted
// once.
struct Effort {
  double table = 1U << 25U;
  double total = 1U << 26U;
  double table_beyond = 1U << 19U;  // once the total is spent
};

// Tables that were made of others, by id: networks with equal tables may share one.
struct MadeTables {
  std::unordered_map<Hash, TablePtr> sums;
  std::unordered_map<Hash, TablePtr> transposed;
  std::unordered_map<Hash, ProductPtr> products;
  std::size_t entries = 0;
};

struct Minimum {
  std::vector<std::size_t> state;  // by variable
  double cost = 0;
  bool exact = true;         // false when states had to be dropped
  std::size_t products = 0;  // made, after sharing
};

Minimum minimize(const Network& network, const Effort& effort = {});
Minimum minimize(const Network& network, const Effort& effort, MadeTables& made);

}  // namespace tandem::search
