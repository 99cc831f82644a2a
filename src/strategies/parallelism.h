// The degrees of parallelism of a step, as training launchers take them: "DP 8 x TP 4 x PP 4".
//
// A known strategy determines all of them (strategies/setting.h). For a plan that was searched
// operator by operator, they are read off its graph. A degree is omitted if operators differ in it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/plan.h"
#include "strategies/setting.h"

namespace tandem::strategies {

struct Problem;

// The degrees of a step; nullopt if operators differ in one.
struct Parallelism {
  std::optional<std::int64_t> dp = {};
  std::optional<std::int64_t> tp = {};
  std::optional<std::int64_t> pp = {};
  std::optional<std::int64_t> cp = {};
  std::optional<std::int64_t> ep = {};    // of the dp devices, those that share the experts
  std::optional<std::int64_t> vpp = {};   // virtual stages per rank
  std::optional<std::int64_t> zero = {};  // 3: weights gathered for every use (FSDP)
  std::optional<std::int64_t> micro_batch_size = {};  // samples of a micro-batch on one device
  std::optional<std::int64_t> micro_batches = {};
  std::optional<Recompute> recompute = {};
  std::optional<std::int64_t> recompute_layers = {};  // number of layers recomputed in full
  std::optional<std::int64_t> layers = {};            // number of layers in the model

  bool operator==(const Parallelism&) const = default;
};

// The sizes that the degrees of a step depend on.
struct StepSize {
  std::int64_t devices = 1;
  std::int64_t batch = 1;
  std::optional<std::int64_t> layers = {};  // nullopt if unknown
  std::vector<LayerKind> kinds = {};        // kinds of layers in the model
};
StepSize make_step_size(const Problem& problem, std::int64_t batch,
                        std::optional<std::int64_t> layers);

// Returns the degrees of a complete setting. Example: megatron:tp=4,dp=8,pp=4,micro=16 with a batch
// of 256 has micro-batches of 256 / 8 / 16 = 2 samples.
Parallelism compute_parallelism(const Setting& setting, const StepSize& step);

// Returns the degrees that all operators of a mapped graph share. dp is that of operators with a
// batch, tp and cp those of matmuls, convolutions and attention, ep that of experts.
Parallelism compute_parallelism(const plan::MappedGraph& mapped, const machine::Machine& machine,
                                std::int64_t batch, std::optional<std::int64_t> layers);

// Returns the number of attention or expert layers, by the numbers in node names; nullopt without
// any.
std::optional<std::int64_t> count_layers(const graph::Graph& model);

// Returns a text such as "DP 8 x TP 4 x PP 4 (VPP 5), ZeRO-1, mbs 1 x 64, recompute 16/80 layers".
// Omits degrees of 1 and settings that are off.
std::string to_text(const Parallelism& parallelism);

}  // namespace tandem::strategies
