#include "cli/job_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "base/parallel.h"
#include "base/text.h"
#include "cli/interrupt.h"
#include "cli/progress.h"

namespace tandem::cli {

namespace {

// A dimension that --dims may name.
struct DimName {
  std::string_view name;
  bool search::Dims::*dim;
};
constexpr DimName kDims[] = {
    {"data", &search::Dims::data},         {"model", &search::Dims::model},
    {"spatial", &search::Dims::spatial},   {"reduction", &search::Dims::reduction},
    {"head", &search::Dims::head},         {"expert", &search::Dims::expert},
    {"sequence", &search::Dims::sequence}, {"pipeline", &search::Dims::pipeline},
};

// A speedup of the search that --without may name.
struct Shortcut {
  std::string_view name;
  void (*leave_out)(search::Options&);
};
constexpr Shortcut kShortcuts[] = {
    {"cache", [](search::Options& options) { options.shares_tables = false; }},
    {"split", [](search::Options& options) { options.folds = false; }},
    {"dp", [](search::Options& options) { options.finder.by = search::Finder::By::kDescent; }},
};

// Returns the names of a table's entries: "data,model,spatial".
template <class Table>
std::string join_names(const Table& table) {
  std::vector<std::string> names;
  for (const auto& entry : table) names.emplace_back(entry.name);
  return join(names, ",");
}

template <class Table>
auto find_named(const Table& table, std::string_view word) {
  return std::ranges::find(table, word, [](const auto& entry) { return entry.name; });
}

// Returns the validator of a flag that lists names of a table's entries. `what` is the kind of
// entry: "unknown dimension 'x' (choose from: data,model)".
template <class Table>
CLI::Validator make_list_validator(const Table& table, const std::string& what) {
  const auto wrong = [&table, what](const std::string& list) {
    if (list.empty()) return fmt::format("names no {} (choose from: {})", what, join_names(table));
    for (auto word : split(list, ',')) {
      if (find_named(table, word) != std::end(table)) continue;
      return fmt::format("unknown {} '{}' (choose from: {})", what, word, join_names(table));
    }
    return std::string();
  };
  return {wrong, "LIST"};
}

// Returns the entries that a list names. The list has passed make_list_validator.
template <class Table>
auto parse_entries(const Table& table, const std::string& list) {
  std::vector<std::ranges::range_value_t<Table>> out;
  if (list.empty()) return out;
  for (auto word : split(list, ',')) {
    const auto at = find_named(table, word);
    CHECK(at != std::end(table), list);
    out.push_back(*at);
  }
  return out;
}

}  // namespace

void Job::add_flags(CLI::App& command) {
  command
      .add_option("model", model_text,
                  "NAME or NAME:key=value,... (see `tandem models`), or a model file")
      ->required();
  command
      .add_option(
          "--machine", machine_text,
          "NAME:SIZE or a machine file, optionally with ,software=NAME (see `tandem machines`)")
      ->required();
  command.add_option("--batch", batch, "global batch size; default: the model's own")
      ->check(kPositive);
  command.add_option("--optimizer", optimizer, "optimizer; default: the model's own")
      ->check(CLI::IsMember({"sgd", "momentum", "adam"}));
  command.add_option("--dtype", dtype, "element type of the network")
      ->check(CLI::IsMember({"fp64", "fp32", "bf16", "fp16"}))
      ->capture_default_str();
  command
      .add_option("--master", master,
                  "type of the master weights with --dtype bf16 or fp16; default: fp32")
      ->check(CLI::IsMember({"fp32", "none"}));
  command
      .add_option(
          "--grad-dtype", grad_dtype,
          "type in which gradients accumulate with --dtype bf16 or fp16: fp32 or that type; "
          "default: the strategy's")
      ->check(CLI::IsMember({"fp64", "fp32", "bf16", "fp16"}));
  add_stale_flag(command, stale_weights);
}

void add_stale_flag(CLI::App& command, bool& stale_weights) {
  command.add_flag("--stale-weights", stale_weights,
                   "allow pipelines that delay updates by one step (PipeDream-2BW), which changes "
                   "the training");
}

void Job::add_memory_flags(CLI::App& command) {
  command
      .add_option("--memory", memory,
                  "memory that a device may use, like 16GB; default: device memory minus reserve")
      ->check(CLI::Validator(
          [](const std::string& text) {
            return parse_bytes(text) ? std::string() : "'" + text + "' is not an amount like 16GB";
          },
          "BYTES"));
  command
      .add_option("--margin", margin,
                  fmt::format("fraction of a device's memory left free; default: {}, or 0 with "
                              "--memory",
                              search::kDefaultMargin))
      ->check(kFraction);
}

namespace {

// Adds the flags that choose which plans are searched: --dims, --no-pipeline, --pipeline.
void add_space_flags(CLI::App& command, Job& job) {
  command
      .add_option("--dims", job.dims,
                  "dimensions that may be partitioned, some of " + join_names(kDims))
      ->check(make_list_validator(kDims, "dimension"));
  auto* none = command.add_flag("--no-pipeline", job.no_pipeline, "exclude pipelines");
  command
      .add_flag("--pipeline", job.pipelines,
                "with --search unity: include pipelines of the whole graph; other searches always "
                "include them")
      ->excludes(none);
}

// Adds the flags that choose how plans are searched: --search, --without, --alpha, --k,
// --max-rewrites.
void add_method_flags(CLI::App& command, Job& job) {
  command
      .add_option(
          "--search", job.search,
          "joint: search rewrites and layouts together; sequential: rewrite for one device "
          "first, then search layouts; layouts: no rewrites; mcmc: no rewrites, and layouts "
          "by FlexFlow's random walk; unity: Unity's search, for comparison")
      ->check(CLI::IsMember({"joint", "sequential", "layouts", "mcmc", "unity"}))
      ->capture_default_str();
  command
      .add_option("--without", job.without,
                  "switch off speedups of the search, some of " + join_names(kShortcuts) +
                      ": share costs among rewrites (cache), rewrite equal layers together "
                      "(split), find the cheapest layouts exactly (dp); with --search unity: the "
                      "speedups of these names in its paper")
      ->check(make_list_validator(kShortcuts, "speedup"));
  command
      .add_option("--alpha", job.alpha,
                  fmt::format("drop rewrites that cost more than this times the best; default: {}, "
                              "with --search unity {}",
                              search::Options{}.alpha, unity::UnityOptions{}.alpha))
      ->check(CLI::Validator(
          [](const std::string& text) {
            const auto value = parse_double(text);
            const bool is_right = value && *value >= 1 && *value <= 10;
            return is_right ? std::string() : "'" + text + "' is not a number from 1 to 10";
          },
          "X"));
  command
      .add_option("--k", job.least_nodes,
                  "with --search unity: least number of operators in a piece")
      ->check(kPositive)
      ->default_str(fmt::format("{}", unity::UnityOptions{}.least_nodes));
  command
      .add_option(
          "--max-rewrites", job.max_rewrites,
          fmt::format("rank at most this many rewrites; default: {}, with --search unity {} "
                      "for each piece between two borders",
                      search::Options{}.max_rewrites, unity::UnityOptions{}.piece_candidates))
      ->check(kPositive);
}

// Adds the flags that end a search early: --budget, --max-candidates.
void add_limit_flags(CLI::App& command, Job& job) {
  command
      .add_option("--budget", job.budget,
                  "end the search after this many seconds; default: no limit")
      ->check(CLI::Validator(
          [](const std::string& text) {
            const auto value = parse_double(text);
            return value && *value > 0 ? std::string() : "'" + text + "' is not a number above 0";
          },
          "SECONDS"));
  command
      .add_option("--max-candidates", job.max_candidates,
                  "simulate (with --search unity: map) at most this many candidates; unlike with "
                  "--budget, the plan is reproducible")
      ->check(kPositive);
}

}  // namespace

void Job::add_search_flags(CLI::App& command) {
  add_memory_flags(command);
  command
      .add_option("--tolerance", tolerance,
                  fmt::format("choose the simplest plan that is slower than the fastest by at most "
                              "this fraction; default: {}",
                              search::kDefaultTolerance))
      ->check(kFraction);
  add_space_flags(command, *this);
  add_method_flags(command, *this);
  add_limit_flags(command, *this);
  add_threads_flag(command, threads);
  add_quiet_flag(command);
}

void add_threads_flag(CLI::App& command, unsigned& threads) {
  command
      .add_option("--threads", threads,
                  "number of threads, which does not change results; default: one per core")
      ->check(kPositive);
}

search::Dims parse_dims(const std::string& text) {
  search::Dims dims;
  if (text.empty()) return dims;
  for (const auto& [name, dim] : kDims) dims.*dim = false;
  for (const auto& [name, dim] : parse_entries(kDims, text)) dims.*dim = true;
  return dims;
}

void check_flags_agree(const Job& job, const search::Options& options) {
  if (job.no_pipeline && !job.dims.empty() && parse_dims(job.dims).pipeline) {
    throw UserError("flag", "--no-pipeline", "excludes the pipelines that --dims asks for",
                    "remove one of the two");
  }
  if (job.pipelines && !options.dims.pipeline) {
    throw UserError("flag", "--dims", "excludes the pipelines that --pipeline asks for",
                    "use --dims " + job.dims + ",pipeline");
  }
  if (job.stale_weights && !options.dims.pipeline) {
    throw UserError(
        "flag", "--stale-weights", "delays updates of pipelines, but pipelines are excluded",
        job.no_pipeline ? "remove --no-pipeline" : "use --dims " + job.dims + ",pipeline");
  }
  if (job.stale_weights && job.search == "sequential") {
    throw UserError(
        "flag", "--search",
        "sequential cannot be used with --stale-weights, which compares known pipelines only",
        "use --search unity, or remove --stale-weights");
  }
}

void set_search_options(const Job& job, search::Options& out) {
  out.algebra = job.search == "joint"        ? search::RewriteSearch::kJoint
                : job.search == "sequential" ? search::RewriteSearch::kSequential
                                             : search::RewriteSearch::kNone;
  out.tolerance = job.search == "unity" ? 0 : job.tolerance.value_or(search::kDefaultTolerance);
  out.alpha = job.alpha.value_or(out.alpha);
  out.max_rewrites = job.max_rewrites.value_or(out.max_rewrites);
  out.finder.seed = job.seed.value_or(out.finder.seed);
  for (const auto& shortcut : parse_entries(kShortcuts, job.without)) {
    shortcut.leave_out(out);
  }
  if (job.search == "mcmc") out.finder.by = search::Finder::By::kWalk;
  out.until = {job.budget, job.max_candidates, Interrupt::is_requested};
  out.threads = resolve_thread_count(job.threads);
}

std::optional<unity::UnityOptions> make_unity_options(const Job& job, search::Options& search) {
  if (job.search != "unity") return std::nullopt;
  const auto refuse = [](const char* flag, const std::string& why) {
    throw UserError("flag", flag, "cannot be used with --search unity: " + why,
                    "use another --search");
  };
  if (!job.dims.empty()) refuse("--dims", "Unity's rules determine what may be partitioned");
  unity::UnityOptions out;
  out.least_nodes = job.least_nodes.value_or(out.least_nodes);
  out.alpha = job.alpha.value_or(out.alpha);
  out.piece_candidates = job.max_rewrites.value_or(out.piece_candidates);
  out.candidates = std::exchange(search.until.candidates, std::nullopt);
  out.pipelines = job.pipelines || job.stale_weights;
  out.caches = search.shares_tables;
  out.splits = search.folds;
  out.programs = search.finder.is_exact();
  return out;
}

}  // namespace tandem::cli
