#include "estimate/footprint.h"

#include <algorithm>
#include <numeric>

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

// What there is at the fullest moment of two.
void keep_most(Parts& most, const Parts& now) {
  if (total(now) > total(most)) most = now;
}

// A task, by its place in a part of a section.
struct Moment {
  std::size_t part = 0;  // 0 forward, 1 backward, 2 what comes later
  std::size_t section = 0;
  std::size_t task = 0;
  bool last = false;  // in the last micro-batch only
};

// By task of a part of a section: what begins with it, and what ends after it.
struct Changes {
  struct Task {
    Parts begins{}, ends{};
    Parts last_begins{}, last_ends{};  // in the last micro-batch beside
  };
  std::vector<Task> tasks;

  [[nodiscard]] Change sum(bool last) const {
    Change out;
    for (const auto& task : tasks) {
      add(out.net, task.begins);
      if (last) add(out.net, task.last_begins);
      keep_most(out.most, out.net);
      add(out.net, task.ends, -1);
      if (last) add(out.net, task.last_ends, -1);
    }
    return out;
  }
};

class Walk {
 public:
  Walk(const Program& program, const std::vector<Section>& section_of_node,
       const std::vector<Section>& section_of_task)
      : program_(program),
        section_of_node_(section_of_node),
        first_(program.buffers.size()),
        last_(program.buffers.size()) {
    out_.several = program.digits.time() != 0;
    for (std::size_t t = 0; t < program.tasks.size(); ++t) {
      note(program.tasks[t], static_cast<std::size_t>(section_of_task[t]));
    }
    for (std::size_t b = 0; b < program.buffers.size(); ++b) count(BufferId(b));
  }

  Footprint run() {
    for (std::size_t s = 0; s < kSections; ++s) {
      out_.sections[s].forward = changes_[0][s].sum(false);
      out_.sections[s].backward = changes_[1][s].sum(false);
      out_.sections[s].last = changes_[1][s].sum(true);
    }
    return out_;
  }

 private:
  [[nodiscard]] std::size_t section_of(graph::NodeId node) const {
    return static_cast<std::size_t>(section_of_node_[node.index()]);
  }

  void note(const Task& task, std::size_t section) {
    Moment now{task.backward ? std::size_t{1} : 0, section, 0, task.when == lower::When::kLast};
    if (task.kind == TaskKind::kUpdate) {
      now.part = 2;
    } else {
      auto& tasks = changes_[now.part][now.section].tasks;
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
    std::ranges::for_each(task.reads, use);
    std::ranges::for_each(task.writes, use);
    use(task.mask);
  }

  void count(BufferId id) {
    const auto& buffer = program_.buffer(id);
    if (!first_[id.index()] || !holds(buffer.layout, program_.digits, 0)) return;
    const auto kind = static_cast<std::size_t>(buffer.kind);
    const auto bytes = (buffer.bytes() - (buffer.is_persistent() ? Bytes{} : buffer.shared)).value;
    auto& held = out_.sections[section_of(buffer.node)];
    if (buffer.is_persistent() || buffer.reserved) {
      (buffer.is_persistent() ? held.persistent : held.step)[kind] += bytes;
      return;
    }
    const auto& first = *first_[id.index()];
    const auto& last = *last_[id.index()];
    const bool for_step = !buffer.each && (out_.several || buffer.kind == BufferKind::kInput);
    if (for_step && !(first.last && first.part == 1)) {
      held.step[kind] += bytes;
    } else if (first.part < 2) {
      begin_at(first)[kind] += bytes;
    }
    if (last.part < 2 && (!for_step || last.last)) end_at(last)[kind] += bytes;
    note_boundary(first, last, buffer.layout, bytes);
  }

  // What the middle layer and the last one hand each other.
  void note_boundary(const Moment& first, const Moment& last, const machine::Layout& layout,
                     double bytes) {
    constexpr auto kMiddle = static_cast<std::size_t>(Section::kMiddle);
    if (first.part == 0 && first.section == kMiddle && last.section > kMiddle) {
      out_.boundary += bytes;
      out_.boundary_copied =
          (layout.digits(machine::DigitRole::kReplica) & program_.digits.space()) != 0;
    }
    if (first.part == 1 && first.section > kMiddle && last.part == 1 && last.section == kMiddle) {
      out_.boundary_gradient += bytes;
    }
  }

  Parts& begin_at(const Moment& m) {
    auto& task = changes_[m.part][m.section].tasks[m.task];
    return m.last ? task.last_begins : task.begins;
  }
  Parts& end_at(const Moment& m) {
    auto& task = changes_[m.part][m.section].tasks[m.task];
    return m.last ? task.last_ends : task.ends;
  }

  static constexpr auto kGradient = static_cast<std::size_t>(BufferKind::kGradient);

  const Program& program_;
  const std::vector<Section>& section_of_node_;
  std::vector<std::optional<Moment>> first_, last_;        // by buffer
  std::array<std::array<Changes, kSections>, 2> changes_;  // forward, backward
  Footprint out_;
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

Held Footprint::of_stage(const SectionCounts& counts, bool receives, bool sends) const {
  constexpr auto kActivation = static_cast<std::size_t>(BufferKind::kActivation);
  constexpr auto kGradient = static_cast<std::size_t>(BufferKind::kGradient);
  Held out;
  if (receives) out.forward.net[kActivation] = boundary;
  if (sends) out.backward.net[kGradient] = out.last.net[kGradient] = boundary_gradient;
  out.forward.most = out.forward.net;
  out.backward.most = out.backward.net;
  out.last.most = out.last.net;
  for (std::size_t s = 0; s < kSections; ++s) {
    add(out.persistent, sections[s].persistent, static_cast<double>(counts[s]));
    add(out.step, sections[s].step, static_cast<double>(counts[s]));
    add_alike(out.forward, sections[s].forward, counts[s]);
    const auto back = kSections - 1 - s;
    add_alike(out.backward, sections[back].backward, counts[back]);
    add_alike(out.last, sections[back].last, counts[back]);
  }
  if (sends) out.forward.net[kActivation] -= boundary;
  if (receives) out.last.net[kGradient] -= boundary_gradient;
  // What a micro-batch leaves is used up or sent.
  out.backward.net[kGradient] = several ? 0 : out.last.net[kGradient];
  return out;
}

Footprint footprint_of(const Program& program, const std::vector<Section>& section_of_node,
                       const std::vector<Section>& section_of_task) {
  return Walk(program, section_of_node, section_of_task).run();
}

sim::Memory peak_over(std::span<const lower::Turn> turns, std::int64_t micro_batches,
                      std::span<const Held> stages) {
  sim::Memory out;
  Parts live{};
  // By stage: forward, backward, and the last micro-batch's.
  struct Size {
    double net = 0, most = 0, kept = 0;
    Size() = default;
    explicit Size(const Change& c)
        : net(total(c.net)),
          most(total(c.most)),
          kept(c.net[static_cast<std::size_t>(BufferKind::kActivation)]) {}
  };
  std::vector<std::array<Size, 3>> sizes(stages.size());
  for (const auto& turn : turns) {  // every stage is updated once
    if (turn.part != lower::Part::kUpdate) continue;
    const auto& held = stages[turn.stage];
    sizes[turn.stage] = {Size(held.forward), Size(held.backward), Size(held.last)};
    add(live, held.persistent);
    add(live, held.step);
    out.persistent += Bytes{total(held.persistent)};
  }
  const auto stays = total(live);
  const auto which = [&](const lower::Turn& turn) -> std::size_t {
    if (turn.part == lower::Part::kForward) return 0;
    return turn.micro_batch + 1 == micro_batches ? 2 : 1;
  };
  // The fullest turn, then what there is in it.
  double now = 0;
  double kept = 0;
  double fullest = 0;
  auto when = turns.size();
  for (std::size_t t = 0; t < turns.size(); ++t) {
    if (turns[t].part == lower::Part::kUpdate) continue;
    const auto& size = sizes[turns[t].stage][which(turns[t])];
    if (now + size.most > fullest) {
      fullest = now + size.most;
      when = t;
    }
    now += size.net;
    kept += size.kept;
    out.kept = std::max(out.kept, Bytes{kept});
  }
  if (when < turns.size()) {
    const auto change = [&](const lower::Turn& turn) -> const Change& {
      const auto& held = stages[turn.stage];
      return which(turn) == 0 ? held.forward : which(turn) == 1 ? held.backward : held.last;
    };
    for (std::size_t t = 0; t < when; ++t) {
      if (turns[t].part != lower::Part::kUpdate) add(live, change(turns[t]).net);
    }
    add(live, change(turns[when]).most);
  }
  for (std::size_t k = 0; k < live.size(); ++k) out.parts[k] = Bytes{live[k]};
  out.peak = Bytes{total(live)};
  out.passing = out.peak - Bytes{stays};
  return out;
}

}  // namespace tandem::estimate
