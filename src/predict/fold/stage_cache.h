// What strategies of one network on one machine have in common, so that a sweep costs little more
// than what differs: parts of the machine, divisions into stages, stages that are lowered and
// timed.
#pragma once

#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>

#include "predict/fold/device_kinds.h"
#include "predict/fold/stage.h"
#include "predict/fold/stage_model.h"
#include "predict/fold/stage_times.h"
#include "predict/fold/turns.h"

namespace tandem::predict {

// What is lowered and timed once: one stage of a setting, with so many samples, on the part of the
// machine that one of so many stages has (0: on whatever part).
struct StageKey {
  strategies::Setting setting;
  std::int64_t batch = 0;
  std::int64_t part = 0;
  Cut cut = Cut::kWhole;
  std::size_t kind = 0;  // of devices
  bool operator==(const StageKey&) const = default;
};

// A stage as it was first lowered, and on which part of the machine.
struct LoweredStage {
  machine::Digits digits;
  machine::DigitMask data = 0;
  std::vector<std::size_t> whole;  // which runs are the whole sections
  StageModel stage;
  Passages passages;
  Beginnings beginnings;
  LoweredStage(machine::Digits d, machine::DigitMask on, std::vector<std::size_t> w, StageModel s)
      : digits(std::move(d)),
        data(on),
        whole(std::move(w)),
        stage(std::move(s)),
        passages(stage.sections) {}
};

// On another part: what is new passes by itself.
struct TimedStage {
  Sections sections;
  Passages passages;
  TimedStage(Sections s, LoweredStage& l)
      : sections(std::move(s)), passages(sections, l.stage.sections, l.passages) {}
};

// The digits in which two ranks of so many differ.
machine::DigitMask digits_between(const machine::Digits& digits, std::int64_t from, std::int64_t to,
                                  std::int64_t ranks);

class StageCache {
 public:
  StageCache(const models::Model& model, const machine::Machine& machine, const Training& training)
      : model_(model),
        machine_(machine),
        digits_(machine),
        training_(training),
        kinds_(machine, digits_),
        programs_(kinds_.count()) {}

  [[nodiscard]] const models::Model& model() const { return model_; }
  [[nodiscard]] const machine::Machine& machine() const { return machine_; }
  [[nodiscard]] const machine::Digits& digits() const { return digits_; }
  [[nodiscard]] const Training& training() const { return training_; }
  [[nodiscard]] TurnTables& turns() { return turns_; }

  [[nodiscard]] const DeviceKinds& kinds() const { return kinds_; }
  // Of a pipeline of so many.
  const DeviceKinds::Ranks& ranks(std::int64_t count) {
    return kinds_.ranks(count, training_.dtype);
  }

  // Null where there is none, from here on. The devices of one rank of so many, of one kind.
  const machine::Machine* part_for(std::int64_t ranks, std::size_t kind);
  // Of the whole network; of a folded one where stages end inside layers.
  const Division* division_into(std::int64_t ranks, std::int64_t stages_of_rank,
                                const std::optional<strategies::Ends>& ends, std::int64_t batch);
  Network* network(const machine::Machine& part, std::int64_t batch);
  LoweredStage* lowered(const StageKey& key, const machine::Machine& part);
  TimedStage* timed_on(const StageKey& key, LoweredStage& lowered, const machine::Machine& part);

  // By rank of a pipeline of so many, the digits in which it differs from the next; the last one's
  // next is the first.
  const std::vector<machine::DigitMask>& to_next_rank(std::int64_t ranks);

 private:
  struct KeyHash {
    std::size_t operator()(const StageKey& stage) const;
  };

  const models::Model& model_;
  const machine::Machine& machine_;
  machine::Digits digits_;
  Training training_;
  DeviceKinds kinds_;
  // By number of ranks, and kind of devices.
  std::map<std::pair<std::int64_t, std::size_t>, std::optional<machine::Machine>> parts_;
  std::map<std::int64_t, std::vector<machine::DigitMask>> to_next_rank_;  // by number of ranks
  std::map<std::int64_t, std::optional<Folded>> folded_;                  // by batch
  // By batch, stages, ranks where these differ in speed, and how stages divide the layers.
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t, std::optional<strategies::Ends>>,
           std::optional<Division>>
      divisions_;
  std::map<std::pair<std::int64_t, std::vector<std::int64_t>>, Network> networks_;  // and levels
  std::unordered_map<StageKey, std::optional<LoweredStage>, KeyHash> lowered_;
  std::unordered_map<StageKey, std::optional<TimedStage>, KeyHash> timed_;
  std::vector<Programs> programs_;  // by kind of devices
  TurnTables turns_;
};

}  // namespace tandem::predict
