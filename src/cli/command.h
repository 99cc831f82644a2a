// The interface that all commands share: flags of a job, its resolution, planning, and JSON. Each
// command is one file with a function add_NAME; commands.cc lists them.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "base/units.h"
#include "cli/task_flags.h"
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
void add_strategies(CLI::App& app, int& exit_code);
void add_plan(CLI::App& app, int& exit_code);
void add_profile(CLI::App& app, int& exit_code);
void add_report(CLI::App& app, int& exit_code);
void add_rules(CLI::App& app, int& exit_code);
void add_show(CLI::App& app, int& exit_code);
void add_simulate(CLI::App& app, int& exit_code);
void add_train(CLI::App& app, int& exit_code);
void add_validate(CLI::App& app, int& exit_code);
// Adds all of these commands.
void add_commands(CLI::App& app, int& exit_code);

// Adds a subcommand with the flag --json and an example in its help, and returns it.
CLI::App* add_command(CLI::App& app, const std::string& name, const std::string& doc,
                      const std::string& example, bool& json);

// Prints the one JSON document of --json, or gives it to the host (cli/host.h).
void print_json(const Json& json);

// The flags that define what is planned or simulated.
struct Job {
  std::string model_text;
  std::string machine_text;
  std::int64_t batch = 0;  // 0: the published batch
  std::string optimizer;   // empty: the published optimizer
  std::string dtype = "fp32";
  std::string master;                 // master weights of bf16 or fp16: fp32 or none; empty: fp32
  std::string grad_dtype;             // fp32 or dtype; empty: the strategy's, in comparisons dtype
  std::string memory;                 // empty: device memory minus reserve
  std::optional<double> margin = {};  // fraction of memory left free; nullopt: resolve_margin
  std::optional<double> tolerance = {};  // search::Options::tolerance; nullopt: the default
  std::string dims;                      // empty: all
  bool no_pipeline = false;
  bool pipelines = false;  // for --search unity
  std::string search = "joint";
  std::optional<double> alpha = {};
  std::optional<std::size_t> max_rewrites = {};
  std::optional<std::size_t> least_nodes = {};  // --k, for --search unity
  std::optional<std::uint64_t> seed = {};       // RNG seed of the search
  std::string without = {};                     // speedups of the search to switch off; empty: none
  std::optional<double> budget = {};            // seconds
  std::optional<std::size_t> max_candidates = {};
  unsigned threads = 0;  // 0: one per core
  bool stale_weights = false;
  TaskFlags task = {};
  strategies::FlagSettings setting_flags = {};  // --recompute, --schedule
  // Changes to the machine file's fields, and factors of the machine's rates.
  std::vector<machine::FieldValue> machine_fields = {};
  machine::Scale scale = {};

  // Adds MODEL, --machine, --batch, --optimizer, --dtype, --master, --grad-dtype, --stale-weights.
  void add_flags(CLI::App& command);
  // Adds --memory and --margin.
  void add_memory_flags(CLI::App& command);
  // Adds --memory, --margin, --tolerance, --dims, --no-pipeline, --search, --without, --alpha, --k,
  // --max-rewrites, --budget, --max-candidates, --threads.
  void add_search_flags(CLI::App& command);
};

// Returns the value of --memory; nullopt if it is not given.
std::optional<Bytes> parse_memory(const Job& job);
// Returns the value of --margin. Its default is 0 if --memory is given, which is then used exactly.
double resolve_margin(const Job& job);

// Adds --threads; 0 stands for one per core (resolve_thread_count).
void add_threads_flag(CLI::App& command, unsigned& threads);

// Adds --stale-weights.
void add_stale_flag(CLI::App& command, bool& stale_weights);

extern const CLI::Validator kPositive;     // integer, at least 1
extern const CLI::Validator kWhole;        // integer, at least 0
extern const CLI::Validator kNotNegative;  // number, at least 0
extern const CLI::Validator kFraction;     // number, at least 0 and below 1
extern const CLI::Validator kFile;         // file name, not empty

// Returns "1 device", "2 devices".
std::string pluralize(std::int64_t n, const std::string& what);

// A job with its model, machine and options resolved.
struct Setup {
  models::ConfiguredModel model;
  machine::Machine machine;
  machine::Digits digits;
  std::int64_t batch;
  DType dtype;
  graph::Graph graph;  // the model's graph, changed for the task
  search::Options options;
  std::optional<unity::UnityOptions> unity = {};  // for --search unity
  bool usual_gradients = false;  // whether gradients have each strategy's usual type
  lower::Mode mode = lower::Mode::kTraining;
  strategies::FlagSettings setting_flags = {};
  bool is_whole_training = false;  // whether all weights are trained: no inference, none frozen
  std::string machine_text = {};   // NAME:SIZE, or the path of a machine file
  std::vector<std::string> idle_flags = {};  // cli/idle_flags.h

  // Returns the memory that devices may use (search::compute_memory_limits).
  [[nodiscard]] std::vector<Bytes> memory_limits() const;
  // Returns the text about the margin of these limits (search::format_margin).
  [[nodiscard]] std::string margin_text() const;

  // The whole machine, if the plan is for a part of it.
  struct Offered {
    std::string machine_text;
    std::int64_t devices = 0;
    bool fits = true;  // whether a plan for all devices was found
  };
  std::optional<Offered> offered = {};

  // Returns the precision of a strategy that is given by name, not compared with others.
  [[nodiscard]] plan::Precision get_precision(strategies::Family family) const;
};
// Resolves a job. Throws UserError.
Setup resolve(const Job& job);
// Resolves a job as resolve does, with the small default batch of `train`.
Setup resolve_for_training(const Job& job);

// Resolves a job as resolve does, with a folded graph (predict/folded.h): it has only some of a
// network's equal layers. Returns nullopt if the layers are not equal, or if the whole network has
// fewer than `least_nodes` nodes.
std::optional<Setup> resolve_folded(const Job& job, std::size_t least_nodes);

// Returns the case that strategies are evaluated on. It refers to `setup` and to its `problem`,
// which must outlive it.
search::Case make_case(const Setup& setup, const strategies::Problem& problem,
                       search::Values values = {});

// Prints a note if devices have no peak compute rate for `dtype`, so that another type's rate is
// used.
void note_missing_peak(const machine::Machine& machine, DType dtype);

// Searches for the best plan on all devices. Shows progress on stderr.
search::Result find_plan(const Setup& setup);
// Searches as find_plan does, also on fewer devices. If fewer are faster, changes `setup` to the
// part of the machine that has them and sets Setup::offered.
search::Result find_plan_on_any_part(Setup& setup);

// Returns whether the name is the text of a strategy's setting (strategies/setting.h), complete or
// not.
bool is_setting(const std::string& strategy);

// Simulates the strategies that the name stands for. Returns the fastest that fits, or the smallest
// if none fits.
search::Evaluated cost_named_strategy(const Setup& setup, const std::string& name);

// Returns the plan of an evaluated candidate.
plan::Plan make_plan(const Setup& setup, const search::Evaluated& costed);
// Returns the contents of a file. Throws UserError if it cannot be read.
std::string read_file(const std::string& path);

// Returns the sequence length of a network: 1 if it continues cached sequences, null if it has no
// sequences.
Json get_sequence_length(const models::ConfiguredModel& model);
// Returns the description of a plan that every result echoes.
Json describe_plan(const plan::Plan& plan);
// Returns echo(plan) with the key "parallelism", for results that predict a step.
Json describe_costed_plan(const plan::Plan& plan);

// Loads a model: "mlp:layers=4", "dir/config.json:layers=4", or a file with a graph (ONNX, text,
// JSON). Throws UserError.
models::ConfiguredModel load_model(const std::string& text);
// Throws UserError if a graph has parallelization operators. Networks that are planned have none.
void check_is_model(const graph::Graph& graph, const std::string& model);

// Returns the keys "margin", the fraction of memory left free, and "memory_limit_bytes", the memory
// that a device may use.
Json limit_json(double margin, Bytes limit);

// Returns the number of layers of a network, by its hyperparameters or else by the names in its
// graph; nullopt if neither shows it.
std::optional<std::int64_t> count_layers(const models::ConfiguredModel& model,
                                         const graph::Graph& graph);
// Returns the degrees of the plan's strategy, if it is a known one; otherwise the degrees that the
// plan's operators share.
strategies::Parallelism compute_parallelism(const plan::Plan& plan);
Json to_json(const strategies::Parallelism& parallelism);
// Returns the software profile of a machine; null for none.
Json get_software(const machine::Machine& machine);

// The work of one step, and the devices that do it.
struct StepLoad {
  std::int64_t batch = 0;
  std::int64_t tokens = 0;  // 0: a network without tokens
  std::int64_t devices = 1;
};
// Returns a predicted step under the keys that every --json result uses.
Json simulation_json(const predict::Simulation& simulation, const StepLoad& step);

}  // namespace tandem::cli
