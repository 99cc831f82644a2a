// How a step is parallel, in the numbers that launchers of training take: "DP 8 x TP 4 x PP 4".
//
// A known strategy says them all (strategies/setting.h). Of a plan that was searched operator by
// operator they are read off its graph, and a number that operators differ in is left out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/plan.h"
#include "strategies/setting.h"

namespace tandem::strategies {

struct Problem;

// A number is nothing where operators differ in it.
struct Parallelism {
  std::optional<std::int64_t> dp = {};
  std::optional<std::int64_t> tp = {};
  std::optional<std::int64_t> pp = {};
  std::optional<std::int64_t> cp = {};
  std::optional<std::int64_t> ep = {};                // experts are over so many of the dp devices
  std::optional<std::int64_t> vpp = {};               // pieces of the model that a stage has
  std::optional<std::int64_t> zero = {};              // 3: weights gathered for every use (FSDP)
  std::optional<std::int64_t> micro_batch_size = {};  // samples of a micro-batch on one device
  std::optional<std::int64_t> micro_batches = {};
  std::optional<std::string> recompute = {};  // "none", "selective", "save_matmuls" or "full"
  std::optional<std::int64_t> recompute_layers = {};  // recomputed whole
  std::optional<std::int64_t> layers = {};            // that the model has

  bool operator==(const Parallelism&) const = default;
};

// What a step is of.
struct StepSize {
  std::int64_t devices = 1;
  std::int64_t batch = 1;
  std::optional<std::int64_t> layers = {};  // nothing where they are not known
  std::vector<LayerKind> kinds = {};        // of layers that the model has
};
StepSize step_size(const Problem& problem, std::int64_t batch, std::optional<std::int64_t> layers);

// `setting` is complete. megatron:tp=4,dp=8,pp=4,micro=16 with a batch of 256 has micro-batches of
// 256 / 8 / 16 = 2 samples.
Parallelism parallelism_of(const Setting& setting, const StepSize& step);

// What all operators of a mapped graph have in common: dp of those with a batch, tp and cp of
// matmuls, convolutions and attention, ep of experts.
Parallelism parallelism_of(const plan::MappedGraph& mapped, const machine::Machine& machine,
                           std::int64_t batch, std::optional<std::int64_t> layers);

// How many layers of attention or experts the names of a model tell apart; nothing without any.
std::optional<std::int64_t> count_layers(const graph::Graph& model);

// "DP 8 x TP 4 x PP 4 (VPP 5), ZeRO-1, mbs 1 x 64, recompute 16/80 layers"; without what is 1 or
// none.
std::string to_text(const Parallelism& parallelism);

}  // namespace tandem::strategies
