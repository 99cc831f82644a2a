#include "cli/configurations.h"

#include <fmt/format.h>

#include "base/error.h"
#include "frameworks/flags.h"

namespace tandem::cli {

namespace {

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

Configuration write_configuration(const plan::Plan& plan, const frameworks::Degrees& degrees,
                                  const std::string& target) {
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
  constexpr std::pair<const char*, const char*> kFrameworks[] = {
      {"Megatron-LM", "megatron"}, {"torchtitan", "torchtitan"}, {"DeepSpeed", "deepspeed"}};
  Json out = Json::array();
  const auto add_refusal = [&](const char* title, const UserError& error) {
    out.push_back(
        {{"name", title}, {"why_not", fmt::format("{}: {}.", error.where, error.message)}});
  };
  std::optional<frameworks::Degrees> degrees;
  try {
    degrees = frameworks::find_degrees(plan, machine, "strategy");
  } catch (const UserError& error) {  // no framework can express the plan
    for (const auto& [title, target] : kFrameworks) add_refusal(title, error);
    return out;
  }
  out.push_back(
      {{"name", "Tandem"},
       {"text", fmt::format("tandem simulate {} --machine {} {} --strategy {}\n", plan.model,
                            plan.machine, make_training_flags(plan), to_text(degrees->setting))}});
  for (const auto& [title, target] : kFrameworks) {
    try {
      const auto configuration = write_configuration(plan, *degrees, target);
      out.push_back(
          {{"name", title}, {"text", configuration.text}, {"notes", configuration.notes}});
    } catch (const UserError& error) {
      add_refusal(title, error);
    }
  }
  return out;
}

}  // namespace tandem::cli
