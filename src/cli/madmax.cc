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
using madmax::Result;

struct Row {
  const char* name;
  const char* key;  // JSON key of the time in milliseconds
  Seconds time;
};

std::vector<Row> rows(const Result& r) {
  const auto& t = r.totals;
  return {{"gemm", "gemm_ms", t.of(Compute::kGemm)},
          {"embedding", "emb_ms", t.of(Compute::kEmbedding)},
          {"all_to_all", "all2all_ms", t.of(Collective::kAllToAll)},
          {"all_reduce", "allreduce_ms", t.of(Collective::kAllReduce)},
          {"all_gather", "allgather_ms", t.of(Collective::kAllGather)},
          {"reduce_scatter", "reducescatter_ms", t.of(Collective::kReduceScatter)}};
}

constexpr double milliseconds(Seconds time) { return time.value * 1e3; }

Json to_json(const Result& r) {
  Json out;
  out["global_bs"] = r.global_batch;
  out["iter_ms"] = milliseconds(r.iteration);
  out["qps"] = r.throughput();
  for (const auto& row : rows(r)) out[row.key] = milliseconds(row.time);
  out["exposed_ms"] = milliseconds(r.exposed());
  out["exposed_pct"] = 100 * r.exposed_share();
  out["overlapped_ms"] = milliseconds(r.overlapped());
  out["serialized_ms"] = milliseconds(r.serialized());
  out["weight_gb_per_device"] = r.weights.value / 1e9;
  return out;
}

void print(const Result& r, const madmax::Model& model, const madmax::System& system) {
  std::cout << fmt::format("{} on {} ({}), batch {}, predicted by MAD-Max's public model\n\n",
                           model.name, system.name, counted(system.devices, "device"),
                           r.global_batch);
  Table summary({{.title = ""}, {.title = ""}});
  summary.add({"step time", seconds_text(r.iteration.value)});
  summary.add({"throughput", si(r.throughput()) + " samples/s"});
  summary.add({"compute", seconds_text(r.compute().value)});
  summary.add({"exposed communication",
               fmt::format("{} ({:.1f} % of all communication)", seconds_text(r.exposed().value),
                           100 * r.exposed_share())});
  summary.add(
      {"weights", fmt::format("{} of {} (without gradients and optimizer state)",
                              bytes_text(r.weights.value), bytes_text(system.memory.value))});
  std::cout << summary.to_text();
  std::cout << fmt::format("\nTime without overlap, {}:\n", seconds_text(r.serialized().value));
  Table times({{.title = ""}, {.title = "", .align = Align::kRight}});
  for (const auto& row : rows(r)) {
    if (row.time != Seconds{}) times.add({row.name, seconds_text(row.time.value)});
  }
  std::cout << times.to_text();
}

}  // namespace

void MadMaxFiles::add_flags(CLI::App& command) {
  auto* model_flag = command.add_option(
      "--madmax-model", model,
      "predict with MAD-Max's public model: its model file (docs/internals/madmax.md)");
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
    print_json(to_json(result));
  } else {
    print(result, model, system);
  }
}

}  // namespace tandem::cli
