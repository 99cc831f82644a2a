// The time of a stage: one run of pieces after the other, on the compute stream and one stream for
// each machine level, as in the event simulation (predict/simulate.h). Layers are timed one by one
// until the next adds to every stream what the last did; the rest follows.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "base/check.h"
#include "predict/beside.h"
#include "predict/fold/sections.h"

namespace tandem::predict {

// When the streams are free, in seconds; the last is the host, that dispatches tasks.
class Streams {
 public:
  // Machines have few levels; those with more are left to the simulation.
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

// Equal but for rounding, of times in seconds.
bool is_close(double a, double b);

// When a micro-batch comes in.
struct Turn {
  std::size_t part = 0;
  bool first = true;
  bool last = true;
};

// What sections have been seen to do to the streams. Later by any time, they do the same: so what
// counts is how long before the section's input its streams were free.
class Passages {
 public:
  // All from the input on.
  struct Passage {
    Streams before, after;
    double output = 0;
    double gradients = 0;
  };

  explicit Passages(const Sections& sections);
  // Those of `others` go into `of_others` where these sections run the same tasks.
  Passages(const Sections& sections, const Sections& others, Passages& of_others);

  // Do others run the same tasks in all micro-batches but the last?
  [[nodiscard]] bool begin_as_others() const { return begin_as_others_; }

  // Of a section with its streams as they are; nothing where that has not been seen.
  [[nodiscard]] const Passage* find(std::size_t section, const Turn& turn, double input,
                                    const Streams& streams) const;
  void add(std::size_t section, const Turn& turn, double input, const Streams& before,
           const Streams& after, double output, double gradients);

  // The streams as a passage leaves them.
  void pass(std::size_t section, const Turn& turn, const Passage& passage, double input,
            Streams& streams) const;

  // The streams that tasks of the section use, a bit each.
  [[nodiscard]] std::uint32_t streams(std::size_t section, const Turn& turn) const {
    return seen(section, turn).streams;
  }
  // When the first of the streams that the section uses is free.
  [[nodiscard]] double first_free(std::size_t section, const Turn& turn,
                                  const Streams& streams) const;

 private:
  // By part and run, and by whether the micro-batch is the first, and the last.
  struct Seen {
    std::uint32_t streams = 0;  // that tasks use, a bit each
    std::uint32_t early = 0;    // of these, where one may begin before the input is there
    std::vector<Passage> passages;
    Seen* elsewhere = nullptr;
  };
  static constexpr std::size_t kVariants = 4;
  using Variants = std::array<Seen, kVariants>;
  [[nodiscard]] static std::size_t variant(const Turn& turn) {
    return (turn.first ? 2U : 0U) + (turn.last ? 1U : 0U);
  }
  [[nodiscard]] const Seen& seen(std::size_t section, const Turn& turn) const {
    const auto& own = seen_[turn.part][section][variant(turn)];
    return own.elsewhere != nullptr ? *own.elsewhere : own;
  }

  // Which streams tasks of a section use.
  void look_at(const Sections& sections, std::size_t part, std::size_t section);
  // How long before or after the section's input a stream is free, as far as that matters.
  [[nodiscard]] static double lag(const Seen& seen, std::size_t stream, double free) {
    return (seen.early >> stream & 1U) != 0 ? free : std::max(free, 0.0);
  }

  std::array<std::vector<Variants>, kParts> seen_;
  bool begin_as_others_ = false;
};

class StageTimer {
 public:
  // `passages` are of these sections. Without the host where who asks looks after it.
  StageTimer(const Sections& sections, const RunCounts& counts, Passages& passages,
             bool with_host = true);

  // One micro-batch, forward or backward, from when its input is there; returns when its output
  // is. Where there is one micro-batch it is first and last.
  double run(lower::Part part, bool first, bool last, double input, Streams& streams);

  // After the backward pass of the last micro-batch.
  void update(Streams& streams);

  // With all streams free and nothing that ran before.
  void begin_anew(Streams& streams) {
    std::ranges::fill(streams, 0);
    beside_ = Beside(sections_.interference);
  }

  [[nodiscard]] Streams idle() const { return Streams(sections_.streams + 1); }

 private:
  double run_alike(std::size_t section, const Turn& turn, double input, Streams& streams);
  void go_on(std::size_t section, const Turn& turn, std::int64_t layers, const Streams& added,
             Streams& streams);
  double pass(std::size_t section, const Turn& turn, double input, Streams& streams);
  double run_section(const SectionPart& part, const Turn& turn, double input, Streams& streams);
  void occupy(std::uint16_t stream, double start, double end, Streams& streams);
  void wait(double time, Streams& streams) const;
  void update_alike(std::size_t section, Streams& streams);

  const Sections& sections_;
  RunCounts counts_;
  Passages& passages_;
  bool with_host_;
  Beside beside_;
  std::vector<double> ready_;                 // by slot, of the section that runs
  std::vector<double> gathered_;              // when what it gathers for the next one is
  double gradients_ = 0;                      // when those of the last section run are
  std::vector<std::vector<double>> reduced_;  // the same, by run and layer
};

// Seconds by kind of a stage's tasks, as if one after the other: in every micro-batch, and what the
// first or the last has beside.
struct Serialized {
  std::array<double, kKinds> each{};
  std::array<double, kKinds> once{};
};
Serialized serialized(const Sections& sections, const RunCounts& counts);

}  // namespace tandem::predict
