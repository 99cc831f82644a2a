// Fits a machine file to the measurements of one computer.
//
// The latency is fitted to the shortest messages. The remaining time of longer messages gives rates
// by collective and size.
#pragma once

#include <string>

#include "predict/collectives.h"
#include "predict/profile.h"

namespace tandem::predict {

// Returns the text of machines/local.machine with the fitted numbers. `source` says when and where
// they were measured. `profile` has linear operators, an `add`, and collectives. No two sizes
// may differ by rounding only.
std::string format_machine(const Profile& profile, const std::string& source);

}  // namespace tandem::predict
