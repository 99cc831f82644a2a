#include "cli/show_mapped.h"

#include <fmt/format.h>

#include <iostream>

#include "base/text.h"
#include "graph/fold.h"
#include "graph/json.h"
#include "graph/text.h"
#include "report/dot.h"
#include "report/mapped_json.h"
#include "report/mapped_text.h"

namespace tandem::cli {

namespace {

struct View {
  const LoweredPlan& lowered;
  report::MappedModel mapped;
  std::vector<report::FoldedBlock> blocks;
};

View make_view(const LoweredPlan& lowered, bool unfolded) {
  View out{lowered, report::make_mapped_model(lowered.program), {}};
  out.blocks = report::split_into_blocks(out.mapped.model, [&](graph::NodeId a, graph::NodeId b) {
    return !unfolded && out.mapped.nodes[a.index()] == out.mapped.nodes[b.index()];
  });
  return out;
}

void print_words(const View& view) {
  const auto& plan = view.lowered.plan;
  const auto& machine = view.lowered.machine;
  const auto& program = view.lowered.program;
  const auto& simulation = view.lowered.simulation;
  std::cout << fmt::format("{}, {}, {}, strategy {}\n", make_title(view.lowered), name(plan.dtype),
                           name(plan.optimizer), plan.strategy);
  const auto& schedule = program.schedule;
  if (schedule.stages > 1 || schedule.micro_batches > 1) {
    const bool is_pipeline = schedule.stages > 1;
    std::cout << fmt::format(
        "{}, {} micro-batch{}{}{}\n",
        is_pipeline ? pluralize(schedule.stages, "stage") : "no pipeline", schedule.micro_batches,
        schedule.micro_batches == 1 ? "" : "es",
        is_pipeline ? fmt::format(", {}", name(schedule.order)) : "",
        schedule.is_delayed() ? ", updates delayed by one step (PipeDream-2BW)" : "");
  }
  std::cout << "\n" << report::mapped_text(view.mapped, view.blocks, machine, program);
  std::cout << "\nCommunication, per device and step:\n"
            << report::traffic_text(report::sum_traffic(program, simulation), machine,
                                    program.digits);
  std::cout << "\nMemory at the peak: " << report::memory_text(predict::compute_memory(program))
            << "\n";
}

Json make_figures(const View& view) {
  const auto& plan = view.lowered.plan;
  const auto& machine = view.lowered.machine;
  const auto& program = view.lowered.program;
  const auto& simulation = view.lowered.simulation;
  const auto& pcg = program.pcg;
  std::size_t edges = 0;
  for (auto id : pcg.ids()) edges += pcg.inputs(id).size();
  Json out{{"name", plan.model}};
  out.update(describe_plan(plan));
  if (program.schedule.stages > 1 || program.schedule.micro_batches > 1) {
    out["schedule"] = {{"order", name(program.schedule.order)},
                       {"stages", program.schedule.stages},
                       {"micro_batches", program.schedule.micro_batches}};
  }
  out["nodes"] = pcg.size();
  out["edges"] = edges;
  out["parameters"] = models::count_parameters(view.mapped.model);
  out["iteration_s"] = simulation.iteration.value;
  out["memory_bytes"] = static_cast<std::int64_t>(simulation.memory.value);
  out["memory"] = report::memory_json(predict::compute_memory(program));
  out["communication"] =
      report::traffic_json(report::sum_traffic(program, simulation), machine, program.digits);
  out["blocks"] = report::blocks_json(view.mapped, view.blocks, machine, program.digits);
  return out;
}

}  // namespace

void show_mapped(const LoweredPlan& lowered, Form form, bool unfolded) {
  const auto& pcg = lowered.program.pcg;
  switch (form) {
    case Form::kWords:
      print_words(make_view(lowered, unfolded));
      return;
    case Form::kText:
      std::cout << (unfolded ? graph::to_text(pcg) : graph::to_folded_text(pcg));
      return;
    case Form::kJson:
      print_json(make_figures(make_view(lowered, unfolded)));
      return;
    case Form::kGraphJson:
      std::cout << graph::to_json(pcg);
      return;
    case Form::kDot: {
      const auto view = make_view(lowered, unfolded);
      std::cout << report::to_dot(view.mapped, view.blocks, lowered.machine, lowered.program);
      return;
    }
  }
}

}  // namespace tandem::cli
