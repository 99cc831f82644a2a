// Divides a model into pipeline stages at cuts. A good cut is crossed by a single activation:
// between the blocks of a network, or between the halves of a block.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "strategies/problem.h"
#include "strategies/setting.h"

namespace tandem::strategies {

// Returns whether node `n` is an operator, not a source.
bool is_operator(const Problem& problem, std::size_t n);

// Returns the operators, as node numbers, after which only their own result is still to be read.
// Results that do not depend on the batch, such as masks, do not count. The last operator is one of
// them.
std::vector<std::size_t> find_cuts(const Problem& problem);

// Returns the cuts after which a layer with another number begins.
std::vector<std::size_t> find_layer_ends(const Problem& problem,
                                         const std::vector<std::size_t>& cuts);

// Returns a node's name up to the end of its first number, which identifies its layer: "l12" of
// "l12.w_q". Returns an empty text if there is no number.
std::string_view parse_layer_number(std::string_view name);

// Returns the index of the cut that ends each run, such that the longest run is as short as
// possible. `until`: by cut, the operations from the first operator up to it. `speeds`: by run.
//   until {1, 2, 3, 4}, speeds {1, 1} -> {1, 3}
std::vector<std::size_t> balance_ends(const std::vector<double>& until,
                                      const std::vector<double>& speeds);

// Returns the number of layers of each stage. `ends` are counted as layers, too. The first
// stages get one more if the layers do not divide. Returns nullopt if a stage would get none.
//   10 layers, 4 stages, ends 1-1 -> 2, 3, 3, 2
std::optional<std::vector<std::int64_t>> divide_layers(std::int64_t layers, std::int64_t stages,
                                                       const Ends& ends);

// Returns the stage of each node, or nullopt if there are too few cuts. On equal devices, stages
// get equal numbers of equal layers if these divide. Otherwise the longest stage is made as short
// as possible, by operations or by `load`, which is by node. Stages go round the pipeline's
// `ranks`. A source is in the stage of its first reader. With `ends`, layers divide as in
// divide_layers. `pace`: by rank, the time of an operation relative to other ranks. With it,
// stages need not have equal numbers of layers, so a stage with a head has fewer.
std::optional<std::vector<std::uint16_t>> assign_stages(const Problem& problem, std::int64_t stages,
                                                        machine::DigitMask ranks,
                                                        const std::vector<double>& load = {},
                                                        const std::optional<Ends>& ends = {},
                                                        const std::vector<double>& pace = {});

}  // namespace tandem::strategies
