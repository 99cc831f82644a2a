#include "cli/profile_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <map>

#include "base/error.h"
#include "base/lines.h"
#include "base/text.h"
#include "cli/new_file.h"
#include "cli/progress.h"
#include "cli/run_plan.h"
#include "lower/lower.h"
#include "predict/durations.h"
#include "predict/simulate.h"

namespace tandem::cli {

namespace {

using lower::Program;
using lower::Task;
using lower::TaskKind;
using machine::MeasuredTime;

constexpr std::int64_t kProfiledSteps = 12;
constexpr double kProfiledSeconds = 3;
constexpr int kMostPlans = 3;

// A small network whose operators are large enough for their kernels to dominate.
struct SampleNetwork {
  const char* model;
  std::int64_t batch;
  const char* optimizer;
  const char* sharded;  // a strategy in addition to data parallelism
};
constexpr std::array kSamples = {
    SampleNetwork{"mlp:layers=4,hidden=1024,inputs=1024,outputs=1024", 128, "sgd", "megatron"},
    SampleNetwork{"mlp:layers=2,hidden=6144,inputs=6144,outputs=6144", 128, "sgd", "megatron"},
    // A small batch: reading the weights dominates.
    SampleNetwork{"mlp:layers=2,hidden=1536,inputs=1536,outputs=1536", 32, "sgd", "megatron"},
    SampleNetwork{"dlrm:tables=6,rows=50000,dim=32,dense=32,bag=1,bottom=256-32,top=512-512-1", 256,
                  "sgd", "dlrm_hybrid"},
    SampleNetwork{"dlrm:tables=4,rows=200000,dim=128,dense=32,bag=1,bottom=1024-128,top=2048-1",
                  512, "sgd", "dlrm_hybrid"},
    SampleNetwork{"gpt2:layers=2,hidden=256,heads=4,ffn=1024,seq=64,vocab=1000", 8, "adam",
                  "megatron"},
    SampleNetwork{"resnet50:image=64,blocks=1-1-1-1,bn_group=8", 16, "sgd", "megatron"}};

// Returns the kind and the shapes of an operator's task. Shapes are one device's shards of the
// operands and the result.
MeasuredTime describe_operator_task(const Program& program, const Task& task) {
  const auto& node = program.pcg.node(task.node);
  std::uint64_t operands = 0;
  for (auto i : task.operands) operands |= std::uint64_t{1} << i;
  const bool backward = task.kind == TaskKind::kBackward;
  MeasuredTime out{.kind = {.pass = backward ? fmt::format("backward:{}", operands) : "forward",
                            .dtype = node.type.dtype,
                            .name = node.op.name(),
                            .attributes = node.op.attribute_text()},
                   .shapes = {},
                   .time = {},
                   .modelled = {}};
  for (const auto& type : program.pcg.input_types(task.node)) {
    out.shapes.push_back(type.shape.shard_shape());
  }
  out.shapes.push_back(node.type.shape.shard_shape());
  return out;
}

// Returns the kind and the shapes of a task; its times are not set.
MeasuredTime describe_task(const Program& program, const Task& task) {
  const auto whole = [](const lower::Buffer& b) {
    return Shape{static_cast<std::int64_t>(b.bytes() / get_element_size(b.dtype))};
  };
  if (task.kind == TaskKind::kUpdate) {
    const auto& weight = program.buffer(task.reads[0]);
    const auto& gradient = program.buffer(task.reads[1]);
    const auto elements = std::min(whole(weight)[0], whole(gradient)[0]);
    return {.kind = {"update", weight.dtype, std::string(name(program.optimizer)),
                     gradient.sparse_elements ? "rows" : ""},
            .shapes = {Shape{elements}},
            .time = {},
            .modelled = {}};
  }
  if (task.kind == TaskKind::kAddGradients || task.kind == TaskKind::kAccumulateGradient) {
    const auto& sum = program.buffer(task.writes[0]);
    return {.kind = {"sum", sum.dtype, "add", ""},
            .shapes = {Shape{sum.shard.count()}},
            .time = {},
            .modelled = {}};
  }
  return describe_operator_task(program, task);
}

// The tasks of a plan, with the keys by which the cost model looks up measured times.
class Tasks {
 public:
  Tasks(const plan::Plan& plan, const machine::Machine& machine)
      : machine_(machine),
        program_(lower::lower(plan.mapped, make_digits(plan, machine), machine.device.software,
                              plan.optimizer)),
        durations_(program_, machine) {}

  [[nodiscard]] const Program& program() const { return program_; }

  // Calls visit(number, work) for each task whose time can be looked up.
  template <class Visit>
  void for_each(Visit&& visit) {
    for (std::size_t t = 0; t < program_.tasks.size(); ++t) {
      const auto work = durations_.work(program_.tasks[t]);
      if (work.kind != 0) visit(t, work);
    }
  }

  bool are_all_known() {
    bool known = true;
    for_each([&](std::size_t, const predict::Work& work) {
      known = known && machine_.device.measured.has(work.kind, work.shapes);
    });
    return known;
  }

  [[nodiscard]] Seconds compute_modelled_time(const predict::Work& work,
                                              const MeasuredTime& m) const {
    return predict::modelled_time(machine_.device, work, m.kind.dtype);
  }

 private:
  const machine::Machine& machine_;
  Program program_;
  predict::Durations durations_;
};

// The `measured` lines of a machine file, by kind and shapes. Equal tasks have one line with the
// mean of their times.
class MeasuredLines {
 public:
  void add(Tasks& tasks, const std::vector<double>& seconds) {
    tasks.for_each([&](std::size_t t, const predict::Work& work) {
      if (t >= seconds.size() || seconds[t] <= 0) return;
      auto m = describe_task(tasks.program(), tasks.program().tasks[t]);
      const auto shapes = m.make_shapes_key().hash;
      if (m.kind.hash() != work.kind || shapes != work.shapes.hash) return;
      m.modelled = tasks.compute_modelled_time(work, m);
      auto& [measured, count] = of_.try_emplace({work.kind, shapes}, m, 0).first->second;
      measured.time = (count * measured.time + Seconds{seconds[t]}) / (count + 1);
      ++count;
    });
  }

  // Returns `text`, a machine file, with these lines at the end of its device section. Older lines
  // of the same tasks are removed.
  [[nodiscard]] std::string put_into(const std::string& text, const std::string& path) const {
    std::string out;
    bool done = false;
    std::size_t number = 0;
    for (std::string_view rest = text; !rest.empty();) {
      const auto line = take_line(rest);
      ++number;
      const auto words = tandem::split_words(line.substr(0, line.find('#')));
      if (!words.empty() && words[0] == "measured" && has_line(words, {path, number})) continue;
      if (!done && !words.empty() && words[0] == "level") {
        out += format_lines();
        done = true;
      }
      out += std::string(line) + "\n";
    }
    return out;
  }

 private:
  [[nodiscard]] bool has_line(std::span<const std::string_view> words,
                              const machine::Place& place) const {
    const auto old = machine::parse_measured(place, words.subspan(1));
    return of_.contains({old.kind.hash(), old.make_shapes_key().hash});
  }

  [[nodiscard]] std::string format_lines() const {
    std::vector<std::string> all;
    for (const auto& [key, of] : of_) {
      all.push_back(fmt::format("  measured {}\n", to_text(of.first)));
    }
    std::ranges::sort(all, {},
                      [](const std::string& line) { return line.substr(line.find("us ")); });
    std::string out;
    for (const auto& line : all) out += line;
    return out;
  }

  std::map<std::pair<Hash, Hash>, std::pair<MeasuredTime, double>> of_;
};

TrainedPlan train_under(const Setup& setup, const search::Evaluated& costed,
                        const std::string& path) {
  const auto plan = make_plan(setup, costed);
  if (!is_quiet()) std::cerr << fmt::format("training under {}\n", plan.strategy) << std::flush;
  const auto result =
      cli::run_plan(plan, {.steps = kProfiledSteps, .seconds = kProfiledSeconds, .measure = true});
  Tasks tasks(plan, setup.machine);
  MeasuredLines lines;
  lines.add(tasks, result["task_s"].get<std::vector<double>>());
  write_file(path, lines.put_into(read_file(path), path));
  const auto machine = machine::load_machine(plan.machine);
  return {.model = setup.model.text,
          .strategy = plan.strategy,
          .predicted = plan.iteration,
          .now = predict::simulate(tasks.program(), machine).iteration,
          .measured = Seconds{result["step_s_median"].get<double>()}};
}

}  // namespace

std::vector<TrainedPlan> profile_model(const Job& job, const std::string& path) {
  std::vector<TrainedPlan> out;
  const auto setup = resolve_for_training(job);
  const auto dp = cost_named_strategy(setup, "dp");
  if (dp.feasible) out.push_back(train_under(setup, dp, path));
  for (int i = 0; i < kMostPlans; ++i) {
    const auto now = resolve_for_training(job);
    const auto found = find_plan(now);
    if (!found.best) {
      throw UserError("plan", now.model.text,
                      fmt::format("no plan fits in the memory of {}", now.machine.name),
                      "use a smaller --batch");
    }
    if (Tasks(make_plan(now, *found.best), now.machine).are_all_known()) break;
    out.push_back(train_under(now, *found.best, path));
  }
  return out;
}

std::vector<TrainedPlan> profile_samples(const Job& job, const std::string& path) {
  std::vector<TrainedPlan> out;
  for (const auto& sample : kSamples) {
    Job own = job;
    own.model_text = sample.model;
    own.batch = sample.batch;
    own.optimizer = sample.optimizer;
    const auto setup = resolve_for_training(own);
    out.push_back(train_under(setup, cost_named_strategy(setup, "dp"), path));
    if (setup.machine.devices() == 1) continue;
    out.push_back(train_under(setup, cost_named_strategy(setup, sample.sharded), path));
  }
  return out;
}

}  // namespace tandem::cli
