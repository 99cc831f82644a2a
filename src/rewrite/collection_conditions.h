// What an imported rule must say beside its two sides: which shapes are one, ranks that only a
// number of dimensions told, and degrees that whoever applies it picks.
#pragma once

#include <cstdint>
#include <vector>

#include "rewrite/pattern_sizes.h"
#include "rewrite/rule.h"

namespace tandem::rewrite {

// same_shape is an equivalence: for every variable, the first of those that the conditions make
// equal to it.
std::vector<std::uint16_t> shape_classes(const Rule& rule);
// Says each class once, by its first variable.
void merge_same_shapes(Rule& rule);

// The source's own operators fix the ranks of some variables; those that only a number of
// dimensions told are said.
void add_rank_conditions(Rule& rule, const Ranks& ranks);

// Degrees that the source does not have are free.
void add_choices(Rule& rule);

}  // namespace tandem::rewrite
