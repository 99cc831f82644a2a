// Parses the trace and compares it with its simulation.
#include "report/trace.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "lower/lower.h"
#include "models/model.h"
#include "models/small_models_test_support.h"
#include "strategies/grid.h"

namespace tandem::report {
namespace {

using Json = nlohmann::json;
using Row = std::pair<std::int64_t, std::int64_t>;  // process, thread

struct Traced {
  lower::Program program;
  predict::Simulation simulation;
  Trace trace;
  Json json;
};

Traced trace_strategy(const std::string& text, const machine::Machine& machine,
                      const std::string& strategy, std::int64_t batch,
                      std::size_t most_spans = kMostTracedSpans) {
  const auto model = models::parse_model(text).build(batch, DType::kFp32);
  const auto s = strategies::make_named_strategies(strategy, model, machine::Digits(machine),
                                                   plan::Semantics::kDelayed1)[0];
  const machine::Digits digits(machine, s.schedule.micro_batches);
  Traced out{lower::lower(plan::parallelize(model, digits, s.choices, s.schedule), digits,
                          machine.device.software, plan::Optimizer::kAdam),
             {},
             {},
             {}};
  out.simulation = predict::simulate(out.program, machine);
  out.trace = make_chrome_trace(out.program, machine, out.simulation, "a \"title\"", most_spans);
  out.json = Json::parse(out.trace.json);
  return out;
}

// Times are in microseconds with three decimals.
std::int64_t nanoseconds(const Json& value) { return std::llround(value.get<double>() * 1e3); }

struct Slice {
  std::int64_t begin, end;
};

// Returns the slices of each row. Checks that they are in order and do not overlap.
std::map<Row, std::vector<Slice>> collect_rows(const Json& json) {
  std::map<Row, std::vector<Slice>> out;
  for (const auto& e : json.at("traceEvents")) {
    if (e.at("ph") != "X") continue;
    const auto begin = nanoseconds(e.at("ts"));
    EXPECT_FALSE(e.at("name").get<std::string>().empty());
    EXPECT_TRUE(e.at("args").contains("kind"));
    EXPECT_TRUE(e.at("args").contains("pass"));
    EXPECT_TRUE(e.at("args").contains("micro_batch"));
    out[{e.at("pid"), e.at("tid")}].push_back({begin, begin + nanoseconds(e.at("dur"))});
  }
  for (const auto& [row, slices] : out) {
    for (std::size_t i = 1; i < slices.size(); ++i) {
      EXPECT_LE(slices[i - 1].end, slices[i].begin) << row.first << " " << row.second;
    }
  }
  return out;
}

bool begins_a_slice(const std::vector<Slice>& slices, std::int64_t at) {
  return std::ranges::any_of(slices, [&](const Slice& s) { return s.begin == at; });
}

void expect_well_formed(const Traced& t, std::size_t least_arrows) {
  const auto rows = collect_rows(t.json);
  std::map<Row, std::string> names;
  std::map<std::int64_t, std::vector<Json>> arrows;
  std::map<std::int64_t, double> peak;  // by process
  for (const auto& e : t.json.at("traceEvents")) {
    const auto& phase = e.at("ph");
    if (phase == "M" && e.at("name") == "thread_name") {
      names[{e.at("pid"), e.at("tid")}] = e.at("args").at("name");
    } else if (phase == "s" || phase == "f") {
      arrows[e.at("id")].push_back(e);
    } else if (phase == "C") {
      double sum = 0;
      for (const auto& [kind, bytes] : e.at("args").items()) sum += bytes.get<double>();
      peak[e.at("pid")] = std::max(peak[e.at("pid")], sum);
    }
  }
  // Rows have names, which differ within a process.
  std::set<std::pair<std::int64_t, std::string>> distinct;
  for (const auto& [row, slices] : rows) {
    ASSERT_TRUE(names.contains(row));
    EXPECT_TRUE(distinct.insert({row.first, names[row]}).second) << names[row];
  }
  // An arrow goes from one slice to another that begins after the first has ended. Between devices,
  // the second may begin as soon as the first begins to send.
  EXPECT_GE(arrows.size(), least_arrows);
  for (const auto& [id, ends] : arrows) {
    ASSERT_EQ(ends.size(), 2U) << id;
    EXPECT_EQ(ends[0].at("ph"), "s");
    EXPECT_EQ(ends[1].at("ph"), "f");
    const Row from{ends[0].at("pid"), ends[0].at("tid")};
    const Row to{ends[1].at("pid"), ends[1].at("tid")};
    EXPECT_NE(from, to);
    EXPECT_TRUE(begins_a_slice(rows.at(from), nanoseconds(ends[0].at("ts"))));
    EXPECT_TRUE(begins_a_slice(rows.at(to), nanoseconds(ends[1].at("ts"))));
    EXPECT_LE(nanoseconds(ends[0].at("ts")), nanoseconds(ends[1].at("ts")));
    if (from.first != to.first) continue;
    const auto& slices = rows.at(from);
    const auto at = std::ranges::find(slices, nanoseconds(ends[0].at("ts")), &Slice::begin);
    EXPECT_LE(at->end, nanoseconds(ends[1].at("ts")) + 1);
  }
  // The counter's highest value is the peak of the fullest device.
  double highest = 0;
  for (const auto& [process, bytes] : peak) highest = std::max(highest, bytes);
  EXPECT_NEAR(highest, t.simulation.memory.value, 5);
  // The busiest process's times are the simulator's.
  const auto compute = rows.find({t.simulation.busiest, 0});
  ASSERT_NE(compute, rows.end());
  std::int64_t busy = 0;
  for (const auto& s : compute->second) busy += s.end - s.begin;
  EXPECT_NEAR(static_cast<double>(busy) * 1e-9, t.simulation.compute.value,
              1e-9 * static_cast<double>(compute->second.size()));
  if (t.program.schedule.is_delayed()) return;
  std::int64_t last = 0;
  for (const auto& [row, slices] : rows) last = std::max(last, slices.back().end);
  EXPECT_NEAR(static_cast<double>(last) * 1e-9, t.simulation.iteration.value, 1e-9);
}

TEST(Trace, IsWellFormedForEveryKindOfSchedule) {
  const auto machine = machine::load_machine("dgx_a100:2");
  const std::string gpt2 = "gpt2:layers=4,hidden=16,heads=2,ffn=24,vocab=11,seq=6";
  expect_well_formed(trace_strategy(gpt2, machine, "dp", 32), 10);
  expect_well_formed(trace_strategy(gpt2, machine, "fsdp", 32), 30);
  expect_well_formed(trace_strategy(gpt2, machine, "megatron:tp=2,dp=8,sp", 32), 30);
  expect_well_formed(trace_strategy(gpt2, machine, "megatron:tp=2,pp=2,micro=4", 32), 30);
  expect_well_formed(trace_strategy(gpt2, machine, "megatron:tp=1,pp=4,schedule=gpipe,micro=4", 32),
                     20);
  expect_well_formed(trace_strategy(gpt2, machine, "megatron:tp=1,pp=2,interleave=2,micro=4", 32),
                     20);
  expect_well_formed(trace_strategy(gpt2, machine, "megatron:tp=1,pp=2,stale,micro=4", 32), 1);
  expect_well_formed(trace_strategy("dlrm:tables=3,rows=7,dim=4,dense=3,bag=2,bottom=5-4,top=5-2",
                                    machine::load_machine("dgx_a100:1"), "dlrm_hybrid", 16),
                     5);
}

TEST(Trace, NamesDevicesAndStreams) {
  const auto t =
      trace_strategy("mlp:layers=4,hidden=8,inputs=8,outputs=8",
                     machine::load_machine("dgx_a100:2"), "megatron:tp=1,pp=2,micro=4", 64);
  std::vector<std::string> processes;
  std::set<std::string> streams;
  for (const auto& e : t.json.at("traceEvents")) {
    if (e.at("name") == "process_name") processes.push_back(e.at("args").at("name"));
    if (e.at("name") == "thread_name") streams.insert(e.at("args").at("name").get<std::string>());
  }
  EXPECT_EQ(processes, (std::vector<std::string>{"devices 0, 1, 2, 3, ... (8 equivalent)",
                                                 "devices 8, 9, 10, 11, ... (8 equivalent)"}));
  EXPECT_EQ(streams, (std::set<std::string>{"compute", "gpu: collectives", "node: receives",
                                            "node: sends"}));
  EXPECT_EQ(t.json.at("otherData").at("title"), "a \"title\"");
}

TEST(Trace, LimitsTheNumberOfClasses) {
  const auto machine = machine::load_machine("dgx_a100:2");
  const std::string mlp = "mlp:layers=8,hidden=8,inputs=8,outputs=8";
  const auto all = trace_strategy(mlp, machine, "megatron:tp=1,pp=4,micro=4", 64);
  EXPECT_EQ(all.trace.classes, 4U);
  EXPECT_EQ(all.trace.classes_shown, 4U);
  const auto spans = all.simulation.timeline.size();
  const auto some = trace_strategy(mlp, machine, "megatron:tp=1,pp=4,micro=4", 64, spans * 2 / 3);
  EXPECT_GE(some.trace.classes_shown, 1U);
  EXPECT_LT(some.trace.classes_shown, 4U);
  EXPECT_TRUE(collect_rows(some.json).contains({some.simulation.busiest, 0}));
  EXPECT_EQ(trace_strategy(mlp, machine, "megatron:tp=1,pp=4,micro=4", 64, 0).trace.classes_shown,
            1U);
}

}  // namespace
}  // namespace tandem::report
