#include "cli/configurations.h"

#include <fmt/format.h>

#include "base/error.h"
#include "frameworks/flags.h"

namespace tandem::cli {

namespace {

// Returns the strategy's name without the search that found it: "search:fsdp" -> "fsdp". Empty if
// the plan has layouts of its own, or only part of what the name says.
std::string plain_strategy(const plan::Plan& plan, const machine::Machine& machine) {
  try {
    return to_text(frameworks::find_degrees(plan, machine, "strategy").setting);
  } catch (const UserError&) {
    return "";
  }
}

// Returns the flags that `simulate` needs in addition to the strategy to train as the plan does.
std::string make_training_flags(const plan::Plan& plan) {
  auto out = fmt::format("--batch {} --dtype {} --optimizer {}", plan.batch, name(plan.dtype),
                         name(plan.optimizer));
  if (is_half(plan.dtype)) {
    const auto& precision = plan.mapped.schedule.precision;
    out += fmt::format(" --master {} --grad-dtype {}", precision.master ? "fp32" : "none",
                       name(precision.gradient(plan.dtype)));
  }
  return out;
}

}  // namespace

Configuration write_configuration(const plan::Plan& plan, const machine::Machine& machine,
                                  const std::string& target) {
  const auto degrees = frameworks::find_degrees(plan, machine, target);
  const auto flags = target == "megatron"     ? frameworks::make_megatron_flags(plan, degrees)
                     : target == "torchtitan" ? frameworks::make_torchtitan_flags(plan, degrees)
                                              : frameworks::make_deepspeed_config(plan, degrees);
  Configuration out{.text = {}, .json = {}, .notes = flags.notes};
  for (const auto& flag : flags.flags) out.text += flag + "\n";
  if (!flags.config.is_null()) out.text = flags.config.dump(2) + "\n";
  out.json["form"] = to_text(degrees.setting);
  out.json["dp"] = degrees.dp;
  out.json["tp"] = degrees.tp;
  out.json["pp"] = degrees.pp;
  out.json["cp"] = degrees.cp;
  out.json["ep"] = degrees.ep;
  out.json["zero"] = degrees.zero;
  if (!flags.flags.empty()) out.json["flags"] = flags.flags;
  if (!flags.config.is_null()) out.json["config"] = flags.config;
  return out;
}

Json list_configurations(const plan::Plan& plan, const machine::Machine& machine) {
  Json out = Json::array();
  if (const auto strategy = plain_strategy(plan, machine); !strategy.empty()) {
    out.push_back(
        {{"name", "Tandem"},
         {"text", fmt::format("tandem simulate {} --machine {} {} --strategy {}\n", plan.model,
                              plan.machine, make_training_flags(plan), strategy)}});
  }
  constexpr std::pair<const char*, const char*> kFrameworks[] = {
      {"Megatron-LM", "megatron"}, {"torchtitan", "torchtitan"}, {"DeepSpeed", "deepspeed"}};
  for (const auto& [title, target] : kFrameworks) {
    try {
      const auto configuration = write_configuration(plan, machine, target);
      out.push_back(
          {{"name", title}, {"text", configuration.text}, {"notes", configuration.notes}});
    } catch (const UserError& error) {
      out.push_back(
          {{"name", title}, {"why_not", fmt::format("{}: {}.", error.where, error.message)}});
    }
  }
  return out;
}

}  // namespace tandem::cli
