// Tables side by side. In cost tables operators take turns, so that a table seems to be quickest
// in parts on all devices. Where there are several, each of as many devices may have a whole one,
// and how many tables are whole, and how many in parts, only a simulation can say: here the tables
// of a plan change, all alike or one after another, as long as the step becomes shorter.
#pragma once

#include <vector>

#include "search/pool.h"

namespace tandem::search {

// Of plans of one graph, the best first: the tables of the first one, then beside what the others
// do with the other operators.
void place_side_by_side(CandidatePool& pool, const std::vector<Candidate>& plans);

// Would tables of this plan be placed? Those of its graph are most of its weights, and several.
bool has_tables_to_place(CandidatePool& pool, const Candidate& plan);

// Beside what these plans, of one graph, do with the other operators: tables where another plan,
// be it of another graph, has them.
void place_like(CandidatePool& pool, const std::vector<Candidate>& plans, const Candidate& other);

}  // namespace tandem::search
