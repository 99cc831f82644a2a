// What the sections of a strategy cost on one stage's part of a machine, whatever the number of
// layers, micro-batches and stages.
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

// A folded network on a part of a machine, as strategies are asked about it.
class Network {
 public:
  Network(const Folded& folded, const machine::Machine& part)
      : folded_(folded), digits_(part), problem_(folded.graph, digits_) {}
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  [[nodiscard]] const Folded& folded() const { return folded_; }
  [[nodiscard]] const machine::Digits& digits() const { return digits_; }
  [[nodiscard]] const strategies::Problem& problem() const { return problem_; }
  // Nothing where it cannot be cut into such.
  const std::optional<Pieces>& pieces();

  // A strategy's parallel graph, with its schedule. Made once for strategies that differ in what
  // the backward pass makes again only: that is a matter of marks. Nothing where the strategy does
  // not fit.
  std::optional<plan::MappedGraph> mapped(const strategies::Setting& setting,
                                          const machine::Machine& part);

 private:
  struct Made {
    strategies::Setting setting;  // with nothing made again
    std::optional<plan::MappedGraph> mapped;
  };

  const Made& made(const strategies::Setting& setting, const machine::Machine& part);

  const Folded& folded_;
  machine::Digits digits_;
  strategies::Problem problem_;
  std::optional<std::optional<Pieces>> pieces_;
  std::vector<Made> made_;
};

// The last few strategies' programs. A strategy that comes again with another batch has the same
// tasks over other extents (lower/resize.h).
class Programs {
 public:
  struct Lowered {
    strategies::Setting setting;
    plan::MappedGraph mapped;
    lower::Program program;
    struct Places {
      std::vector<Place> of_node, of_task;
      std::optional<Sections> sections;  // of the first batch
    };
    std::array<Places, kCuts> cuts;
  };

  // Until the next call.
  Lowered& of(const strategies::Setting& setting, plan::MappedGraph mapped,
              const machine::Digits& digits, plan::Optimizer optimizer);

  // What operators of all of them cost.
  Operations& operations() { return operations_; }

 private:
  Operations operations_;
  static constexpr std::size_t kMost = 64;
  std::list<Lowered> known_;  // the oldest first
};

struct StageModel {
  std::int64_t layers = 0;  // of the whole network
  std::int64_t batch = 0;   // that was lowered
  plan::Schedule schedule;  // of one stage
  Sections sections;
  Footprint footprint;
  DType dtype{};  // of its weights
  // Of weights that both the first section and the last one read.
  struct Tied {
    Bytes bytes;
    std::uint8_t piece = 0;  // of the last section, that does
    bool moved = false;      // does it read a copy, and make a gradient of that?
    bool inside = false;     // does the weight lie in the copy?
    // What part of all weights is the first section's that the last one reads, itself or what is
    // made of it.
    double part = 0;
  } tied;
};

// `setting` is of one stage (pp=1), in one micro-batch or two: where there are more they are alike.
// In whole sections, or in all runs of pieces: `cut`. Nothing where the strategy does not fit.
std::optional<StageModel> stage_model(Network& network, const machine::Machine& part,
                                      const strategies::Setting& setting, const Training& training,
                                      Programs& programs, Cut cut, bool is_pipelined);

// The same where other devices run data parallel, in groups of the same size for all else: only
// collectives between them differ. `from` and `to` are the parts' digits, `data` and `to_data`
// those of data parallelism. Nothing where a collective is between some of these only.
std::optional<Sections> retimed(const StageModel& stage, machine::DigitMask data,
                                const machine::Digits& from, const machine::Machine& part,
                                const machine::Digits& to, machine::DigitMask to_data);

}  // namespace tandem::predict
