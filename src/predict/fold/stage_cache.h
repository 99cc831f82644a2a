// Caches what strategies of one network on one machine have in common: parts of the machine,
// divisions into stages, and lowered and timed stages. A sweep then costs little more than what
// differs.
#pragma once

#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>

#include "predict/fold/device_kinds.h"
#include "predict/fold/schedule_cache.h"
#include "predict/fold/stage_model.h"
#include "predict/fold/stage_timer.h"
#include "predict/fold/stage_times.h"

namespace tandem::predict {

// Key of a stage that is lowered and timed once. It is a stage of `setting` with `batch` samples,
// on the part of the machine that one of `part` ranks has (0: on any part).
struct StageKey {
  strategies::Setting setting;
  std::int64_t batch = 0;
  std::int64_t part = 0;
  Cut cut = Cut::kWhole;
  std::size_t kind = 0;  // of devices
  bool operator==(const StageKey&) const = default;
};

// A stage as it was first lowered, with the digits of its part of the machine.
struct LoweredStage {
  machine::Digits digits;
  // Digits of data parallelism.
  machine::DigitMask data = 0;
  std::vector<std::size_t> whole;  // runs that are the whole sections
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

// A lowered stage timed on another part. It caches only passages that differ.
struct TimedStage {
  Sections sections;
  Passages passages;
  TimedStage(Sections s, LoweredStage& l)
      : sections(std::move(s)), passages(sections, l.stage.sections, l.passages) {}
};

// Returns the digits in which ranks `from` and `to` of a pipeline of `ranks` ranks differ.
machine::DigitMask find_differing_digits(const machine::Digits& digits, std::int64_t from,
                                         std::int64_t to, std::int64_t ranks);

// Cache for one network on one machine. Pointers that it returns stay valid.
class StageCache {
 public:
  StageCache(const models::ConfiguredModel& model, const machine::Machine& machine,
             const Training& training)
      : model_(model),
        machine_(machine),
        digits_(machine),
        training_(training),
        kinds_(machine, digits_),
        programs_(kinds_.count()) {}

  [[nodiscard]] const models::ConfiguredModel& model() const { return model_; }
  [[nodiscard]] const machine::Machine& machine() const { return machine_; }
  [[nodiscard]] const machine::Digits& digits() const { return digits_; }
  [[nodiscard]] const Training& training() const { return training_; }
  [[nodiscard]] ScheduleCache& schedules() { return schedules_; }

  [[nodiscard]] const DeviceKinds& kinds() const { return kinds_; }
  // Returns the kinds of the ranks of a pipeline of `count` ranks.
  const DeviceKinds::Ranks& ranks(std::int64_t count) {
    return kinds_.ranks(count, training_.dtype);
  }

  // The functions below return null if there is no result. Returns the devices of one rank of
  // `ranks`, as a machine of devices of kind `kind`.
  const machine::Machine* get_part(std::int64_t ranks, std::size_t kind);
  // Returns a division over whole_sections, or over list_runs if stages end inside layers.
  const Division* get_division(std::int64_t ranks, std::int64_t stages_of_rank,
                               const std::optional<strategies::Ends>& ends, std::int64_t batch);
  FoldedNetwork* get_network(const machine::Machine& part, std::int64_t batch);
  LoweredStage* get_lowered(const StageKey& key, const machine::Machine& part);
  TimedStage* get_timed(const StageKey& key, LoweredStage& lowered, const machine::Machine& part);

  // Returns, by rank, the digits in which it differs from the next rank. The next rank of the last
  // one is the first.
  const std::vector<machine::DigitMask>& get_next_rank_digits(std::int64_t ranks);

 private:
  struct StageKeyHash {
    std::size_t operator()(const StageKey& stage) const;
  };

  const models::ConfiguredModel& model_;
  const machine::Machine& machine_;
  machine::Digits digits_;
  Training training_;
  DeviceKinds kinds_;
  // Parts of the machine by number of ranks and kind of devices.
  std::map<std::pair<std::int64_t, std::size_t>, std::optional<machine::Machine>> parts_;
  std::map<std::int64_t, std::vector<machine::DigitMask>> to_next_rank_;  // by number of ranks
  std::map<std::int64_t, std::optional<Folded>> folded_;                  // by batch
  // Divisions by batch, stages, ranks (0 if all are equally fast), and ends of stages.
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t, std::optional<strategies::Ends>>,
           std::optional<Division>>
      divisions_;
  std::map<std::pair<std::int64_t, std::vector<std::int64_t>>, FoldedNetwork>
      networks_;  // by batch and level counts
  std::unordered_map<StageKey, std::optional<LoweredStage>, StageKeyHash> lowered_;
  std::unordered_map<StageKey, std::optional<TimedStage>, StageKeyHash> timed_;
  std::vector<ProgramCache> programs_;  // by kind of devices
  ScheduleCache schedules_;
};

}  // namespace tandem::predict
