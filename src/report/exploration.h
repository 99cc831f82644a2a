// What an exploration found: a table for people, one for programs, and a plot.
#pragma once

#include <string>
#include <vector>

#include "search/explore.h"

namespace tandem::report {

// The points of one case, fastest first, at most `most` of them: time, speed relative to the
// exploration's reference, exposed communication, memory, and whether it fits.
std::string exploration_table(const search::Exploration& exploration, const search::Case& on,
                              std::size_t case_number, std::size_t most);

// The points of all cases, the highest throughput first, at most `most` of them, with what tells
// their cases apart in columns:
//   strategy   batch  samples/s    time  exposed  memory  fits
//   dp         128        412 k  311 us   12.0 %    6 MB  yes
std::string ranking_table(const search::Exploration& exploration,
                          const std::vector<search::Case>& cases, std::size_t most);

// All points, a line each, under a line of names. Values of the sweep come first.
std::string exploration_csv(const search::Exploration& exploration,
                            const std::vector<search::Case>& cases);

// Memory of the fullest device against throughput, with the Pareto front of each case.
std::string exploration_svg(const search::Exploration& exploration,
                            const std::vector<search::Case>& cases, const std::string& title);

}  // namespace tandem::report
