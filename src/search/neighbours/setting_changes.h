// The neighbours of a strategy: settings that differ from it in one choice. They are the advice for
// the user of a named strategy, and the steps of a local search.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "strategies/grid.h"
#include "strategies/problem.h"

namespace tandem::search {

// Returns complete settings that differ from the complete `setting` in one of
//   - a prime factor of devices, moved between tp, dp, pp and cp,
//   - the number of micro-batches, by a prime factor,
//   - the ZeRO level, recomputation, sp, or the number of virtual stages per rank.
// A move keeps the samples of a micro-batch if it can. Leaves out settings that the devices cannot
// be grouped for; make_strategy checks whether they suit the network. Example: the changes of dp on
// 8 devices include megatron:tp=2,dp=4, megatron:tp=1,dp=4,pp=2,micro=16, deepspeed:zero=1, fsdp
// and dp:micro=2.
std::vector<strategies::Setting> list_single_changes(const strategies::Setting& setting,
                                                     const strategies::Problem& problem,
                                                     std::int64_t batch);

// Describes the change from one setting to another: "tp=4,dp=2 instead of tp=2,dp=4", "sp",
// "without recompute=full". For another family, returns its whole text.
std::string describe_change(const strategies::Setting& from, const strategies::Setting& to);

}  // namespace tandem::search
