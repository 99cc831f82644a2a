// The search for the layouts that make an iteration fastest within memory.
//
// Baselines are evaluated first and seed the search. Thousands of strategies with pipelines,
// recomputation, micro-batches or sharded storage are estimated, and the best are simulated. Then
// the layout network is solved for a few prices of asynchronous communication. If the result does
// not fit, it is also solved for prices of memory. Each solution is lowered and simulated, and the
// fastest that fits wins. A plan is never worse than the best baseline within the allowed
// dimensions.
#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "machine/machine.h"
#include "models/model.h"
#include "search/evaluated.h"
#include "search/space/finder.h"
#include "search/space/states.h"
#include "search/stop_reason.h"

namespace tandem::search {

class KnownPasses;

// The network that the graph is, if it consists of equal layers and is not rewritten. Its
// strategies can be estimated, and so a great many of them compared.
struct KnownNetwork {
  const models::ConfiguredModel* model = nullptr;
  std::int64_t batch = 0;
  DType dtype = DType::kFp32;
};

// Conditions that end the search early, with the best plan found by then.
struct Until {
  std::optional<double> seconds = {};
  std::optional<std::size_t> candidates = {};
  std::function<bool()> interrupted = {};
  bool first_fit = false;  // stop at the first plan that fits
};

// Default tolerance of the commands.
inline constexpr double kDefaultTolerance = 0.01;

// The way that rules rewrite the model before it is laid out.
enum class RewriteSearch : std::uint8_t {
  kNone,
  kJoint,       // for the largest gain of its layouts
  kSequential,  // for the largest gain on one device, as other systems do
};

// State of the search after an evaluation.
struct SearchProgress {
  std::size_t candidates = 0;  // simulated
  std::size_t rewrites = 0;    // ranked
  std::optional<Seconds> best = {};
};

struct Options {
  plan::Optimizer optimizer = plan::Optimizer::kSgd;
  plan::Precision precision = {};  // same for all candidates
  std::optional<Bytes> memory;     // per device; default: device memory minus reserve
  double margin = 0;               // fraction of memory left free: compute_memory_limits
  Dims dims;
  std::size_t states_per_node = 64;
  std::optional<KnownNetwork> network;
  // With delayed updates only pipelines compete: other layouts gain nothing from a delay.
  plan::Semantics semantics = plan::Semantics::kSynchronous;
  // Largest fraction by which the plan may take longer than the fastest candidate. The plan is the
  // simplest candidate within it (search/complexity.h).
  double tolerance = 0;
  RewriteSearch algebra = RewriteSearch::kNone;
  // Rewrites that cost more than this times the best are dropped. The cheapest are followed first.
  // A large value therefore costs nothing if the search ends before it reaches dear ones.
  double alpha = 3;
  std::size_t max_rewrites = 400;  // most rewrites that are ranked
  // Speedups of the search that can be switched off. Without them it finds less in the same time.
  bool shares_tables = true;  // share cost tables among ranked graphs
  bool folds = true;          // rewrite equal layers and equivalent places together
  bool grid = true;           // evaluate the complete grid of plain strategies
  bool layouts = true;        // let layouts by operator and rewrites compete
  Finder finder = {};         // solver for layouts
  // Only a plan that is faster than this is wanted.
  Seconds beat{std::numeric_limits<double>::infinity()};
  std::shared_ptr<KnownPasses> passes = {};  // shared by searches of parts of one machine
  Until until = {};
  unsigned threads = 1;  // does not change the plan
  std::function<void(const SearchProgress&)> progress = {};
};

struct Result {
  // nullopt if nothing fits. Its timeline has one member of each device equivalence class.
  std::optional<Evaluated> best;
  // Faster but more complicated candidates that are no baselines, fastest first. They and the
  // fields below have no graphs.
  std::vector<Evaluated> faster;
  // Fastest candidate that fits, is no faster than the best and has another name.
  std::optional<Evaluated> runner_up;
  std::vector<Evaluated> baselines;  // best of each family in strategies/grid.h
  Evaluated smallest;                // the evaluated candidate that needs the least memory
  std::vector<Bytes> limits;         // compute_memory_limits
  Seconds fastest;                   // step time of the fastest candidate that fits
  Seconds fastest_strategy;          // step time of the fastest plain strategy; 0 if none fits
  // Lower bound of the step times of `bound_scope`: "these rewrites and layouts", "strategies of
  // the grid that fit", both, or "all candidates, by compute alone". It is the largest of these
  // bounds that is no larger than the time of any candidate that fits.
  std::optional<Seconds> lower_bound;
  std::string bound_scope;
  // Lower bound of the compute of all devices together in a step, in device-seconds. It comes from
  // the grid of plain strategies; 0 if unknown.
  double device_seconds = 0;
  double search_s = 0;
  std::size_t candidates = 0;       // lowered and simulated
  std::size_t estimated = 0;        // strategies that were compared by estimate
  std::size_t computed_tables = 0;  // tables that elimination computed
  std::size_t rewrites = 0;         // graphs that were ranked, including the model
  StopReason stop_reason = StopReason::kDone;
};

Result search(const graph::Graph& model, const machine::Machine& machine, const Options& options);

}  // namespace tandem::search
