// Known strategies as functions from a problem to choices. They are the baselines that a found plan
// is compared with, and initial candidates of the search. Each one only states the use of the
// digits, in a file of its own; strategies/spread.h does the rest. strategies/grid.h makes them by
// name.
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

// Splits the batch over all digits and replicates the weights.
Made make_data_parallel(const Problem& problem);

// Splits the batch over all digits and shards the weights over them. Weights are gathered before
// use, and their gradients are reduce-scattered. This is FSDP, and the storage of DeepSpeed's ZeRO.
Made make_fully_sharded(const Problem& problem);

// The digits that Megatron uses. `tensor` makes weights column-parallel, then row-parallel, and
// splits attention by heads, with one all-reduce after each pair. Digits in none of the masks split
// the batch.
struct MegatronParts {
  machine::DigitMask tensor = 0;
  machine::DigitMask context = 0;  // splits the sequence; attention gathers keys and values
  machine::DigitMask ranks = 0;    // left to a pipeline
  // Operators that are not split compute along the sequence. The all-reduce becomes a
  // reduce-scatter before them and an all-gather after them.
  bool sequence_parallel = false;
  bool whole_loss = false;  // each device of `tensor` computes the whole loss
  bool stored = false;      // shards weights over the digits that would replicate them
};
Made make_megatron(const Problem& problem, const MegatronParts& parts);

// Splits layers whose weights are larger than their results over all digits, the others along the
// batch. This is the expert's strategy in Unity's evaluation.
Made make_expert(const Problem& problem);

// Splits embedding tables over all digits and the rest along the batch, for recommenders.
Made make_dlrm_hybrid(const Problem& problem);

// Splits experts over the digits of `experts` and all else along the batch. Tokens are sent by
// all-to-all.
Made make_expert_parallel(const Problem& problem, machine::DigitMask experts);
// Returns the digits that expert parallelism may use: the innermost ones that divide the model's
// number of experts. Returns none if it has no experts.
machine::DigitMask find_expert_digits(const Problem& problem);

// The strategies that MAD-Max chooses from for every kind of layer, inside a node and across nodes.
enum class Sharding : std::uint8_t {
  kDdp,   // splits the batch, weights replicated
  kFsdp,  // splits the batch, weights sharded
  kTp,    // splits weights as Megatron does
  kMp,    // splits the tables or experts of a layer; others as kTp
};
inline constexpr std::array<std::string_view, 4> kShardingNames = {"ddp", "fsdp", "tp", "mp"};

struct LevelSharding {
  Sharding intra = Sharding::kFsdp;  // below the machine's first level
  Sharding inter = Sharding::kFsdp;  // across it
  auto operator<=>(const LevelSharding&) const = default;
};
// Returns the default of a kind of layer: mp for embedding tables, fsdp for the rest.
LevelSharding get_default_sharding(LayerKind kind);

Made make_madmax(const Problem& problem, const std::map<LayerKind, LevelSharding>& layers);

}  // namespace tandem::strategies
