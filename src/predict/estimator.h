// Estimates a strategy's step without lowering the whole network. One layer stands for all equal
// layers, and one device for all equivalent devices. The time to estimate does not grow with the
// number of layers, devices or micro-batches. Results match the event simulation
// (predict/simulate.h) within 1 %.
//
// The network is folded (predict/folded.h) and the strategy is lowered on one stage's part of the
// machine (fold/stage_model.h). The sections of that program are timed as often as a stage has them
// (fold/stage_timer.h). The stages are then combined in the order of the schedule (fold/step.h,
// fold/pipeline.h). docs/internals/decisions/0025-estimates-fold-layers.md lists what this leaves
// out. Nothing outside of predict/ includes fold/.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "models/model.h"
#include "plan/plan.h"
#include "predict/simulate.h"
#include "strategies/setting.h"

namespace tandem::predict {

struct Training {
  DType dtype = DType::kFp32;
  plan::Optimizer optimizer = plan::Optimizer::kSgd;
  plan::Precision precision = {};
};

struct Estimate {
  Simulation step;  // result as of the event simulation, without a timeline
  // Relative error bound of time and memory against the event simulation. It is not proved, but
  // tested on random settings (fold/random_settings_test.cc).
  double error_bound = kNear;

  static constexpr double kNear = 0.01;
  // Returns whether the estimate is only good enough to choose strategies to simulate.
  [[nodiscard]] bool is_rough() const { return error_bound > kNear; }
};

// Lower bounds on the time of one micro-batch in seconds. They hold for any number of stages and
// data-parallel devices and for any ZeRO stage, since these only add time.
struct MicroBatchBound {
  // Compute of each run of the division, and communication inside it that nothing overlaps; by kind
  // of device, then by run.
  std::vector<double> units;
  std::vector<double> forward;  // forward pass's part of `units`; empty if unknown
  // In the same order: part of the backward pass that needs no gradient from the next stage and may
  // run before it arrives.
  std::vector<double> early;
  // In the same order: accumulation of whole gradients over micro-batches; empty if unknown.
  std::vector<double> accumulation;
  // Time that the first stage saves if another stage shares its tied weight, by kind of device.
  std::vector<double> tied;
  double compute = 0;          // compute of all stages together, without communication
  std::vector<double> levels;  // by machine level: communication of all stages together
  // Exposed communication of a layer that follows another layer in its stage, for layers between
  // the first and the last.
  double following = 0;
  double following_forward = 0;  // forward pass's part of `following`
  Bytes sent;                    // bytes of an activation between two stages; its gradient returns
  bool copied = false;           // whether devices hold replicas of the activation
  bool gradient_copied = false;  // whether devices hold replicas of the gradient
  Bytes saved;                   // bytes that one such layer saves for backward
};

// Division of a network into pipeline stages. A stage consists of runs: whole sections, or pieces
// of sections if stages end inside layers. Stages of one class have the same runs.
struct PipelineDivision {
  bool is_in_pieces = false;
  std::vector<std::vector<std::int64_t>> classes;  // by class: how many of each run a stage has
  std::vector<std::uint16_t> class_of_stage;
  std::vector<std::uint8_t> kind_of_rank;  // kind of device, indexed as in MicroBatchBound
  std::vector<std::int64_t> layers;        // by class: whole layers between first and last
  // Number of such layers that the first rank runs before its first backward pass, summed over
  // micro-batches.
  std::int64_t in_flight = 0;
};

class StageCache;  // fold/stage_cache.h

// Estimates strategies of one network on one machine. It caches what strategies share, so a sweep
// costs little more than what differs. The network and the machine must outlive it.
class Estimator {
 public:
  Estimator(const models::ConfiguredModel& model, const machine::Machine& machine,
            const Training& training);
  ~Estimator();

  // Returns nullopt if the network cannot be folded or the strategy does not fit; lowering the
  // whole network then tells why. `setting` must be complete (strategies::complete).
  std::optional<Estimate> estimate(const strategies::Setting& setting, std::int64_t batch);

  // Returns lower bounds from one lowered stage of `setting` without ZeRO. `in_pieces`: for
  // divisions into pieces instead of whole sections. Returns nullopt if there is no estimate.
  std::optional<MicroBatchBound> bound_pass(const strategies::Setting& setting, std::int64_t batch,
                                            bool in_pieces);
  // Divides the network into `ranks` x `stages_of_rank` stages that run `micro_batches`
  // micro-batches. Returns nullopt if there is no such division.
  std::optional<PipelineDivision> divide(std::int64_t ranks, std::int64_t stages_of_rank,
                                         std::int64_t micro_batches, std::int64_t batch);

 private:
  std::unique_ptr<StageCache> cache_;
};

}  // namespace tandem::predict
