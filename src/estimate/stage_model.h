// What the sections of a strategy cost on one stage's part of a machine, whatever the number of
// layers, micro-batches and stages.
#pragma once

#include <optional>

#include "estimate/footprint.h"
#include "machine/machine.h"
#include "models/model.h"
#include "plan/parallelize.h"
#include "strategies/problem.h"
#include "strategies/setting.h"

namespace tandem::estimate {

struct Training {
  DType dtype = DType::kFp32;
  plan::Optimizer optimizer = plan::Optimizer::kSgd;
  plan::Precision precision = {};
};

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

  // plan::parallelize; once for strategies that differ in recomputation only, for what that
  // changes of a parallel graph is what is marked.
  plan::MappedGraph parallelize(const std::vector<plan::Choice>& choices,
                                const plan::Schedule& schedule, const machine::Digits& with_time);

 private:
  struct Made {
    std::vector<plan::Choice> choices;  // with nothing made again
    std::int64_t micro_batches = 1;
    plan::MappedGraph mapped;
  };

  const Folded& folded_;
  machine::Digits digits_;
  strategies::Problem problem_;
  std::vector<Made> made_;
};

struct StageModel {
  std::int64_t layers = 0;  // of the whole network
  std::int64_t batch = 0;   // that was lowered
  plan::Schedule schedule;  // of one stage
  Sections sections;
  Footprint footprint;
  DType dtype{};  // of the loss
  Bytes tied;     // of weights that both the first and the last section read
};

// `setting` is of one stage (pp=1), in one micro-batch or two: where there are more they are alike.
// Nothing where the strategy does not fit.
std::optional<StageModel> stage_model(Network& network, const machine::Machine& part,
                                      const strategies::Setting& setting, const Training& training);

// The same where other devices run data parallel, in groups of the same size for all else: only
// collectives between them differ. `from` and `to` are the parts' digits, `data` and `to_data`
// those of data parallelism. Nothing where a collective is between some of these only.
std::optional<Sections> retimed(const StageModel& stage, machine::DigitMask data,
                                const machine::Digits& from, const machine::Machine& part,
                                const machine::Digits& to, machine::DigitMask to_data);

}  // namespace tandem::estimate
