// The machine file that measurements of one computer come to.
//
// Latency is what the shortest messages leave; what longer ones take beyond it are rates, by
// collective and size.
#pragma once

#include <string>

#include "predict/collectives.h"
#include "predict/profile.h"

namespace tandem::predict {

// The text of machines/local.machine with these figures. `source` says when they were measured, and
// on what. The profile has products, an `add`, and collectives; no size differs from another by
// rounding only.
std::string machine_text(const Profile& profile, const std::string& source);

}  // namespace tandem::predict
