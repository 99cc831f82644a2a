// Plans that leave devices idle: where the batch or the layers do not divide over all of them, or
// communication takes longer than what more devices save.
#pragma once

#include <optional>

#include "search/search.h"

namespace tandem::search {

// A part of the machine, and a plan for it.
struct FewerDevices {
  machine::Machine machine;
  Result result;
};

// The fastest plan on fewer devices, where it is faster than `all`, the result on all of them.
// Plain strategies are evaluated on each part that may be faster; the best part is searched. Each
// family's row is the better of those on all devices and on the part.
std::optional<FewerDevices> search_fewer_devices(const graph::Graph& model,
                                                 const machine::Machine& machine,
                                                 const Options& options, const Result& all);

}  // namespace tandem::search
