// What launchers are given for a plan that has degrees of parallelism (degrees.h): flags of
// Megatron-LM and torchtitan, the configuration file of DeepSpeed. Only what the plan decides:
// which network, which data and how fast it learns stays the user's.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "frameworks/degrees.h"

namespace tandem::frameworks {

struct Flags {
  std::vector<std::string> flags;  // "--tensor-model-parallel-size 8"
  nlohmann::ordered_json config;   // DeepSpeed's instead; null for the others
  std::vector<std::string> notes;  // what is not quite as in the plan
};

// Each throws UserError where the framework has no form for it, with the reason.
Flags megatron_flags(const plan::Plan& plan, const Degrees& degrees);
Flags torchtitan_flags(const plan::Plan& plan, const Degrees& degrees);
Flags deepspeed_config(const plan::Plan& plan, const Degrees& degrees);

}  // namespace tandem::frameworks
