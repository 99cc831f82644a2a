// Costs of a strategy's sections on one stage's part of a machine. They do not depend on the number
// of layers, micro-batches or stages.
#pragma once

#include <list>
#include <optional>

#include "lower/program.h"
#include "machine/machine.h"
#include "models/model.h"
#include "plan/parallelize.h"
#include "predict/estimator.h"
#include "predict/fold/division.h"
#include "predict/fold/footprint.h"
#include "predict/fold/sections.h"
#include "strategies/problem.h"
#include "strategies/setting.h"

namespace tandem::predict {

// A folded network on a part of a machine, prepared for strategies.
class FoldedNetwork {
 public:
  FoldedNetwork(const Folded& folded, const machine::Machine& part)
      : folded_(folded), digits_(part), problem_(folded.graph, digits_) {}
  FoldedNetwork(const FoldedNetwork&) = delete;
  FoldedNetwork& operator=(const FoldedNetwork&) = delete;

  [[nodiscard]] const Folded& folded() const { return folded_; }
  [[nodiscard]] const machine::Digits& digits() const { return digits_; }
  [[nodiscard]] const strategies::Problem& problem() const { return problem_; }
  // Returns the pieces of all sections, or nullopt if the network cannot be cut into pieces.
  const std::optional<Pieces>& pieces();

  // Returns a strategy's PCG with its schedule, or nullopt if the strategy does not fit. Strategies
  // that differ only in recomputation share one PCG with different marks.
  std::optional<plan::MappedGraph> map_strategy(const strategies::Setting& setting,
                                                const machine::Machine& part);

 private:
  struct MappedStrategy {
    strategies::Setting setting;  // without recomputation
    std::optional<plan::MappedGraph> mapped;
  };

  const MappedStrategy& find_mapped_strategy(const strategies::Setting& setting,
                                             const machine::Machine& part);

  const Folded& folded_;
  machine::Digits digits_;
  strategies::Problem problem_;
  std::optional<std::optional<Pieces>> pieces_;
  std::vector<MappedStrategy> mapped_strategies_;
};

// Cache of the last few strategies' programs. If a strategy comes again with another batch, its
// program has the same tasks with other extents (lower/resize_program.h).
class ProgramCache {
 public:
  struct LoweredProgram {
    strategies::Setting setting;
    plan::MappedGraph mapped;
    lower::Program program;
    struct ProgramPlaces {
      std::vector<SectionPlace> of_node, of_task;
      std::optional<Sections> sections;  // timed for the first batch
    };
    std::array<ProgramPlaces, kCuts> cuts;
  };

  // Returns the lowered program of `setting`. The reference is valid until the next call.
  // `software` must be the same in all calls.
  LoweredProgram& get_program(const strategies::Setting& setting, plan::MappedGraph mapped,
                              const machine::Digits& digits, const machine::Software& software,
                              plan::Optimizer optimizer);

  // Returns the cached costs of the operators of all programs.
  Operations& operations() { return operations_; }

 private:
  Operations operations_;
  static constexpr std::size_t kMost = 64;
  std::list<LoweredProgram> known_;  // oldest first
};

// Costs of one lowered stage.
struct StageModel {
  std::int64_t layers = 0;  // of the whole network
  std::int64_t batch = 0;   // batch that was lowered
  plan::Schedule schedule;  // with one stage
  Sections sections;
  Footprint footprint;
  DType dtype{};  // type of its weights
  // Weights that both the first and the last section read.
  struct TiedWeights {
    Bytes bytes;
    std::uint8_t piece = 0;  // piece of the last section that reads it
    bool moved = false;      // whether it reads a copy, and computes that one's gradient
    bool inside = false;     // whether the copy contains the weight itself
    // Tied weights / all weights of the network, in elements.
    double part = 0;
  } tied;
};

// Returns the costs of one stage, or nullopt if the strategy does not fit. `setting` has one stage
// (pp=1) and one or two micro-batches; two stand for any larger number. `cut`: runs are
// whole_sections or list_runs.
std::optional<StageModel> make_stage_model(FoldedNetwork& network, const machine::Machine& part,
                                           const strategies::Setting& setting,
                                           const Training& training, ProgramCache& programs,
                                           Cut cut, bool is_pipelined);

// Returns the sections of `stage` with other data-parallel devices. All other groups keep their
// size, so only collectives between data-parallel devices change. `from` and `to` are the digits of
// the two parts, `data` and `to_data` those of data parallelism. Returns nullopt if a collective is
// between only some of the data-parallel digits.
std::optional<Sections> retime_collectives(const StageModel& stage, machine::DigitMask data,
                                           const machine::Digits& from,
                                           const machine::Machine& part, const machine::Digits& to,
                                           machine::DigitMask to_data);

}  // namespace tandem::predict
