// The step of a strategy without lowering the whole network: one of many equal layers stands for
// all, and one device for all that do the same. Takes time that does not grow with layers, devices
// or micro-batches; what comes out is that of the event simulation (predict/simulate.h), within 1
// %.
//
// The network is folded (predict/folded.h), one stage's part of the machine is looked at by
// itself, and the strategy lowered there (predict/fold/stage_model.h); sections of the program are
// timed as often as a stage has them (predict/fold/stage.h), and the stages put together by the
// schedule's turns (predict/fold/pipeline.h). docs/decisions/0025-estimates-fold-layers.md says
// what that leaves out.
#pragma once

#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>

#include "predict/fold/pipeline.h"
#include "predict/fold/stage.h"
#include "predict/fold/stage_model.h"
#include "predict/fold/stage_times.h"
#include "predict/simulate.h"

namespace tandem::predict {

struct Estimate {
  // Of a step, in seconds; from `serialized` to `bubble` of the busiest rank, as in
  // predict::Simulation.
  double iteration = 0;
  std::array<double, kKinds> serialized{};
  double compute = 0;
  double exposed = 0;
  double bubble = 0;
  Memory memory;  // of the fullest rank
  double model_flops = 0;
  double mfu = 0;
  // May it be off by more than 1 %? Good enough to say which strategies to simulate.
  bool is_rough = false;
};

// What one micro-batch takes at least, in seconds, whatever the number of stages, the data parallel
// devices and the ZeRO stage: those only add to it.
struct PassBound {
  // Loads of all layers by stream: compute, then a stream for each machine level.
  std::array<double, Streams::kMost> loads{};
  // By run of the division: compute, and communication inside it that nothing overlaps.
  std::vector<double> runs;
  std::vector<double> exposed;       // of these, communication
  std::vector<double> recomputed;    // of these, what is recomputed
  std::vector<double> accumulation;  // by run, of whole gradients, where micro-batches are several
  // What a layer between the first and the last that follows another one in its stage takes beside
  // its compute: communication that nothing overlaps.
  double following = 0;
  // What one stage sends to the next; its gradient comes back.
  double sent = 0;
  bool copied = false;           // do several devices hold the same of it,
  bool gradient_copied = false;  // of its gradient?
  Bytes saved;                   // for the backward pass, by one such layer
};

// How a pipeline's stages divide the network.
struct PipelineDivision {
  const Division* division = nullptr;
  // By class of stages: whole layers between the first and the last.
  std::vector<std::int64_t> layers;
  // Of those that the first rank has passed forward before its first backward pass.
  std::int64_t in_flight = 0;
};

// Of one network on one machine. Keeps what strategies have in common, so that a sweep costs little
// more than what differs.
class Estimator {
 public:
  Estimator(const models::Model& model, const machine::Machine& machine, const Training& training);

  // Nothing where the network cannot be folded or the strategy does not fit: then lowering all of
  // it tells. The setting is complete (strategies::complete).
  std::optional<Estimate> estimate(const strategies::Setting& setting, std::int64_t batch);

  // Lowers one stage of the setting without ZeRO, for divisions into sections or pieces. Nothing
  // where there is no estimate.
  std::optional<PassBound> bound_pass(const strategies::Setting& setting, std::int64_t batch,
                                      Cut cut);
  // Of so many ranks with so many stages each, which take up so many micro-batches; nothing where
  // there is no such division.
  std::optional<PipelineDivision> divide(std::int64_t ranks, std::int64_t stages_of_rank,
                                         std::int64_t micro_batches, std::int64_t batch);

 private:
  // What is lowered and timed once: one stage of a setting, with so many samples, on the part of
  // the machine that one of so many stages has (0: on whatever part).
  struct Stage {
    strategies::Setting setting;
    std::int64_t batch = 0;
    std::int64_t part = 0;
    Cut cut = Cut::kWhole;
    bool operator==(const Stage&) const = default;
  };
  struct StageHash {
    std::size_t operator()(const Stage& stage) const;
  };
  // A stage as it was first lowered, and on which part of the machine.
  struct Lowered {
    machine::Digits digits;
    machine::DigitMask data = 0;
    StageModel stage;
    Passages passages;
    Beginnings beginnings;
    Lowered(machine::Digits d, machine::DigitMask on, StageModel s)
        : digits(std::move(d)), data(on), stage(std::move(s)), passages(stage.sections) {}
  };
  // On another part: what is new passes by itself.
  struct Timed {
    Sections sections;
    Passages passages;
    Timed(Sections s, Lowered& l)
        : sections(std::move(s)), passages(sections, l.stage.sections, l.passages) {}
  };

  [[nodiscard]] bool is_worth_folding(const strategies::Setting& setting) const;
  [[nodiscard]] bool is_rough(const strategies::Setting& setting, const StageModel& stage,
                              const Estimate& estimate) const;
  const machine::Machine* part_for(std::int64_t stages);
  // By rank of a pipeline of so many, the digits in which it differs from the next; the last one's
  // next is the first.
  const std::vector<machine::DigitMask>& to_next_rank(std::int64_t ranks);
  // Of the whole network; of a folded one on `part` where stages end inside layers.
  const Division* division_into(std::int64_t stages, const std::optional<strategies::Ends>& ends,
                                const machine::Machine& part, std::int64_t batch);
  Network* network(const machine::Machine& part, std::int64_t batch);
  Lowered* lowered(const Stage& key, const strategies::Setting& inner, const machine::Machine& part,
                   std::int64_t batch);
  Timed* timed_on(const Stage& key, Lowered& lowered, const strategies::Setting& inner,
                  const machine::Machine& part);

  const models::Model& model_;
  const machine::Machine& machine_;
  machine::Digits digits_;
  Training training_;
  std::map<std::int64_t, std::optional<machine::Machine>> parts_;         // by number of stages
  std::map<std::int64_t, std::vector<machine::DigitMask>> to_next_rank_;  // by number of ranks
  std::map<std::int64_t, std::optional<Folded>> folded_;                  // by batch
  // By batch, stages and how they divide the layers.
  std::map<std::tuple<std::int64_t, std::int64_t, std::optional<strategies::Ends>>,
           std::optional<Division>>
      divisions_;
  std::map<std::pair<std::int64_t, std::vector<std::int64_t>>, Network> networks_;  // and levels
  std::unordered_map<Stage, std::optional<Lowered>, StageHash> lowered_;
  std::unordered_map<Stage, std::optional<Timed>, StageHash> timed_;
  Programs programs_;
  TurnTables turns_;
};

// The same without a timeline, as the event simulation gives it.
Simulation to_simulation(const Estimate& estimate);

}  // namespace tandem::predict
