#include "cli/command.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "cli/fitting_change.h"
#include "cli/host.h"
#include "cli/idle_flags.h"
#include "cli/interrupt.h"
#include "cli/job_flags.h"
#include "cli/progress.h"
#include "machine/peak.h"
#include "machine/submachine.h"
#include "predict/folded.h"
#include "search/neighbours/fewer_devices.h"
#include "search/neighbours/taso_flexflow.h"
#include "strategies/grid.h"

namespace tandem::cli {

const CLI::Validator kPositive(
    [](const std::string& text) {
      const auto value = parse_int(text);
      return value && *value > 0 ? std::string() : "'" + text + "' is not a positive integer";
    },
    "N");
const CLI::Validator kWhole(
    [](const std::string& text) {
      const auto value = parse_int(text);
      return value && *value >= 0 ? std::string() : "'" + text + "' is not a non-negative integer";
    },
    "N");
const CLI::Validator kNotNegative(
    [](const std::string& text) {
      const auto value = parse_double(text);
      const bool is_right = value && *value >= 0 && std::isfinite(*value);
      return is_right ? std::string() : "'" + text + "' is not a non-negative number";
    },
    "X");

const CLI::Validator kFraction(
    [](const std::string& text) {
      const auto value = parse_double(text);
      const bool is_right = value && *value >= 0 && *value < 1;
      return is_right ? std::string()
                      : "'" + text + "' is not a number from 0 to below 1, like 0.05";
    },
    "FRACTION");

const CLI::Validator kFile(
    [](const std::string& text) {
      return text.empty() ? std::string("'' is not a file name") : std::string();
    },
    "FILE");

std::string pluralize(std::int64_t n, const std::string& what) {
  return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
}

namespace {

// Omits the list of flags that exclude a flag, which would bury the flag's text. The error says
// which two flags exclude each other.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override {
    const auto text = CLI::Formatter::make_option_opts(option);
    return text.substr(0, text.find(" Excludes:"));
  }
};

}  // namespace

CLI::App* add_command(CLI::App& app, const std::string& name, const std::string& doc,
                      const std::string& example, bool& json) {
  auto* command = app.add_subcommand(name, doc);
  command->formatter(std::make_shared<HelpFormatter>());
  command->footer("Example:\n  tandem " + example);
  command->add_flag("--json", json, "print one JSON document");
  return command;
}

void print_json(const Json& json) {
  // Names from the user may contain any bytes, but JSON is UTF-8.
  const auto text = json.dump(1, ' ', false, Json::error_handler_t::replace);
  if (auto* to = host()) return to->print(text);
  std::cout << text << "\n";
}

std::optional<Bytes> parse_memory(const Job& job) {
  if (job.memory.empty()) return std::nullopt;
  return Bytes{parse_bytes(job.memory).value()};
}

double resolve_margin(const Job& job) {
  return job.margin.value_or(job.memory.empty() ? search::kDefaultMargin : 0);
}

namespace {

// Throws UserError if the first output of a graph is not a scalar that training can minimize.
void check_has_loss(const graph::Graph& graph, const std::string& model) {
  if (!graph.outputs().empty()) {
    const auto& first = graph.node(graph.outputs()[0]);
    if (first.type.shape.rank() == 0 && !is_integer(first.type.dtype)) return;
  }
  throw UserError(
      "model", model, "has no loss to train: its first output is not a scalar",
      "end the graph with a loss such as mse or cross_entropy, or use `tandem simulate` "
      "with --task inference");
}

}  // namespace

void check_is_model(const graph::Graph& graph, const std::string& model) {
  for (auto id : graph.ids()) {
    const auto& node = graph.node(id);
    if (node.type.shape.device_count() == 1) continue;
    throw UserError("model", model,
                    fmt::format("the graph is already parallel: %{} has the type {}", node.name,
                                to_text(node.type.shape)),
                    "remove its parallelization operators");
  }
}

namespace {

// Returns the precision that --master and --grad-dtype ask for. All strategies of a comparison have
// it. Throws UserError if the flags contradict --dtype.
plan::Precision resolve_precision(const Job& job, DType dtype) {
  if (!is_half(dtype)) {
    const auto fail = [&](const char* flag, const std::string& value) {
      throw UserError("flag", flag, fmt::format("cannot be {} with --dtype {}", value, name(dtype)),
                      "use it with --dtype bf16 or fp16");
    };
    if (job.master == "fp32") fail("--master", job.master);
    if (!job.grad_dtype.empty() && job.grad_dtype != name(dtype)) {
      fail("--grad-dtype", job.grad_dtype);
    }
    return {};
  }
  if (!job.grad_dtype.empty() && job.grad_dtype != "fp32" && job.grad_dtype != name(dtype)) {
    throw UserError("flag", "--grad-dtype",
                    fmt::format("cannot be {} with --dtype {}", job.grad_dtype, name(dtype)),
                    fmt::format("use fp32 or {}", name(dtype)));
  }
  return {.master = job.master != "none", .wide_gradients = job.grad_dtype == "fp32"};
}

std::int64_t get_published_batch(const models::ModelSpec& spec, std::int64_t devices) {
  return spec.batch > 0 ? spec.batch : spec.batch_per_device * devices;
}
std::int64_t get_small_batch(const models::ModelSpec& spec, std::int64_t) {
  return spec.train_batch;
}

// Resolves a job with the graph that `build` returns. Returns nullopt if `build` does.
template <class Build>
std::optional<Setup> resolve_with(const Job& job,
                                  std::int64_t default_batch(const models::ModelSpec&,
                                                             std::int64_t),
                                  Build&& build) {
  auto model = load_model(job.model_text);
  auto machine =
      scale_machine(machine::load_machine(job.machine_text, job.machine_fields), job.scale);
  machine::Digits digits(machine);
  const auto batch = job.batch > 0 ? job.batch : default_batch(*model.spec, machine.devices());
  DType dtype = DType::kFp32;
  CHECK(parse_attribute(job.dtype, dtype), job.dtype);
  std::optional<graph::Graph> whole = build(model, batch, dtype);
  if (!whole) return std::nullopt;
  check_is_model(*whole, model.text);
  auto graph = make_task_graph(job.task, *whole);
  const auto mode = job.task.mode();
  if (mode == lower::Mode::kTraining) check_has_loss(graph, model.text);
  search::Options options;
  const auto published = model.spec->adam ? plan::Optimizer::kAdam : plan::Optimizer::kSgd;
  options.optimizer = plan::parse_optimizer(job.optimizer).value_or(published);
  options.precision = resolve_precision(job, dtype);
  options.memory = parse_memory(job);
  options.margin = resolve_margin(job);
  options.dims = parse_dims(job.dims);
  if (job.no_pipeline) options.dims.pipeline = false;
  check_flags_agree(job, options);
  set_search_options(job, options);
  if (job.stale_weights) options.semantics = plan::Semantics::kDelayed1;
  const auto unity = make_unity_options(job, options);
  return Setup{std::move(model),
               std::move(machine),
               std::move(digits),
               batch,
               dtype,
               std::move(graph),
               options,
               unity,
               job.grad_dtype.empty(),
               mode,
               job.setting_flags,
               job.task.task == "pretrain" && job.task.freeze.empty(),
               job.machine_text,
               find_idle_flags(job)};
}

std::optional<graph::Graph> build_whole_graph(const models::ConfiguredModel& model,
                                              std::int64_t batch, DType dtype) {
  return model.build(batch, dtype);
}

}  // namespace

Setup resolve(const Job& job) { return *resolve_with(job, get_published_batch, build_whole_graph); }

Setup resolve_for_training(const Job& job) {
  return *resolve_with(job, get_small_batch, build_whole_graph);
}

std::optional<Setup> resolve_folded(const Job& job, std::size_t least_nodes) {
  const auto build = [&](const models::ConfiguredModel& model, std::int64_t batch,
                         DType dtype) -> std::optional<graph::Graph> {
    auto folded = predict::fold(model, batch, dtype);
    if (!folded || predict::count_nodes(*folded) < least_nodes) return std::nullopt;
    return std::move(folded->graph);
  };
  return resolve_with(job, get_published_batch, build);
}

std::vector<Bytes> Setup::memory_limits() const {
  return search::compute_memory_limits(machine, options.memory, options.margin);
}

std::string Setup::margin_text() const {
  return search::format_margin(options.memory, options.margin);
}

plan::Precision Setup::get_precision(strategies::Family family) const {
  auto out = options.precision;
  if (usual_gradients && is_half(dtype)) {
    out.wide_gradients = get_usual_precision(family).wide_gradients;
  }
  return out;
}

namespace {

// Returns the setup's options for a search that shows its progress on `line`.
search::Options make_search_options(const Setup& setup, Progress& line) {
  auto out = setup.options;
  out.progress = [&line](const search::SearchProgress& now) {
    const auto rewrites = now.rewrites > 0 ? fmt::format("{} rewrites, ", now.rewrites) : "";
    line.show(fmt::format("searching: {}{} candidates, best {}", rewrites, now.candidates,
                          now.best ? format_seconds(now.best->value) : "none yet"));
  };
  if (setup.is_whole_training) out.network = {&setup.model, setup.batch, setup.dtype};
  return out;
}

}  // namespace

search::Case make_case(const Setup& setup, const strategies::Problem& problem,
                       search::Values values) {
  return {.values = std::move(values),
          .problem = &problem,
          .machine = &setup.machine,
          .batch = setup.batch,
          .optimizer = setup.options.optimizer,
          .precision = [&setup](auto family) { return setup.get_precision(family); },
          .mode = setup.mode,
          .limits = setup.memory_limits(),
          .network = setup.is_whole_training ? &setup.model : nullptr,
          .dtype = setup.dtype};
}

void note_missing_peak(const machine::Machine& machine, DType dtype) {
  const auto tell = [&](const std::string& who, const machine::Device& device) {
    const auto taken = machine::find_peak_type(device, dtype);
    if (taken == dtype) return;
    note(fmt::format("{} has no peak compute rate for {}; the rate of {} is used", who, name(dtype),
                     name(taken)));
  };
  if (machine.groups.empty()) return tell(machine.name, machine.device);
  for (const auto& group : machine.groups) {
    tell(fmt::format("group '{}' of {}", group.name, machine.name), group.device);
  }
}

search::Result find_plan(const Setup& setup) {
  for (const auto& idle : setup.idle_flags) remark("tandem: " + idle);
  const Interrupt interrupt;
  Progress line;
  const auto options = make_search_options(setup, line);
  if (setup.unity) return unity::search(setup.graph, setup.machine, options, *setup.unity);
  return search::search(setup.graph, setup.machine, options);
}

search::Result find_plan_on_any_part(Setup& setup) {
  auto all = find_plan(setup);
  if (setup.unity || !setup.options.finder.is_exact() || has_ended_early(setup, all)) return all;
  const Interrupt interrupt;
  Progress line;
  const auto begin = std::chrono::steady_clock::now();
  auto fewer = search::search_fewer_devices(setup.graph, setup.machine,
                                            make_search_options(setup, line), all);
  if (!fewer) {
    all.search_s += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return all;
  }
  setup.offered = {setup.machine_text, setup.machine.devices(), all.best.has_value()};
  setup.machine = std::move(fewer->machine);
  setup.digits = machine::Digits(setup.machine);
  std::vector<std::int64_t> units;
  for (const auto& level : setup.machine.levels) units.push_back(level.count);
  setup.machine_text = machine::make_submachine_name(setup.machine_text, units);
  auto out = std::move(fewer->result);
  out.bound_scope += " on these " + pluralize(setup.machine.devices(), "device");
  return out;
}

bool is_setting(const std::string& strategy) {
  return strategy != "best_baseline" && strategy != search::kTasoFlexflow;
}

namespace {

search::Evaluated cost_taso_flexflow(const Setup& setup) {
  const auto fail = [](const std::string& message) {
    throw UserError("strategy", search::kTasoFlexflow, message, "use --strategy best_baseline");
  };
  if (setup.mode != lower::Mode::kTraining) fail("supports training only, not inference");
  const auto& [recompute, schedule] = setup.setting_flags;
  if (!recompute.empty() || !schedule.empty()) {
    fail("supports neither --recompute nor --schedule");
  }
  if (setup.options.semantics != plan::Semantics::kSynchronous)
    fail("does not support delayed updates (--stale-weights)");
  const Interrupt interrupt;
  Progress line;
  return search::search_taso_flexflow(setup.graph, setup.machine, make_search_options(setup, line));
}

}  // namespace

search::Evaluated cost_named_strategy(const Setup& setup, const std::string& name) {
  if (name == search::kTasoFlexflow) return cost_taso_flexflow(setup);
  const auto limits = setup.memory_limits();
  std::optional<search::Evaluated> best;
  BusyProgress progress("simulating " + name);
  for (auto& s : strategies::make_named_strategies(name, setup.graph, setup.digits,
                                                   setup.options.semantics, setup.setting_flags)) {
    s.schedule.precision =
        name == "best_baseline" ? setup.options.precision : setup.get_precision(s.setting.family);
    progress.update("simulating " + s.name);
    auto costed = search::cost_choices(setup.graph, setup.machine, s.name, s.choices, s.schedule,
                                       setup.options.optimizer, limits, setup.mode);
    if (!best || search::is_better(costed, *best)) best = std::move(costed);
  }
  CHECK(best.has_value(), name);
  return std::move(*best);
}

plan::Plan make_plan(const Setup& setup, const search::Evaluated& costed) {
  const auto* rewritten = costed.rewritten.get();
  return {.model = setup.model.text,
          .machine = setup.machine_text,
          .strategy = costed.name,
          .batch = setup.batch,
          .optimizer = setup.options.optimizer,
          .dtype = setup.dtype,
          .mapped = costed.mapped,
          .derivation = rewritten == nullptr ? rewrite::Derivation{} : rewritten->derivation,
          .rules = rewritten == nullptr ? std::vector<std::string>{} : rewritten->rules,
          .iteration = costed.simulation.iteration,
          .memory = costed.simulation.memory};
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::error_code unknown;  // set for a pipe
  if (std::filesystem::is_directory(path, unknown)) throw UserError("file", path, "is a directory");
  if (!in) throw UserError("file", path, "cannot be read");
  constexpr std::size_t kReadAtOnce = std::size_t{1} << 20;
  const auto size = std::filesystem::file_size(path, unknown);
  std::string text(unknown ? kReadAtOnce : size + 1, '\0');
  std::size_t read = 0;
  while (in.read(text.data() + read, static_cast<std::streamsize>(text.size() - read))) {
    read = text.size();
    text.resize(read + std::max(read, kReadAtOnce));
  }
  read += static_cast<std::size_t>(in.gcount());
  if (in.bad()) throw UserError("file", path, "cannot be read");
  text.resize(read);
  return text;
}

}  // namespace tandem::cli
