#include "predict/equivalent_classes.h"

#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "machine/reshard.h"

namespace tandem::predict {

namespace {

using lower::TaskKind;
using machine::DigitMask;

// Ranks that the other members of a group wait for, in any micro-batch. The key is the digits over
// which the group communicates.
using Meetings = std::map<DigitMask, std::set<std::int64_t>>;

Meetings find_meetings(const lower::Program& program) {
  Meetings out;
  for (const auto& task : program.tasks) {
    const auto kind = task.step.kind;
    const bool has_other = task.kind == TaskKind::kSend || task.kind == TaskKind::kReceive;
    const bool is_move = task.kind == TaskKind::kMove && !is_local(kind);
    if (!has_other && !is_move) continue;
    const auto mask = task.step.digits & program.digits.space();
    auto& roots = out[mask];
    if (!has_other && kind != machine::Step::kScatter && kind != machine::Step::kGather) continue;
    roots.insert(machine::find_root_rank(task.step, program.digits) %
                 program.digits.group_size(mask));
  }
  return out;
}

// Returns a hash of what `device` does by itself.
Hash hash_own_work(const lower::Program& program, const machine::Machine& machine,
                   const Holders& holders, const Meetings& meetings, std::int64_t device) {
  const auto& digits = program.digits;
  const auto rank = digits.rank_in_group(device, program.schedule.digits);
  auto out = hash_combine(static_cast<Hash>(rank), machine.find_group(device));
  for (const bool has : holders.find_held_kinds(device)) out = hash_combine(out, has ? 1 : 0);
  for (const auto& [mask, roots] : meetings) {
    const auto in_group = digits.rank_in_group(device, mask);
    if (roots.contains(in_group)) out = hash_combine(out, static_cast<Hash>(in_group) + mask);
  }
  return out;
}

// Returns an index for each color, counted in the order of first occurrence, and the number of
// different colors. [7, 9, 7] -> {[0, 1, 0], 2}
std::pair<std::vector<std::uint32_t>, std::size_t> number_colours(
    const std::vector<Hash>& colours) {
  std::unordered_map<Hash, std::uint32_t> numbers;
  std::vector<std::uint32_t> out;
  out.reserve(colours.size());
  for (auto colour : colours) {
    const auto next = static_cast<std::uint32_t>(numbers.size());
    out.push_back(numbers.emplace(colour, next).first->second);
  }
  return {std::move(out), numbers.size()};
}

// Returns the colors after one refinement: each is combined with the colors of the group members
// that it communicates with, in any order.
std::vector<Hash> refine_colours(const std::vector<Hash>& colours, const Meetings& meetings,
                                 ClassGroups& groups) {
  auto out = colours;
  for (const auto& [mask, roots] : meetings) {
    for (std::size_t c = 0; c < colours.size(); ++c) {
      const auto& group = groups.get_group(c, mask);
      if (group[0] != c) continue;
      Hash sum = 0;
      for (auto other : group) sum += mix(colours[other]);
      for (auto other : group) out[other] = hash_combine(out[other], sum);
    }
  }
  return out;
}

}  // namespace

std::vector<std::uint32_t> find_equivalent_classes(const lower::Program& program,
                                                   const machine::Machine& machine,
                                                   const Holders& holders, ClassGroups& groups) {
  const auto meetings = find_meetings(program);
  std::vector<Hash> colours;
  for (std::size_t c = 0; c < groups.count(); ++c) {
    colours.push_back(hash_own_work(program, machine, holders, meetings, groups.device(c)));
  }
  auto [out, count] = number_colours(colours);
  while (true) {
    colours = refine_colours(colours, meetings, groups);
    auto [next, more] = number_colours(colours);
    if (more == count) return out;
    std::tie(out, count) = std::pair(std::move(next), more);
  }
}

}  // namespace tandem::predict
