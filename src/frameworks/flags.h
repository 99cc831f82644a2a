// Launcher settings for a plan that has degrees of parallelism (degrees.h): flags of Megatron-LM
// and torchtitan, the configuration file of DeepSpeed. Only decisions of the plan are set. The
// network, the data and the learning rate are left to the user.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "frameworks/degrees.h"

namespace tandem::frameworks {

struct Flags {
  std::vector<std::string> flags;  // "--tensor-model-parallel-size 8"
  nlohmann::ordered_json config;   // DeepSpeed's instead of flags; null for the others
  std::vector<std::string> notes;  // differences from the plan
};

// Each throws UserError with the reason if the framework cannot express the plan.
Flags make_megatron_flags(const plan::Plan& plan, const Degrees& degrees);
Flags make_torchtitan_flags(const plan::Plan& plan, const Degrees& degrees);
Flags make_deepspeed_config(const plan::Plan& plan, const Degrees& degrees);

}  // namespace tandem::frameworks
