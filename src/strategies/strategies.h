// Known strategies as functions from a problem to choices: the baselines that a found plan is
// compared with, and that seed the search. Each says only which digits do what (strategies/spread.h
// does the rest) and stands in a file of its own; strategies/grid.h makes them by name.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "strategies/spread.h"

namespace tandem::strategies {

using Made = std::variant<Choices, Refusal>;

// Every digit along the batch; weights replicated.
Made data_parallel(const Problem& problem);

// The same, weights stored in parts over all digits: gathered before use, their gradients
// reduce-scattered. FSDP, and the storage of DeepSpeed's ZeRO.
Made fully_sharded(const Problem& problem);

// The digits of `tensor` as Megatron uses them, the others along the batch: weights split by
// columns, then by rows, attention by heads, one all-reduce after each pair.
struct MegatronParts {
  machine::DigitMask tensor = 0;
  machine::DigitMask context = 0;  // along the sequence, keys and values gathered for attention
  machine::DigitMask ranks = 0;    // left to a pipeline
  // What is not split computes along the sequence: the all-reduce becomes a reduce-scatter before
  // it and an all-gather after.
  bool sequence_parallel = false;
  bool whole_loss = false;  // not along the sequence, but by each device of `tensor`
  bool stored = false;      // weights in parts over the digits along which they would be replicated
};
Made megatron(const Problem& problem, const MegatronParts& parts);

// Layers whose weights are larger than what they compute are split over all digits, the others go
// along the batch: what an expert does by hand, in Unity's evaluation.
Made expert(const Problem& problem);

// The same for recommenders: tables split over all digits, the rest along the batch.
Made dlrm_hybrid(const Problem& problem);

// Experts over the digits of `experts`, all else along the batch: tokens travel by all-to-all.
Made expert_parallel(const Problem& problem, machine::DigitMask experts);
// The digits among which expert parallelism may choose: from the innermost, those that divide the
// model's number of experts. None where it has no experts.
machine::DigitMask expert_digits(const Problem& problem);

// MAD-Max: a strategy for every kind of layer, inside a node and across nodes.
enum class Sharding : std::uint8_t {
  kDdp,   // along the batch, weights replicated
  kFsdp,  // along the batch, weights stored in parts
  kTp,    // split as Megatron does
  kMp,    // split into what the layer has several of: tables, experts; else as kTp
};
inline constexpr std::array<std::string_view, 4> kShardingNames = {"ddp", "fsdp", "tp", "mp"};

struct LevelSharding {
  Sharding intra = Sharding::kFsdp;  // below the machine's first level
  Sharding inter = Sharding::kFsdp;  // across it
  auto operator<=>(const LevelSharding&) const = default;
};
// What a kind of layer has unless said otherwise: tables mp, the rest fsdp.
LevelSharding default_sharding(LayerKind kind);

Made madmax(const Problem& problem, const std::map<LayerKind, LevelSharding>& layers);

}  // namespace tandem::strategies
