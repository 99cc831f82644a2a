// The search: the layouts that make an iteration fastest within memory.
//
// Baselines are costed first and seed it. Strategies with pipelines, recomputation, micro-batches
// or storage in parts are estimated by the thousand, and the best simulated. The layout network is
// then solved for a few prices of asynchronous communication, and of memory when the result does
// not fit; each solution is lowered and simulated, and the fastest that fits wins. A plan is never
// worse than the best baseline that keeps to the dimensions allowed.
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

// What the graph is, where it is a network of equal layers as it is: strategies for it can be
// estimated, and so a great many of them compared.
struct KnownNetwork {
  const models::Model* model = nullptr;
  std::int64_t batch = 0;
  DType dtype = DType::kFp32;
};

// When to end early, with the best there is by then.
struct Until {
  std::optional<double> seconds = {};
  std::optional<std::size_t> candidates = {};
  std::function<bool()> interrupted = {};
  bool first_fit = false;  // as soon as there is a plan that fits
};

// What commands allow.
inline constexpr double kDefaultTolerance = 0.01;

// How rules rewrite the model before it is laid out.
enum class Algebra : std::uint8_t {
  kNone,
  kJoint,       // as its layouts gain most
  kSequential,  // as one device gains most: what others do
};

// What is known when something was costed.
struct Progress {
  std::size_t candidates = 0;  // simulated
  std::size_t rewritings = 0;  // ranked
  std::optional<Seconds> best = {};
};

struct Options {
  plan::Optimizer optimizer = plan::Optimizer::kSgd;
  plan::Precision precision = {};  // of all candidates alike
  std::optional<Bytes> memory;     // per device; default: each one's, less its reserve
  double margin = 0;               // fraction of it left free: memory_limits
  Dims dims;
  std::size_t states_per_node = 64;
  std::optional<KnownNetwork> network;
  // With delayed updates pipelines alone compete: other layouts gain nothing from a delay.
  plan::Semantics semantics = plan::Semantics::kSynchronous;
  // The plan is the simplest of the candidates that take no more than this fraction longer than the
  // fastest (search/simplicity.h).
  double tolerance = 0;
  Algebra algebra = Algebra::kNone;
  // Rewritings that cost more than this times the best are dropped. The cheapest go first, so that
  // a large one costs nothing where the search ends before it comes to them.
  double alpha = 3;
  std::size_t rewritings = 400;  // ranked at most
  // What makes the search fast, each to be switched off: it then finds less in the same time.
  bool shares_tables = true;  // of costs, among graphs that are ranked
  bool folds = true;          // equal layers, and places that look alike, are rewritten together
  bool grid = true;           // the complete grid of plain strategies is evaluated
  bool layouts = true;        // layouts and rewritings of its own compete with strategies
  Finder finder = {};         // of layouts
  // Only a plan that is faster than this is asked for.
  Seconds beat{std::numeric_limits<double>::infinity()};
  std::shared_ptr<KnownPasses> passes = {};  // which searches of parts of one machine share
  Until until = {};
  unsigned threads = 1;  // the plan does not depend on it
  std::function<void(const Progress&)> progress = {};
};

struct Result {
  // Nothing if nothing fits. Its timeline has one of the classes of devices that do the same.
  std::optional<Evaluated> best;
  // Those that are faster, and more complicated, and are no baselines, the fastest first. Without
  // graphs, as all that follow.
  std::vector<Evaluated> faster;
  // The fastest that fits of those that are no faster and have another name, if any.
  std::optional<Evaluated> runner_up;
  std::vector<Evaluated> baselines;  // the best of every family of strategies/grid.h that exists
  Evaluated smallest;                // what needs least memory of all that was costed
  std::vector<Bytes> limits;         // memory_limits
  Seconds fastest;                   // step time of the fastest candidate that fits
  Seconds fastest_strategy;          // and of the fastest plain strategy; 0 if none fits
  // Lower bound of the step times of `bound_scope`: "these rewrites and layouts", "strategies of
  // the grid that fit", both, or "all candidates, by compute alone". It is the largest of these
  // that is no larger than what any candidate that fits takes.
  std::optional<Seconds> lower_bound;
  std::string bound_scope;
  // What all devices together compute at least in a step, by the grid of plain strategies; 0 where
  // it is not known.
  double device_seconds = 0;
  double search_s = 0;
  std::size_t candidates = 0;  // lowered and simulated
  std::size_t estimated = 0;   // strategies that were compared without
  std::size_t products = 0;    // tables made by elimination
  std::size_t rewritings = 0;  // graphs that were ranked, the model among them
  StopReason stop_reason = StopReason::kDone;
};

Result search(const graph::Graph& model, const machine::Machine& machine, const Options& options);

}  // namespace tandem::search
