#include "predict/touched_buffers.h"

#include <algorithm>
#include <map>

namespace tandem::predict {

Touched find_touched(const lower::Program& program, const Holders& holders) {
  Touched out;
  std::map<std::vector<std::size_t>, std::uint32_t> numbers;
  std::vector<std::size_t> kinds;
  for (const auto& task : program.tasks) {
    kinds.clear();
    for (const auto* buffers : {&task.reads, &task.writes}) {
      for (auto b : *buffers) {
        if (b != lower::Program::kNone) kinds.push_back(holders.kind(b));
      }
    }
    std::ranges::sort(kinds);
    kinds.erase(std::unique(kinds.begin(), kinds.end()), kinds.end());
    const auto [at, fresh] =
        numbers.try_emplace(kinds, static_cast<std::uint32_t>(out.lists.size()));
    if (fresh) out.lists.push_back(kinds);
    out.of_task.push_back(at->second);
  }
  return out;
}

std::vector<bool> find_held_lists(const Holders& holders, const Touched& touched,
                                  std::int64_t device) {
  const auto has = holders.find_held_kinds(device);
  std::vector<bool> out;
  out.reserve(touched.lists.size());
  for (const auto& kinds : touched.lists) {
    out.push_back(std::ranges::any_of(kinds, [&](std::size_t kind) { return has[kind]; }));
  }
  return out;
}

}  // namespace tandem::predict
