#include "cli/task.h"

#include <algorithm>

#include "base/error.h"
#include "models/inference.h"
#include "strategies/freeze.h"

namespace tandem::cli {

void TaskFlags::add_flags(CLI::App& command) {
  command
      .add_option("--task", task,
                  "pretrain; finetune: with frozen weights; inference: the forward pass, for "
                  "language models of a whole context, or of one token after MODEL:cache=N")
      ->check(CLI::IsMember({"pretrain", "finetune", "inference"}))
      ->capture_default_str();
  command
      .add_option("--freeze", freeze,
                  "finetune: whose weights stay, some of embedding, dense, transformer, experts, "
                  "word_embedding; default: embedding and word_embedding, as far as there are")
      ->check(CLI::Validator(
          [](const std::string& text) {
            return text.empty() ? std::string("names no layers") : std::string();
          },
          "LIST"));
}

lower::Phase TaskFlags::phase() const {
  return task == "inference" ? lower::Phase::kInference : lower::Phase::kTraining;
}

graph::Graph graph_for(const TaskFlags& flags, const graph::Graph& model) {
  if (flags.task != "finetune" && !flags.freeze.empty()) {
    throw UserError(
        "flag", "--freeze",
        fmt::format("cannot be given with --task {}: {}", flags.task,
                    flags.task == "pretrain" ? "it trains all weights" : "it trains no weights"),
        "--task finetune");
  }
  if (flags.task == "inference") return models::for_inference(model);
  if (flags.task == "pretrain") return model;
  const auto kinds = flags.freeze.empty() ? strategies::frozen_by_default(model)
                                          : strategies::parse_layer_kinds(flags.freeze);
  if (kinds.empty()) {
    throw UserError("flag", "--task finetune",
                    fmt::format("freezes tables that are looked up, and {} has none", model.name()),
                    "--freeze says what else to freeze");
  }
  return strategies::freeze(model, kinds);
}

std::string_view task_of(const lower::Program& program) {
  if (program.phase == lower::Phase::kInference) return "inference";
  const auto ids = program.pcg.ids();
  const bool frozen = std::ranges::any_of(ids, [&](graph::NodeId id) {
    return is_weight(program.pcg.node(id)) && !is_trained(program.pcg.node(id));
  });
  return frozen ? "finetune" : "pretrain";
}

}  // namespace tandem::cli
