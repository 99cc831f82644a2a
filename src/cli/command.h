// What the commands share. Each is one file with an add_NAME function; commands.cc lists them.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "base/units.h"
#include "cli/task.h"
#include "machine/edit.h"
#include "machine/scale.h"
#include "models/model.h"
#include "plan/plan.h"
#include "search/explore.h"
#include "search/search.h"
#include "strategies/parallelism.h"
#include "strategies/setting.h"
#include "unity/unity.h"

namespace tandem::cli {

using Json = nlohmann::ordered_json;

enum ExitCode : int { kDone = 0, kCannot = 1, kWrongUsage = 2 };

void add_check(CLI::App& app, int& exit_code);
void add_compare(CLI::App& app, int& exit_code);
void add_completion(CLI::App& app, int& exit_code);
void add_demo(CLI::App& app, int& exit_code);
void add_diff(CLI::App& app, int& exit_code);
void add_explain(CLI::App& app, int& exit_code);
void add_explore(CLI::App& app, int& exit_code);
void add_export(CLI::App& app, int& exit_code);
void add_machines(CLI::App& app, int& exit_code);
void add_models(CLI::App& app, int& exit_code);
void add_ops(CLI::App& app, int& exit_code);
void add_plan(CLI::App& app, int& exit_code);
void add_profile(CLI::App& app, int& exit_code);
void add_report(CLI::App& app, int& exit_code);
void add_rules(CLI::App& app, int& exit_code);
void add_show(CLI::App& app, int& exit_code);
void add_simulate(CLI::App& app, int& exit_code);
void add_train(CLI::App& app, int& exit_code);
void add_validate(CLI::App& app, int& exit_code);
// All of these.
void add_commands(CLI::App& app, int& exit_code);

// A subcommand with the --json flag, an example in its help, and its action.
CLI::App* add_command(CLI::App& app, const std::string& name, const std::string& doc,
                      const std::string& example, bool& json);

// Prints the one JSON document of --json, or gives it to the host (cli/host.h).
void print_json(const Json& json);

// Flags that say what is planned or simulated.
struct Job {
  std::string model_text;
  std::string machine_text;
  std::int64_t batch = 0;  // 0: the published batch
  std::string optimizer;   // empty: the published optimizer
  std::string dtype = "fp32";
  std::string master;      // of 16-bit weights: fp32 or none; empty: fp32
  std::string grad_dtype;  // fp32 or dtype; empty: as a strategy has it, dtype in a comparison
  std::string memory;      // empty: the device's, less its reserve
  std::optional<double> margin = {};     // fraction of memory left free; none: margin_of
  std::optional<double> tolerance = {};  // search::Options::tolerance; none: the default
  std::string dims;                      // empty: all
  bool no_pipeline = false;
  bool pipelines = false;  // of --search unity
  std::string search = "joint";
  std::optional<double> alpha = {};
  std::optional<std::size_t> max_rewritings = {};
  std::optional<std::size_t> least_nodes = {};  // k, of --search unity
  std::optional<std::uint64_t> seed = {};       // of the search
  std::string without = {};  // what makes the search fast and is to be left out; empty: nothing
  std::optional<double> budget = {};  // seconds
  std::optional<std::size_t> max_candidates = {};
  unsigned threads = 0;  // 0: as many as there are
  bool stale_weights = false;
  TaskFlags task = {};
  strategies::Beside beside = {};  // --recompute, --schedule
  // What the machine has otherwise than its file says, and how much faster it is than that.
  std::vector<machine::FieldValue> machine_fields = {};
  machine::Scale scale = {};

  // MODEL, --machine, --batch, --optimizer, --dtype, --master, --grad-dtype, --stale-weights.
  void add_flags(CLI::App& command);
  // --memory, --margin.
  void add_memory_flags(CLI::App& command);
  // --memory, --margin, --tolerance, --dims, --no-pipeline, --search, --without, --alpha, --k,
  // --max-rewritings, --budget, --max-candidates, --threads.
  void add_search_flags(CLI::App& command);
};

// What --memory asks for, if anything.
std::optional<Bytes> memory_of(const Job& job);
// Returns --margin; without it the default, or 0 beside --memory, which is then used exactly.
double margin_of(const Job& job);

// --threads, whose 0 stands for one for each core (threads_of).
void add_threads_flag(CLI::App& command, unsigned& threads);

// --stale-weights, by itself.
void add_stale_flag(CLI::App& command, bool& stale_weights);

// For flags that take a whole number from 1, one from 0, any number from 0.
extern const CLI::Validator kPositive;
extern const CLI::Validator kWhole;
extern const CLI::Validator kNotNegative;
// For flags that take a fraction: a number from 0, below 1.
extern const CLI::Validator kFraction;
// For flags that name a file, which cannot be ''.
extern const CLI::Validator kFile;

// "1 device", "2 devices".
std::string counted(std::int64_t n, const std::string& what);

// The job with everything resolved. Throws UserError.
struct Setup {
  models::Model model;
  machine::Machine machine;
  machine::Digits digits;
  std::int64_t batch;
  DType dtype;
  graph::Graph graph;  // as the task has it
  search::Options options;
  std::optional<unity::Options> unity = {};  // of --search unity
  bool usual_gradients = false;              // of the type that a strategy usually has them in
  lower::Phase phase = lower::Phase::kTraining;
  strategies::Beside beside = {};
  bool is_whole_training = false;  // of the network as it is: nothing frozen, no inference
  std::string machine_text = {};   // NAME:SIZE, or the path of its file
  std::vector<std::string> idle_flags = {};  // cli/idle_flags.h

  // What its devices may use: search::memory_limits.
  [[nodiscard]] std::vector<Bytes> memory_limits() const;
  // Of these limits: search::margin_text.
  [[nodiscard]] std::string margin_text() const;

  // The whole machine, where the plan is for a part of it.
  struct Offered {
    std::string machine_text;
    std::int64_t devices = 0;
    bool fits = true;  // Is there a plan for all of them?
  };
  std::optional<Offered> offered = {};

  // Of a strategy that is named, not compared with others for the best.
  [[nodiscard]] plan::Precision precision_of(strategies::Family family) const;
};
Setup resolve(const Job& job);
// The same with the small batch that `train` takes by default.
Setup resolve_for_training(const Job& job);

// The same with only some of a network's equal layers in its graph (predict/folded.h), which
// takes no longer for many. Nothing where layers are not equal, or where the whole has fewer nodes
// than `least_nodes`.
std::optional<Setup> resolve_folded(const Job& job, std::size_t least_nodes);

// What strategies of the problem, which is the setup's, are tried on. It refers to both.
search::Case case_of(const Setup& setup, const strategies::Problem& problem,
                     search::Values values = {});

// Notes an element type that the machine's devices have no peak for: another's is taken.
void note_peak(const machine::Machine& machine, DType dtype);

// The search for the best plan on all devices; progress on stderr.
search::Result find_plan(const Setup& setup);
// The same, also on fewer devices. Where fewer are faster, `setup` becomes that of the part of the
// machine that has them, and Setup::offered says what there was.
search::Result find_plan_on_any_part(Setup& setup);

// Does the name stand for one setting of a strategy (strategies/setting.h), complete or not?
bool is_setting(const std::string& strategy);

// The fastest of the strategies that the name stands for; the smallest where none fits.
search::Evaluated cost_named_strategy(const Setup& setup, const std::string& name);

plan::Plan make_plan(const Setup& setup, const search::Evaluated& costed);
std::string read_file(const std::string& path);

// The length of a network's sequences, one where it continues others; null where it has none.
Json sequence_of(const models::Model& model);
// What was run, echoed in every result.
Json echo(const plan::Plan& plan);
// The same and "parallelism", where its step is predicted.
Json echo_costed(const plan::Plan& plan);

// "mlp:layers=4", "dir/config.json:layers=4", or a file with a graph: ONNX, text, JSON. UserError.
models::Model load_model(const std::string& text);
// Throws where a graph has parallelization operators: plans are made of networks without.
void check_is_model(const graph::Graph& graph, const std::string& model);

// Under "margin" and "memory_limit_bytes": what a device may use, and the fraction left free.
Json limit_json(double margin, Bytes limit);

// The layers of a network, which its hyperparameters say or else the names of its graph; nothing
// where neither does.
std::optional<std::int64_t> layers_of(const models::Model& model, const graph::Graph& graph);
// Of a plan's strategy, where that is a known one; else what its operators have in common.
strategies::Parallelism parallelism_of(const plan::Plan& plan);
Json to_json(const strategies::Parallelism& parallelism);
// The software that a machine's figures are of; null for none.
Json software_of(const machine::Machine& machine);

// What a step works on.
struct Step {
  std::int64_t batch = 0;
  std::int64_t tokens = 0;  // 0 where there are none
  std::int64_t devices = 1;
};
// A prediction of a step under the keys of every --json result.
Json simulation_json(const predict::Simulation& simulation, const Step& step);

}  // namespace tandem::cli
