// Finds the tasks that a device takes part in: those that read or write a buffer of which it holds
// a shard.
//
// Devices hold the same kinds of buffers (predict/shard_holders.h) or not. Tasks that touch the
// same kinds share a list, so a device is asked once for each list: 1,200 tasks of BERT-Large have
// about 20.
#pragma once

#include <cstdint>
#include <vector>

#include "lower/program.h"
#include "predict/shard_holders.h"

namespace tandem::predict {

// Kinds of the buffers that each task reads or writes. Equal lists are stored once.
struct Touched {
  std::vector<std::vector<std::size_t>> lists;
  std::vector<std::uint32_t> of_task;  // number of its list, by task
};
Touched find_touched(const lower::Program& program, const Holders& holders);

// Returns, by list, whether `device` holds a shard of a buffer of these kinds.
std::vector<bool> find_held_lists(const Holders& holders, const Touched& touched,
                                  std::int64_t device);

}  // namespace tandem::predict
