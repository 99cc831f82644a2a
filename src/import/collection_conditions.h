// Conditions that an imported rule must state besides its two sides. They name the shapes that are
// equal, the ranks that only PM_NUMDIM gave, and the degrees that the user of the rule chooses.
#pragma once

#include <cstdint>
#include <vector>

#include "rewrite/pattern_sizes.h"
#include "rewrite/rule.h"

namespace tandem::import {

// Returns for every tensor variable the first variable that the rule's same_shape conditions make
// equal to it. same_shape is an equivalence relation.
std::vector<std::uint16_t> compute_shape_classes(const rewrite::Rule& rule);
// Replaces the same_shape conditions of `rule` by one for each variable and the first of its class.
void merge_same_shapes(rewrite::Rule& rule);

// Adds a rank condition for each variable whose rank in `ranks` does not follow from the source's
// operators.
void add_rank_conditions(rewrite::Rule& rule, const rewrite::Ranks& ranks);

// Makes the degree symbol ?d a choice of `rule` if the source does not bind it.
void add_degree_choice(rewrite::Rule& rule);

}  // namespace tandem::import
