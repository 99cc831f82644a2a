// tandem show: a network as text, or its figures as JSON.
#include <fmt/format.h>

#include <iostream>

#include "base/error.h"
#include "cli/command.h"
#include "graph/text.h"

namespace tandem::cli {

namespace {

struct Flags {
  bool json = false;
  std::string model;
  std::int64_t batch = 1;
};

void show(const Flags& flags) {
  const auto model = models::parse_model(flags.model);
  const auto graph = model.build(flags.batch, DType::kFp32);
  if (!flags.json) {
    std::cout << graph::to_text(graph);
    return;
  }
  std::size_t edges = 0;
  for (auto id : graph.ids()) edges += graph.inputs(id).size();
  print_json({{"name", model.text},
              {"batch", flags.batch},
              {"parameters", models::count_parameters(graph)},
              {"nodes", graph.size()},
              {"edges", edges},
              {"flops_forward", models::count_forward_flops(graph).value},
              {"identity_hash", fmt::format("{:016x}", graph.identity_hash())},
              {"shape_hash", fmt::format("{:016x}", graph.shape_hash())}});
}

}  // namespace

void add_show(CLI::App& app, int& /*exit_code*/) {
  auto flags = std::make_shared<Flags>();
  auto* command = add_command(app, "show", "print a network's graph; the text parses back",
                              "show mlp:layers=4 --batch 64", flags->json);
  command->add_option("model", flags->model, "NAME or NAME:key=value,...")->required();
  command->add_option("--batch", flags->batch, "global batch")
      ->check(kPositive)
      ->capture_default_str();
  command->callback([flags] { show(*flags); });
}

}  // namespace tandem::cli
