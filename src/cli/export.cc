// tandem export: writes a plan for another training framework.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iostream>

#include "base/error.h"
#include "cli/configurations.h"
#include "cli/lowered.h"
#include "cli/new_file.h"
#include "cli/read_plan.h"
#include "frameworks/torch_module.h"
#include "plan/json.h"

namespace tandem::cli {

namespace {

struct ExportFlags {
  bool json = false;
  Job job;
  std::string strategy = "best_baseline";
  std::string target, output;
  std::vector<std::string> given;  // given flags whose values a plan has itself
};

Json mesh_json(const frameworks::Mesh& mesh) {
  Json out = Json::array();
  for (const auto& dim : mesh.dims()) out.push_back({{"name", dim.name}, {"size", dim.size}});
  return out;
}

Configuration export_to_torch(const plan::Plan& plan, const machine::Machine& machine) {
  const auto module = frameworks::make_torch_module(plan, machine);
  Configuration out{.text = to_python(module, plan), .json = {}};
  out.json["mesh"] = mesh_json(module.mesh);
  out.json["weights"] = module.weights.size();
  out.json["layers"] = module.layers.size();
  if (!module.recomputed.empty()) {
    out.notes.push_back(
        fmt::format("the plan recomputes {} operators in the backward pass (RECOMPUTED): the "
                    "module must do so itself, by activation checkpointing",
                    module.recomputed.size()));
  }
  if (plan.mapped.schedule.micro_batches > 1) {
    out.notes.push_back(
        fmt::format("a step has {} micro-batches: the training loop must split the batch",
                    plan.mapped.schedule.micro_batches));
  }
  return out;
}

// Returns the plan in a file, or the plan of a strategy that is given by name.
plan::Plan load_plan(const ExportFlags& flags) {
  const auto& path = flags.job.model_text;
  if (!is_plan_file(path)) {
    if (flags.job.machine_text.empty()) {
      throw UserError("plan", path, "is not a plan file",
                      "write one by `tandem plan ... -o plan.json`, or export a model with "
                      "--machine and --strategy");
    }
    return lower_strategy(flags.job, flags.strategy).plan;
  }
  for (const auto& flag : flags.given) {
    throw UserError("flag", flag, "cannot be used with a plan, which has its own value",
                    "remove the flag");
  }
  return plan::parse_plan(read_file(path), path);
}

void run(const ExportFlags& flags) {
  const auto plan = load_plan(flags);
  const auto machine = machine::load_machine(plan.machine);
  const auto exported =
      flags.target == "torch"
          ? export_to_torch(plan, machine)
          : write_configuration(plan, frameworks::find_degrees(plan, machine, flags.target),
                                flags.target);
  if (!flags.output.empty()) write_file(flags.output, exported.text);
  if (flags.json) {
    Json out = describe_plan(plan);
    out["to"] = flags.target;
    out.update(exported.json);
    if (flags.output.empty()) {
      out["text"] = exported.text;
    } else {
      out["output"] = flags.output;
    }
    out["notes"] = exported.notes;
    return print_json(out);
  }
  if (flags.output.empty()) std::cout << exported.text;
  for (const auto& note : exported.notes) std::cerr << "note: " << note << "\n";
}

}  // namespace

void add_export(CLI::App& app, int& /*exit_code*/) {
  auto flags = std::make_shared<ExportFlags>();
  auto* command =
      add_command(app, "export", "export a plan to PyTorch, torchtitan, Megatron or DeepSpeed",
                  "export plan.json --to torch -o spread.py", flags->json);
  flags->job.add_flags(*command);
  command->get_option("model")->description("plan file, or a model: NAME or NAME:key=value,...");
  command->get_option("--machine")->required(false);
  command
      ->add_option("--strategy", flags->strategy,
                   "strategy for a model: dp, megatron:tp=N, ... (docs/reference/strategies.md)")
      ->capture_default_str();
  command
      ->add_option("--to", flags->target,
                   "torch: a Python module that parallelizes an nn.Module; torchtitan, megatron: "
                   "command-line flags; deepspeed: a configuration file")
      ->required()
      ->check(CLI::IsMember({"torch", "torchtitan", "megatron", "deepspeed"}));
  command->add_option("-o,--output", flags->output, "write to this file instead of standard output")
      ->check(kFile);
  command->callback([flags, command] {
    for (const char* flag : {"--machine", "--batch", "--optimizer", "--dtype", "--master",
                             "--grad-dtype", "--strategy", "--stale-weights"}) {
      if (command->count(flag) > 0) flags->given.emplace_back(flag);
    }
    run(*flags);
  });
}

}  // namespace tandem::cli
