#include "cli/task_flags.h"

#include <algorithm>

#include "base/error.h"
#include "models/inference.h"
#include "strategies/freeze.h"

namespace tandem::cli {

void TaskFlags::add_flags(CLI::App& command) {
  command
      .add_option("--task", task,
                  "pretrain, finetune (some weights are frozen), or inference (forward pass only; "
                  "language models process the whole context, or one token with MODEL:cache=N)")
      ->check(CLI::IsMember({"pretrain", "finetune", "inference"}))
      ->capture_default_str();
  command
      .add_option("--freeze", freeze,
                  "layers whose weights finetune freezes, comma-separated: embedding, dense, "
                  "transformer, experts, word_embedding; default: embedding and "
                  "word_embedding, those that the model has")
      ->check(CLI::Validator(
          [](const std::string& text) {
            return text.empty() ? std::string("the list of layers is empty") : std::string();
          },
          "LIST"));
}

lower::Mode TaskFlags::mode() const {
  return task == "inference" ? lower::Mode::kInference : lower::Mode::kTraining;
}

graph::Graph make_task_graph(const TaskFlags& flags, const graph::Graph& model) {
  if (flags.task != "finetune" && !flags.freeze.empty()) {
    throw UserError("flag", "--freeze",
                    fmt::format("cannot be used with --task {}, which trains {} weights",
                                flags.task, flags.task == "pretrain" ? "all" : "no"),
                    "use --task finetune");
  }
  if (flags.task == "inference") return models::convert_to_inference(model);
  if (flags.task == "pretrain") return model;
  const auto kinds = flags.freeze.empty() ? strategies::list_default_frozen_kinds(model)
                                          : strategies::parse_layer_kinds(flags.freeze);
  if (kinds.empty()) {
    throw UserError("flag", "--task finetune",
                    fmt::format("freezes embedding tables, and {} has none", model.name()),
                    "name the layers to freeze with --freeze");
  }
  return strategies::freeze(model, kinds);
}

std::string_view find_task_name(const lower::Program& program) {
  if (program.mode == lower::Mode::kInference) return "inference";
  const auto ids = program.pcg.ids();
  const bool frozen = std::ranges::any_of(ids, [&](graph::NodeId id) {
    return is_weight(program.pcg.node(id)) && !is_trained(program.pcg.node(id));
  });
  return frozen ? "finetune" : "pretrain";
}

}  // namespace tandem::cli
