// The step of a strategy without lowering the whole network: one of many equal layers stands for
// all, and one device for all that do the same. Takes time that does not grow with layers, devices
// or micro-batches; what comes out is that of the event simulation (sim/simulate.h), within 1 %.
//
// The network is folded (estimate/folded.h), one stage's part of the machine is looked at by
// itself, and the strategy lowered there; sections of the program are timed as often as a stage has
// them, and the stages put together by the schedule's turns (lower/order.h).
#pragma once

#include <optional>

#include "machine/machine.h"
#include "models/model.h"
#include "sim/simulate.h"
#include "strategies/grid.h"

namespace tandem::estimate {

struct Question {
  const models::Model& model;
  const machine::Machine& machine;
  std::int64_t batch = 1;
  DType dtype = DType::kFp32;
  plan::Optimizer optimizer = plan::Optimizer::kSgd;
};

// Nothing where the network cannot be folded, the stages are not alike, or the strategy does not
// fit: then lowering all of it tells. The setting is complete (strategies::complete). Without a
// timeline.
std::optional<sim::Simulation> estimate(const Question& question,
                                        const strategies::Setting& setting);

}  // namespace tandem::estimate
