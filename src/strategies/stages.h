// Where a model may be cut into pipeline stages, and into which. A cut is good where a single
// activation crosses it: between the blocks of a network, and the halves of a block.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "strategies/problem.h"
#include "strategies/setting.h"

namespace tandem::strategies {

// Is the node with this number an operator, not a source?
bool computes(const Problem& problem, std::size_t n);

// The operators, by number of their node, after which only their own result is still to be read.
// (What does not depend on the batch, masks for example, may be read everywhere.) The last operator
// is one of them.
std::vector<std::size_t> cuts(const Problem& problem);

// Those of them after which a layer with another number begins.
std::vector<std::size_t> layer_ends(const Problem& problem, const std::vector<std::size_t>& cuts);

// The first number in a node's name, "12" of "l12.w_q": which layer it is of. Empty where there is
// none.
std::string_view layer_number(std::string_view name);

// Behind which cut each run between cuts ends, the longest as short as can be. `until`: by cut, the
// operations from the first operator to there. `speeds`: of whatever does each run.
std::vector<std::size_t> balanced_ends(const std::vector<double>& until,
                                       const std::vector<double>& speeds);

// How many of so many layers each stage has, where what is before them and behind counts as layers,
// too. The first ones have one more where stages do not divide all. Nothing where one has none.
std::optional<std::vector<std::int64_t>> layers_of_stages(std::int64_t layers, std::int64_t stages,
                                                          const Ends& ends);

// By node; operators in `stages` runs that end at cuts. On equal devices as many layers each, where
// equal layers divide so; else the run that takes longest as short as can be, by operations, or by
// what is said of each node. Stages are on the pipeline's `ranks` in turn. A source is where its
// first reader is. Nothing where there are fewer cuts.
// With `ends` layers divide as they say. `pace`: by rank, how long it takes over an operation in
// times of the others; then stages need not have as many layers each, so that one with a head has
// fewer.
std::optional<std::vector<std::uint16_t>> stages_of(const Problem& problem, std::int64_t stages,
                                                    machine::DigitMask ranks,
                                                    const std::vector<double>& load = {},
                                                    const std::optional<Ends>& ends = {},
                                                    const std::vector<double>& pace = {});

}  // namespace tandem::strategies
