// Finds plans that leave devices idle. They win if the batch or the layers do not divide over all
// devices, or if communication costs more than the additional devices save.
#pragma once

#include <optional>

#include "search/search.h"

namespace tandem::search {

// A part of the machine, and the search's result for it.
struct FewerDevices {
  machine::Machine machine;
  Result result;
};

// Returns the fastest plan on fewer devices, or nullopt if it is not faster than `all`, the result
// on all devices. Evaluates plain strategies on each part that may be faster, and searches the best
// part. Each family's row is the better one of all devices and the part.
std::optional<FewerDevices> search_fewer_devices(const graph::Graph& model,
                                                 const machine::Machine& machine,
                                                 const Options& options, const Result& all);

}  // namespace tandem::search
