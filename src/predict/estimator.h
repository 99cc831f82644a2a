// Predicts the step of a strategy without lowering the whole network: one of many equal layers
// stands for all, and one device for all that do the same. Takes time that does not grow with
// layers, devices or micro-batches; what comes out is that of the event simulation
// (predict/simulate.h), within 1 %.
//
// The network is folded (predict/folded.h), one stage's part of the machine is looked at by itself,
// and the strategy lowered there (fold/stage_model.h); sections of the program are timed as often
// as a stage has them (fold/stage.h), and the stages put together by the schedule's turns
// (fold/step.h, fold/pipeline.h). docs/decisions/0025-estimates-fold-layers.md says what that
// leaves out. Nothing outside of predict/ includes fold/.
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
  Simulation step;  // as the event simulation gives it, without a timeline
  // By what part of the event simulation's time and memory it may be off: not proved, but held
  // against random settings (fold/random_settings_test.cc).
  double error_bound = kNear;

  static constexpr double kNear = 0.01;
  // Good enough only to say which strategies to simulate.
  [[nodiscard]] bool is_rough() const { return error_bound > kNear; }
};

// What one micro-batch takes at least, in seconds, whatever the number of stages, the data parallel
// devices and the ZeRO stage: those only add to it.
struct PassBound {
  // By kind of devices, and in it by unit of which stages are made, as a run of the division:
  // compute, and communication inside it that nothing overlaps.
  std::vector<double> units;
  std::vector<double> forward;  // of these, the forward pass; empty where it is not known
  // Likewise, of the backward pass what needs nothing of what is sent back: it may run before.
  std::vector<double> early;
  // Likewise, accumulation of whole gradients over micro-batches; empty where it is not known.
  std::vector<double> accumulation;
  // By kind of devices: of the first stage's units, what it does not take where another stage
  // shares its tied weight.
  std::vector<double> tied;
  double compute = 0;          // of all stages together, without communication
  std::vector<double> levels;  // by machine level: communication of all stages together
  // What a layer between the first and the last that follows another one in its stage takes beside
  // its compute: communication that nothing overlaps.
  double following = 0;
  double following_forward = 0;  // of that
  Bytes sent;                    // from a stage to the next one, and its gradient back
  bool copied = false;           // do several devices hold the same of what is sent,
  bool gradient_copied = false;  // and of the gradient?
  Bytes saved;                   // for the backward pass, by one such layer
};

// How a pipeline's stages divide the network into runs: whole sections of it, or pieces of those
// where stages end inside layers. Stages of one class have the same.
struct PipelineDivision {
  bool is_in_pieces = false;
  std::vector<std::vector<std::int64_t>> classes;  // how many of each run a stage has
  std::vector<std::uint16_t> class_of_stage;
  std::vector<std::uint8_t> kind_of_rank;  // of devices, as PassBound has them
  std::vector<std::int64_t> layers;        // by class: whole layers between the first and the last
  // Of those that the first rank has passed forward before its first backward pass.
  std::int64_t in_flight = 0;
};

class StageCache;  // fold/stage_cache.h

// Of one network on one machine. Keeps what strategies have in common, so that a sweep costs little
// more than what differs. The network and the machine outlive it.
class Estimator {
 public:
  Estimator(const models::Model& model, const machine::Machine& machine, const Training& training);
  ~Estimator();

  // Nothing where the network cannot be folded or the strategy does not fit: then lowering all of
  // it tells. The setting is complete (strategies::complete).
  std::optional<Estimate> estimate(const strategies::Setting& setting, std::int64_t batch);

  // Lowers one stage of the setting without ZeRO, for divisions into sections or pieces. Nothing
  // where there is no estimate.
  std::optional<PassBound> bound_pass(const strategies::Setting& setting, std::int64_t batch,
                                      bool in_pieces);
  // Of so many ranks with so many stages each, which take up so many micro-batches; nothing where
  // there is no such division.
  std::optional<PipelineDivision> divide(std::int64_t ranks, std::int64_t stages_of_rank,
                                         std::int64_t micro_batches, std::int64_t batch);

 private:
  std::unique_ptr<StageCache> cache_;
};

}  // namespace tandem::predict
