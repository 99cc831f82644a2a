// Writes a plan as the settings of the frameworks that can run it: text to pass to their launchers.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"
#include "frameworks/degrees.h"

namespace tandem::cli {

// The text for a framework, the keys that `export --json` adds for it, and notes for the user.
struct Configuration {
  std::string text;
  Json json;
  std::vector<std::string> notes = {};
};

// Returns the settings of `target` ("megatron", "torchtitan", "deepspeed") for `plan`, which has
// these degrees. Throws UserError with the reason if the framework cannot express them.
Configuration write_configuration(const plan::Plan& plan, const frameworks::Degrees& degrees,
                                  const std::string& target);

// Returns [{"name", "text", "notes"} | {"name", "why_not"}, ...], one entry per framework: this
// program's own strategy first, if the plan has one.
Json list_configurations(const plan::Plan& plan, const machine::Machine& machine);

}  // namespace tandem::cli
