#include "sim/memory.h"

#include <algorithm>

namespace tandem::sim {

namespace {
constexpr std::size_t kNever = static_cast<std::size_t>(-1);

struct Life {
  std::size_t first = kNever;
  std::size_t last = 0;
};

// When every buffer is first and last touched, in list order.
std::vector<Life> lives_of(const lower::Program& program) {
  std::vector<Life> lives(program.buffers.size());
  const auto touch = [&](lower::BufferId b, std::size_t t) {
    if (b == lower::Program::kNone) return;
    auto& life = lives[b.index()];
    if (life.first == kNever) life.first = t;
    life.last = t;
  };
  for (std::size_t t = 0; t < program.tasks.size(); ++t) {
    for (auto b : program.tasks[t].reads) touch(b, t);
    for (auto b : program.tasks[t].writes) touch(b, t);
  }
  return lives;
}
}  // namespace

Memory memory_of(const lower::Program& program) {
  const auto lives = lives_of(program);
  std::vector<double> change(program.tasks.size() + 1);
  Memory out;
  for (std::size_t b = 0; b < program.buffers.size(); ++b) {
    const auto& buffer = program.buffers[b];
    const double bytes = buffer.bytes().value;
    if (buffer.is_persistent()) {
      out.persistent += Bytes{bytes};
      continue;
    }
    if (lives[b].first == kNever) continue;
    // Inputs are there from the start.
    change[buffer.kind == lower::BufferKind::kInput ? 0 : lives[b].first] += bytes;
    change[lives[b].last + 1] -= bytes;
  }
  double now = 0;
  double peak = 0;
  for (double c : change) {
    now += c;
    peak = std::max(peak, now);
  }
  out.peak = out.persistent + Bytes{peak};
  return out;
}

}  // namespace tandem::sim
