#include "estimate/footprint.h"

#include <algorithm>
#include <numeric>
#include <optional>

namespace tandem::estimate {

namespace {

using lower::BufferId;
using lower::BufferKind;
using lower::Program;
using lower::Task;
using lower::TaskKind;

void add(Parts& to, const Parts& what, double times = 1) {
  for (std::size_t k = 0; k < to.size(); ++k) to[k] += times * what[k];
}

double total(const Parts& parts) { return std::accumulate(parts.begin(), parts.end(), 0.0); }

// A task, by its place in a part of a section.
struct Moment {
  std::size_t part = 0;  // 0 forward, 1 backward, 2 what comes later
  Place place;
  std::size_t task = 0;
  bool last = false;      // in the last micro-batch only
  bool left_out = false;  // of other pieces of a section of which a run is looked at
  bool first = false;     // in the first micro-batch only
  [[nodiscard]] std::size_t section() const { return static_cast<std::size_t>(place.section); }
};

int number(const Place& place) {
  constexpr int kMostPieces = 256;
  return static_cast<int>(place.section) * kMostPieces + place.piece;
}

enum class Which : std::uint8_t { kFirst, kAny, kLast };  // micro-batch

// By task of a part of a section: what begins with it, and what ends after it.
struct Changes {
  struct Task {
    Parts begins{}, ends{};
    Parts first_begins{};              // in the first micro-batch beside
    Parts last_begins{}, last_ends{};  // and in the last one
  };
  std::vector<Task> tasks;

  [[nodiscard]] Change sum(Which which) const {
    Change out;
    for (const auto& task : tasks) {
      add(out.net, task.begins);
      if (which == Which::kFirst) add(out.net, task.first_begins);
      if (which == Which::kLast) add(out.net, task.last_begins);
      keep_most(out.most, out.net);
      add(out.net, task.ends, -1);
      if (which == Which::kLast) add(out.net, task.last_ends, -1);
    }
    return out;
  }
};

// Through all tasks; or, where only a run of pieces is looked at, without the rest of its section.
class Walk {
 public:
  Walk(const Program& program, const std::vector<Place>& place_of_node,
       const std::vector<Place>& place_of_task, const Run* run)
      : program_(program),
        place_of_node_(place_of_node),
        run_(run),
        first_(program.buffers.size()),
        last_(program.buffers.size()),
        several_(program.digits.time() != 0) {
    std::vector<bool> of_run;
    if (run != nullptr) of_run = tasks_of(*run, program, place_of_task);
    made_elsewhere_.resize(program.buffers.size());
    for (std::size_t t = 0; t < program.tasks.size(); ++t) {
      const bool left_out =
          run != nullptr && place_of_task[t].section == run->section && !of_run[t];
      if (left_out) {
        pass_over(program.tasks[t], place_of_task[t]);
      } else {
        note(program.tasks[t], place_of_task[t]);
      }
    }
    if (run != nullptr) keep_what_was_received();
    for (std::size_t b = 0; b < program.buffers.size(); ++b) count(BufferId(b));
  }

  [[nodiscard]] Held held(Section section) const {
    const auto s = static_cast<std::size_t>(section);
    auto out = held_[s];
    out.forward = changes_[0][s].sum(Which::kAny);
    out.last_forward = changes_[0][s].sum(Which::kLast);
    out.first = changes_[1][s].sum(Which::kFirst);
    out.backward = changes_[1][s].sum(Which::kAny);
    out.last = changes_[1][s].sum(Which::kLast);
    return out;
  }

  // Behind a piece, of all tasks: `next` is the one that follows.
  [[nodiscard]] Boundary behind(const Place& piece, const Place& next) const {
    Boundary out;
    const auto at = number(piece);
    for (std::size_t b = 0; b < program_.buffers.size(); ++b) {
      if (!first_[b]) continue;
      const auto& first = *first_[b];
      const auto& last = *last_[b];
      const bool goes_on = first.part == 0 && number(first.place) == at && number(last.place) > at;
      const bool comes_back = first.part == 1 && number(first.place) == number(next) &&
                              last.part == 1 && number(last.place) == at;
      if (!goes_on && !comes_back) continue;
      const auto& buffer = program_.buffers[b];
      if (buffer.is_persistent() || buffer.reserved || !is_held(buffer)) continue;
      (goes_on ? out.activation : out.gradient) += bytes_of(buffer);
      (goes_on ? out.copied : out.gradient_copied) =
          (buffer.layout.digits(machine::DigitRole::kReplica) & program_.digits.space()) != 0;
    }
    return out;
  }

 private:
  [[nodiscard]] bool is_held(const lower::Buffer& buffer) const {
    return holds(buffer.layout, program_.digits, 0);
  }

  void note(const Task& task, const Place& place) {
    Moment now{.part = task.backward ? std::size_t{1} : 0,
               .place = place,
               .last = task.when == lower::When::kLast,
               .first = task.when == lower::When::kFirst};
    if (task.kind == TaskKind::kUpdate) {
      now.part = 2;
    } else {
      auto& tasks = changes_[now.part][now.section()].tasks;
      now.task = tasks.size();
      const auto row = bucket_bytes(program_, task).value;
      tasks.emplace_back();
      begin_at(now)[kGradient] += row;
      end_at(now)[kGradient] += row;
    }
    const auto use = [&](BufferId b) {
      if (b == Program::kNone) return;
      auto& first = first_[b.index()];
      if (!first) first = now;
      last_[b.index()] = now;
    };
    for_each_use(task, use);
  }

  // What another stage does.
  void pass_over(const Task& task, const Place& place) {
    for (auto b : task.writes) made_elsewhere_[b.index()] = true;
    if (task.remade) return;
    const Moment now{.part = task.backward ? std::size_t{1} : 0, .place = place, .left_out = true};
    for_each_use(task, [&](BufferId b) {
      if (b != Program::kNone) last_[b.index()] = now;
    });
  }

  template <class Use>
  static void for_each_use(const Task& task, Use&& use) {
    std::ranges::for_each(task.reads, use);
    std::ranges::for_each(task.writes, use);
    use(task.kept);
  }

  // What would be made again by other pieces was received, and is kept.
  void keep_what_was_received() {
    for (std::size_t again = 0; again < first_.size(); ++again) {
      if (!made_elsewhere_[again] || !first_[again] || first_[again]->part != 1) continue;
      const auto& made_again = program_.buffers[again];
      if (made_again.kind != BufferKind::kActivation) continue;
      for (std::size_t b = 0; b < again; ++b) {
        const bool is_received = made_elsewhere_[b] && first_[b] && first_[b]->part == 0;
        if (!is_received || program_.buffers[b].node != made_again.node) continue;
        last_[b] = last_[again];
        first_[again].reset();
        break;
      }
    }
  }

  [[nodiscard]] double bytes_of(const lower::Buffer& buffer) const {
    return (buffer.bytes() - (buffer.is_persistent() ? Bytes{} : buffer.shared)).value;
  }

  [[nodiscard]] bool is_of_run(const Place& place) const {
    return run_ == nullptr || place.section != run_->section ||
           (place.piece >= run_->from && place.piece < run_->to);
  }

  void count(BufferId id) {
    const auto& buffer = program_.buffer(id);
    if (!first_[id.index()] || !is_held(buffer)) return;
    const auto kind = static_cast<std::size_t>(buffer.kind);
    const auto bytes = bytes_of(buffer);
    // What is stored or fed is where its node is, the rest where it is made: of a weight that is
    // used twice each use gathers its own, and makes a gradient.
    const auto& place = place_of_node_[buffer.node.index()];
    auto& held = held_[static_cast<std::size_t>(place.section)];
    if (buffer.is_persistent()) {
      if (is_of_run(place)) held.persistent[kind] += bytes;
      return;
    }
    const auto& first = *first_[id.index()];
    const auto& last = *last_[id.index()];
    if (buffer.reserved) {
      held_[first.section()].step[kind] += bytes;
      return;
    }
    const bool for_step = !buffer.each && (several_ || buffer.kind == BufferKind::kInput);
    // On the way to what is there for the step: gone when anything is that a micro-batch keeps.
    if (several_ && for_step && first.part == 0 && last.first) return;
    if (for_step && !(first.last && first.part == 1)) {
      if (buffer.kind == BufferKind::kInput) {  // there from the start
        if (is_of_run(place)) held.step[kind] += bytes;
      } else if (first.part == 0) {
        held_[first.section()].from_then[kind] += bytes;
      } else if (first.part == 1) {
        changes_[1][first.section()].tasks[first.task].first_begins[kind] += bytes;
      }
    } else if (first.part < 2 && !made_elsewhere_[id.index()]) {
      begin_at(first)[kind] += bytes;
    }
    if (last.part == 2 || last.left_out) return;
    if (for_step && buffer.kind != BufferKind::kInput) {
      task_of(last).last_ends[kind] += bytes;
    } else if (!for_step) {
      end_at(last)[kind] += bytes;
    }
  }

  Changes::Task& task_of(const Moment& m) { return changes_[m.part][m.section()].tasks[m.task]; }
  Parts& begin_at(const Moment& m) { return m.last ? task_of(m).last_begins : task_of(m).begins; }
  Parts& end_at(const Moment& m) { return m.last ? task_of(m).last_ends : task_of(m).ends; }

  static constexpr auto kGradient = static_cast<std::size_t>(BufferKind::kGradient);

  const Program& program_;
  const std::vector<Place>& place_of_node_;
  const Run* run_;
  std::vector<std::optional<Moment>> first_, last_;        // by buffer
  std::vector<bool> made_elsewhere_;                       // by buffer: by what is left out
  std::array<std::array<Changes, kSections>, 2> changes_;  // forward, backward
  std::array<Held, kSections> held_;
  bool several_;
};

// `counts` sections alike, one after the other. The fullest is the first or the last.
void add_alike(Change& to, const Change& one, std::int64_t count) {
  if (count == 0) return;
  for (const auto i : {std::int64_t{0}, count - 1}) {
    auto now = to.net;
    add(now, one.net, static_cast<double>(i));
    add(now, one.most);
    keep_most(to.most, now);
  }
  add(to.net, one.net, static_cast<double>(count));
}

}  // namespace

void keep_most(Parts& most, const Parts& now) {
  if (total(now) > total(most)) most = now;
}

Held Footprint::of_stage(const RunCounts& counts, const Boundary* before,
                         const Boundary* behind) const {
  constexpr auto kActivation = static_cast<std::size_t>(BufferKind::kActivation);
  constexpr auto kGradient = static_cast<std::size_t>(BufferKind::kGradient);
  Held out;
  if (before != nullptr) out.forward.net[kActivation] = before->activation;
  if (behind != nullptr) {
    for (auto* change : {&out.first, &out.backward, &out.last}) {
      change->net[kGradient] = behind->gradient;
    }
  }
  out.last_forward.net = out.forward.net;
  for (auto* change : {&out.forward, &out.last_forward, &out.first, &out.backward, &out.last}) {
    change->most = change->net;
  }
  for (std::size_t r = 0; r < runs.size(); ++r) {
    add(out.persistent, runs[r].persistent, static_cast<double>(counts[r]));
    add(out.step, runs[r].step, static_cast<double>(counts[r]));
    add(out.from_then, runs[r].from_then, static_cast<double>(counts[r]));
    add_alike(out.forward, runs[r].forward, counts[r]);
    add_alike(out.last_forward, runs[r].last_forward, counts[r]);
    const auto back = runs.size() - 1 - r;
    add_alike(out.first, runs[back].first, counts[back]);
    add_alike(out.backward, runs[back].backward, counts[back]);
    add_alike(out.last, runs[back].last, counts[back]);
  }
  if (behind != nullptr) {
    for (auto* change : {&out.forward, &out.last_forward}) {
      change->net[kActivation] -= behind->activation;
    }
  }
  if (before != nullptr) out.last.net[kGradient] -= before->gradient;
  // What a micro-batch leaves is used up or sent; the sums over all of them stay.
  if (!several) {
    out.backward.net[kGradient] = out.last.net[kGradient];
    return out;
  }
  out.first.net[kGradient] -= out.backward.net[kGradient];
  out.backward.net[kGradient] = 0;
  return out;
}

Footprint footprint_of(const Program& program, const std::vector<Place>& place_of_node,
                       const std::vector<Place>& place_of_task, const std::vector<Run>& runs) {
  Footprint out;
  out.several = program.digits.time() != 0;
  out.runs.resize(runs.size());
  const Walk all(program, place_of_node, place_of_task, nullptr);
  for (const auto& run : runs) {
    auto& boundaries = out.boundaries[static_cast<std::size_t>(run.section)];
    boundaries.resize(std::max<std::size_t>(boundaries.size(), run.to));
  }
  for (std::size_t r = 0; r < runs.size(); ++r) {
    const auto section = runs[r].section;
    const bool is_whole =
        runs[r].from == 0 && runs[r].to == out.boundaries[static_cast<std::size_t>(section)].size();
    out.runs[r] = is_whole ? all.held(section)
                           : Walk(program, place_of_node, place_of_task, &runs[r]).held(section);
  }
  // Nothing is behind the last one.
  for (std::size_t s = 0; s < kSections; ++s) {
    for (std::uint8_t p = 0; p < out.boundaries[s].size(); ++p) {
      const bool is_last = p + 1U == out.boundaries[s].size();
      if (is_last && s + 1 == kSections) break;
      const Place here{static_cast<Section>(s), p};
      const Place next = is_last ? Place{static_cast<Section>(s + 1), 0}
                                 : Place{here.section, static_cast<std::uint8_t>(p + 1)};
      out.boundaries[s][p] = all.behind(here, next);
    }
  }
  return out;
}

sim::Memory peak_over(std::span<const lower::Turn> turns, std::int64_t micro_batches,
                      const HeldByStage& stages) {
  sim::Memory out;
  Parts live{};
  // By class of stages and kind of turn: forward and backward, of any micro-batch, the first, the
  // last.
  constexpr std::size_t kFirstForward = 1;
  constexpr std::size_t kFirstBackward = 4;
  struct Size {
    double net = 0, most = 0, kept = 0;
    explicit Size(const Change& c, double before = 0)
        : net(total(c.net) + before),
          most(total(c.most) + before),
          kept(c.net[static_cast<std::size_t>(BufferKind::kActivation)]) {}
  };
  std::vector<std::array<Size, 6>> sizes;
  sizes.reserve(stages.classes.size());
  for (const auto& held : stages.classes) {
    const Size any(held.forward);
    const Size first(held.forward, total(held.from_then));
    const Size last(held.last);
    sizes.push_back({any, first, Size(held.last_forward), Size(held.backward),
                     micro_batches == 1 ? last : Size(held.first), last});
  }
  for (const auto& turn : turns) {  // every stage is updated once
    if (turn.part != lower::Part::kUpdate) continue;
    const auto& held = stages.of(turn.stage);
    add(live, held.persistent);
    add(live, held.step);
    out.persistent += Bytes{total(held.persistent)};
  }
  auto stays = total(live);
  const auto kind_of = [last = micro_batches - 1](const lower::Turn& turn) -> std::size_t {
    const std::size_t of_part = turn.part == lower::Part::kForward ? 0 : 3;
    const bool is_first = turn.micro_batch == 0;
    return of_part + (is_first ? 1U : 0U) + (turn.micro_batch == last && !is_first ? 2U : 0U);
  };
  // The fullest turn, then what there is in it.
  double now = 0;
  double kept = 0;
  double fullest = 0;
  double most_kept = 0;
  auto when = turns.size();
  for (std::size_t t = 0; t < turns.size(); ++t) {
    const auto& turn = turns[t];
    if (turn.part == lower::Part::kUpdate) continue;
    const auto& size = sizes[stages.class_of_stage[turn.stage]][kind_of(turn)];
    if (now + size.most > fullest) {
      fullest = now + size.most;
      when = t;
    }
    now += size.net;
    kept += size.kept;
    most_kept = std::max(most_kept, kept);
  }
  out.kept = Bytes{most_kept};
  for (std::size_t t = 0; t <= when && t < turns.size(); ++t) {
    const auto& turn = turns[t];
    if (turn.part == lower::Part::kUpdate) continue;
    const auto& held = stages.of(turn.stage);
    const auto kind = kind_of(turn);
    if (kind == kFirstForward) {
      add(live, held.from_then);
      stays += total(held.from_then);
    }
    const auto& first = micro_batches == 1 ? held.last : held.first;
    const auto& change = *std::array{&held.forward,  &held.forward, &held.last_forward,
                                     &held.backward, &first,        &held.last}[kind];
    constexpr std::size_t kLastForward = 2;
    if (kind == kLastForward && t < when) stays += total(change.net) - total(held.forward.net);
    // The sums over micro-batches have begun.
    if (kind == kFirstBackward && t < when) stays += total(change.net) - total(held.backward.net);
    add(live, t < when ? change.net : change.most);
  }
  for (std::size_t k = 0; k < live.size(); ++k) out.parts[k] = Bytes{live[k]};
  out.peak = Bytes{total(live)};
  out.passing = out.peak - Bytes{stays};
  return out;
}

}  // namespace tandem::estimate
