// What the sections of a strategy cost on one stage's part of a machine, whatever the number of
// layers, micro-batches and stages.
#pragma once

#include <optional>

#include "estimate/footprint.h"
#include "machine/machine.h"
#include "models/model.h"
#include "strategies/setting.h"

namespace tandem::estimate {

struct Training {
  DType dtype = DType::kFp32;
  plan::Optimizer optimizer = plan::Optimizer::kSgd;
  plan::Precision precision = {};
};

struct StageModel {
  std::int64_t layers = 0;  // of the whole network
  plan::Schedule schedule;  // of one stage
  Sections sections;
  Footprint footprint;
  DType dtype{};  // of the loss
  Bytes tied;     // of weights that both the first and the last section read
};

// `setting` is of one stage (pp=1), in one micro-batch or two: where there are more they are alike.
// Nothing where the network cannot be folded or the strategy does not fit.
std::optional<StageModel> stage_model(const models::Model& model, const machine::Machine& part,
                                      const strategies::Setting& setting, std::int64_t batch,
                                      const Training& training);

// The same where other devices run data parallel, in groups of the same size for all else: only
// collectives between them differ. `from` and `to` are the parts' digits, `data` and `to_data`
// those of data parallelism. Nothing where a collective is between some of these only.
std::optional<Sections> retimed(const StageModel& stage, machine::DigitMask data,
                                const machine::Digits& from, const machine::Machine& part,
                                const machine::Digits& to, machine::DigitMask to_data);

}  // namespace tandem::estimate
