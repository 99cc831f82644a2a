// Prints the result of an exploration as a text table, as CSV and as a plot.
#pragma once

#include <string>
#include <vector>

#include "search/explore.h"

namespace tandem::report {

// Returns a table with at most `most` points of one case, fastest first. Its columns are step time,
// speed relative to the exploration's reference, exposed communication, memory, and whether the
// point fits.
std::string exploration_table(const search::Exploration& exploration, const search::Case& on,
                              std::size_t case_number, std::size_t most);

// Returns a table with at most `most` points of all cases, highest throughput first. Each setting
// that differs between cases has a column:
//   strategy  batch  samples/s  step time  exposed  memory  fits
//   dp        128         412k     311 us   12.0 %    6 MB  yes
std::string ranking_table(const search::Exploration& exploration,
                          const std::vector<search::Case>& cases, std::size_t most);

// Returns all points as CSV with a header line. The values of the sweep are the first columns.
std::string exploration_csv(const search::Exploration& exploration,
                            const std::vector<search::Case>& cases);

// Returns an SVG plot of throughput against the memory of the fullest device, with the Pareto front
// of each case.
std::string exploration_svg(const search::Exploration& exploration,
                            const std::vector<search::Case>& cases, const std::string& title);

}  // namespace tandem::report
