// The time of a stage. It runs one run of pieces after another on the compute stream and one stream
// per machine level, as the event simulation does (predict/simulate.h). Layers are timed one by one
// until a layer adds to every stream what the layer before added. The rest is extrapolated.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "base/check.h"
#include "predict/fold/sections.h"
#include "predict/interference.h"

namespace tandem::predict {

// Times in seconds at which the streams are free; the last stream is the host, which dispatches
// tasks.
class Streams {
 public:
  // Maximum number of streams. The estimator rejects machines with more levels.
  static constexpr std::size_t kMost = 8;

  Streams() = default;
  explicit Streams(std::size_t count) : count_(count) { CHECK(count <= kMost, count); }

  [[nodiscard]] std::size_t size() const { return count_; }
  [[nodiscard]] double& operator[](std::size_t stream) { return times_[stream]; }
  [[nodiscard]] double operator[](std::size_t stream) const { return times_[stream]; }
  [[nodiscard]] double& back() { return times_[count_ - 1]; }
  [[nodiscard]] double back() const { return times_[count_ - 1]; }
  [[nodiscard]] auto begin() { return times_.begin(); }
  [[nodiscard]] auto end() { return times_.begin() + static_cast<std::ptrdiff_t>(count_); }
  [[nodiscard]] auto begin() const { return times_.begin(); }
  [[nodiscard]] auto end() const { return times_.begin() + static_cast<std::ptrdiff_t>(count_); }

 private:
  std::array<double, kMost> times_{};
  std::size_t count_ = 0;
};

// Returns whether two times in seconds are equal up to rounding.
bool is_close(double a, double b);

// Phase and position of a pass of one micro-batch.
struct MicroBatchPass {
  std::size_t part = 0;
  bool first = true;
  bool last = true;
};

// Cache of the effect of sections on the streams. The effect does not depend on absolute time, only
// on how long before the section's input its streams were free.
class Passages {
 public:
  // One cached effect. All times are relative to the input.
  struct CachedPassage {
    Streams before, after;
    double output = 0;
    double gradients = 0;
  };

  explicit Passages(const Sections& sections);
  // Sections that run the same tasks as those of `others` use the cache `of_others`.
  Passages(const Sections& sections, const Sections& others, Passages& of_others);

  // Returns whether the sections run the same tasks as others in all micro-batches but the last.
  [[nodiscard]] bool begins_like_others() const { return begin_as_others_; }

  // Returns the cached effect of the section for streams in this state, or null.
  [[nodiscard]] const CachedPassage* find(std::size_t section, const MicroBatchPass& action,
                                          double input, const Streams& streams) const;
  void add(std::size_t section, const MicroBatchPass& action, double input, const Streams& before,
           const Streams& after, double output, double gradients);

  // Sets `streams` to their state after `passage`.
  void apply(std::size_t section, const MicroBatchPass& action, const CachedPassage& passage,
             double input, Streams& streams) const;

  // Returns the streams that tasks of the section use, as a bit mask.
  [[nodiscard]] std::uint32_t used_streams(std::size_t section,
                                           const MicroBatchPass& action) const {
    return get_cache(section, action).streams;
  }
  // Returns when the first of the streams that the section uses is free.
  [[nodiscard]] double find_first_free(std::size_t section, const MicroBatchPass& action,
                                       const Streams& streams) const;

 private:
  // Cached effects, by phase and run, and by whether the micro-batch is the first and the last.
  struct PassageCache {
    std::uint32_t streams = 0;  // streams that tasks use, as a bit mask
    std::uint32_t early = 0;    // of these: with tasks that do not wait for the input
    std::vector<CachedPassage> passages;
    PassageCache* elsewhere = nullptr;
  };
  static constexpr std::size_t kVariants = 4;
  using Variants = std::array<PassageCache, kVariants>;
  [[nodiscard]] static std::size_t variant_index(const MicroBatchPass& action) {
    return (action.first ? 2U : 0U) + (action.last ? 1U : 0U);
  }
  [[nodiscard]] const PassageCache& get_cache(std::size_t section,
                                              const MicroBatchPass& action) const {
    const auto& own = seen_[action.part][section][variant_index(action)];
    return own.elsewhere != nullptr ? *own.elsewhere : own;
  }

  // Sets which streams tasks of a section use.
  void set_used_streams(const Sections& sections, std::size_t part, std::size_t section);
  // Returns `free`, the time from the section's input until a stream is free, clamped to what
  // matters. A stream without early tasks is not needed before the input.
  [[nodiscard]] static double lag(const PassageCache& seen, std::size_t stream, double free) {
    return (seen.early >> stream & 1U) != 0 ? free : std::max(free, 0.0);
  }

  std::array<std::vector<Variants>, kParts> seen_;
  bool begin_as_others_ = false;
};

// Runs the sections of one stage on its streams.
class StageTimer {
 public:
  // `passages` are of these sections. `with_host` is false if the caller accounts for the host
  // itself.
  StageTimer(const Sections& sections, const RunCounts& counts, Passages& passages,
             bool with_host = true);

  // Runs one micro-batch forward or backward, from `input`, when its input is ready. Returns when
  // its output is ready. A single micro-batch is both first and last.
  double run(lower::Phase phase, bool first, bool last, double input, Streams& streams);

  // Runs the updates, after the backward pass of the last micro-batch.
  void update(Streams& streams);

  // Frees all streams and forgets all earlier tasks.
  void reset(Streams& streams) {
    std::ranges::fill(streams, 0);
    interference_ = InterferenceModel(sections_.interference);
  }

  [[nodiscard]] Streams make_idle_streams() const { return Streams(sections_.streams + 1); }

 private:
  double run_layers(std::size_t section, const MicroBatchPass& action, double input,
                    Streams& streams);
  void extrapolate(std::size_t section, const MicroBatchPass& action, std::int64_t layers,
                   const Streams& added, Streams& streams);
  double run_cached(std::size_t section, const MicroBatchPass& action, double input,
                    Streams& streams);
  double run_section(const SectionPart& part, const MicroBatchPass& action, double input,
                     Streams& streams);
  void occupy(std::uint16_t stream, double start, double end, Streams& streams);
  void wait(double time, Streams& streams) const;
  void update_layers(std::size_t section, Streams& streams);

  const Sections& sections_;
  RunCounts counts_;
  Passages& passages_;
  bool with_host_;
  InterferenceModel interference_;
  std::vector<double> ready_;                 // by buffer slot of the running section
  std::vector<double> gathered_;              // when its weights for the next section are gathered
  double gradients_ = 0;                      // when the gradients of the last section are ready
  std::vector<std::vector<double>> reduced_;  // when gradients are reduced, by run and layer
};

}  // namespace tandem::predict
