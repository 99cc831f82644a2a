// The plan file: one JSON document in version 4. Versions 2 and 3 remain readable.
//
//   {"tandem_plan": 4, "model", "machine", "strategy", "batch", "optimizer", "dtype",
//    "graph": the PCG's text, "layouts": {node: "000r."}, "derivation": [],
//    "hashes": {"graph", "machine"}, "predicted": {"iteration_s", "memory_bytes"}}
#pragma once

#include <string>
#include <string_view>

#include "plan/plan.h"

namespace tandem::plan {

// Returns the plan file of `plan`. Loads the machine that the plan names.
std::string to_json(const Plan& plan);

// Returns whether the text looks like a plan file, complete or not.
bool is_plan(std::string_view text);

// Returns the plan in `text`. Loads the machine that the plan names and checks the plan against it,
// so that the result can be lowered. Throws UserError with `source` and the key if the file is
// invalid.
Plan parse_plan(std::string_view text, const std::string& source);

// Returns the origin of a plan (model, machine, strategy, batch, optimizer and dtype), even if its
// graph or layouts are invalid. Throws UserError if the file is not a plan.
Plan parse_origin(std::string_view text, const std::string& source);

}  // namespace tandem::plan
