#include "cli/madmax.h"

#include <fmt/format.h>

#include <iostream>

#include "base/table.h"
#include "base/text.h"
#include "madmax/evaluate.h"

namespace tandem::cli {

namespace {

using madmax::Collective;
using madmax::Compute;
using madmax::IterationResult;

struct TimeRow {
  const char* name;
  const char* key;  // JSON key of the time in milliseconds
  Seconds time;
};

std::vector<TimeRow> list_time_rows(const IterationResult& r) {
  const auto& t = r.totals;
  return {{"gemm", "gemm_ms", t.get_time(Compute::kGemm)},
          {"embedding", "emb_ms", t.get_time(Compute::kEmbedding)},
          {"all_to_all", "all2all_ms", t.get_time(Collective::kAllToAll)},
          {"all_reduce", "allreduce_ms", t.get_time(Collective::kAllReduce)},
          {"all_gather", "allgather_ms", t.get_time(Collective::kAllGather)},
          {"reduce_scatter", "reducescatter_ms", t.get_time(Collective::kReduceScatter)}};
}

constexpr double to_milliseconds(Seconds time) { return time.value * 1e3; }

Json result_json(const IterationResult& r) {
  Json out;
  out["global_bs"] = r.global_batch;
  out["iter_ms"] = to_milliseconds(r.iteration);
  out["qps"] = r.throughput();
  for (const auto& row : list_time_rows(r)) out[row.key] = to_milliseconds(row.time);
  out["exposed_ms"] = to_milliseconds(r.exposed());
  out["exposed_pct"] = 100 * r.exposed_share();
  out["overlapped_ms"] = to_milliseconds(r.overlapped());
  out["serialized_ms"] = to_milliseconds(r.serialized());
  out["weight_gb_per_device"] = r.weights.value / 1e9;
  return out;
}

void print(const IterationResult& r, const madmax::Model& model, const madmax::System& system) {
  std::cout << fmt::format("{} on {} ({}), batch {}, predicted by MAD-Max's public model\n\n",
                           model.name, system.name, pluralize(system.devices, "device"),
                           r.global_batch);
  TextTable summary({{.title = ""}, {.title = ""}});
  summary.add({"step time", format_seconds(r.iteration.value)});
  summary.add({"throughput", format_si(r.throughput()) + " samples/s"});
  summary.add({"compute", format_seconds(r.compute().value)});
  summary.add({"exposed communication",
               fmt::format("{} ({:.1f} % of all communication)", format_seconds(r.exposed().value),
                           100 * r.exposed_share())});
  summary.add(
      {"weights", fmt::format("{} of {} (without gradients and optimizer state)",
                              format_bytes(r.weights.value), format_bytes(system.memory.value))});
  std::cout << summary.to_text();
  std::cout << fmt::format("\nTime without overlap, {}:\n", format_seconds(r.serialized().value));
  TextTable times({{.title = ""}, {.title = "", .align = Align::kRight}});
  for (const auto& row : list_time_rows(r)) {
    if (row.time != Seconds{}) times.add({row.name, format_seconds(row.time.value)});
  }
  std::cout << times.to_text();
}

}  // namespace

void MadMaxFiles::add_flags(CLI::App& command) {
  auto* model_flag =
      command.add_option("--madmax-model", model,
                         "predict with MAD-Max's public model instead of a model, machine and "
                         "strategy: its model file (docs/internals/madmax.md)");
  auto* system_flag =
      command.add_option("--madmax-system", system, "system file for --madmax-model");
  auto* task_flag = command.add_option("--madmax-task", task, "task file for --madmax-model");
  for (auto* flag : {model_flag, system_flag, task_flag}) {
    for (auto* other : {model_flag, system_flag, task_flag}) {
      if (other != flag) flag->needs(other);
    }
    for (const char* other : {"model", "--machine", "--batch", "--optimizer", "--dtype",
                              "--strategy", "--tasks", "--task", "--freeze", "--memory", "--margin",
                              "--recompute", "--schedule", "--trace", "--output"}) {
      flag->excludes(command.get_option(other));
    }
  }
}

void simulate_madmax(const MadMaxFiles& files, bool json) {
  const auto model = madmax::parse_model(read_file(files.model), files.model);
  const auto system = madmax::parse_system(read_file(files.system), files.system);
  const auto task = madmax::parse_task(read_file(files.task), files.task, model, system);
  const auto result = madmax::evaluate(model, system, task);
  if (json) {
    print_json(result_json(result));
  } else {
    print(result, model, system);
  }
}

}  // namespace tandem::cli
