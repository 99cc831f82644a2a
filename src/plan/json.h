// The plan file: one JSON document, version 4; versions 2 and 3 are read as well.
//
//   {"tandem_plan": 4, "model", "machine", "strategy", "batch", "optimizer", "dtype",
//    "graph": the PCG's text, "layouts": {node: "000r."}, "derivation": [],
//    "hashes": {"graph", "machine"}, "predicted": {"iteration_s", "memory_bytes"}}
#pragma once

#include <string>
#include <string_view>

#include "plan/plan.h"

namespace tandem::plan {

std::string to_json(const Plan& plan);

// Does the text look like a plan file, whole or not?
bool is_plan(std::string_view text);

// Throws UserError naming `source` and the key. Loads the machine the plan names and checks the
// plan against it, so that what it returns can be lowered.
Plan parse_plan(std::string_view text, const std::string& source);

// What a plan says it was made from, of a file whose graph or layouts may be wrong: all but the
// mapped graph and the prediction. Throws UserError where the file is no plan.
Plan parse_origin(std::string_view text, const std::string& source);

}  // namespace tandem::plan
