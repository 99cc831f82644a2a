// The neighbours of a strategy: settings that differ from it in one choice. They are what a named
// strategy's user is advised to try, and the steps of a local search.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "strategies/grid.h"
#include "strategies/problem.h"

namespace tandem::search {

// Returns complete settings that differ from `setting`, which is complete, in one of
// - a prime factor of devices, moved between tp, dp, pp and cp,
// - the number of micro-batches, by a prime factor,
// - ZeRO's level, what is recomputed, sp, or the pieces of the model on a stage.
// A move keeps the samples of a micro-batch where it can. Of 8 devices, dp has among others
// megatron:tp=2,dp=4, megatron:tp=1,dp=4,pp=2,micro=16, deepspeed:zero=1, fsdp and dp:micro=2.
// Settings that the devices cannot be grouped for are left out; whether a network can be laid out
// so is for make_strategy.
std::vector<strategies::Setting> single_changes(const strategies::Setting& setting,
                                                const strategies::Problem& problem,
                                                std::int64_t batch);

// "tp=4,dp=2 instead of tp=2,dp=4", "sp", "without recompute=full"; another family's whole text.
std::string change_text(const strategies::Setting& from, const strategies::Setting& to);

}  // namespace tandem::search
