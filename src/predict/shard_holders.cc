#include "predict/shard_holders.h"

#include <optional>
#include <unordered_map>

namespace tandem::predict {

namespace {

struct HashOf {
  std::size_t operator()(const machine::Layout& layout) const { return layout.hash(); }
};

}  // namespace

Holders::Holders(const lower::Program& program) : program_(program) {
  std::unordered_map<machine::Layout, std::uint32_t, HashOf> numbers;
  kinds_.reserve(program.buffers.size());
  std::optional<std::uint32_t> of_all;  // kind that every device holds a shard of
  for (const auto& buffer : program.buffers) {
    auto layout = buffer.layout;
    const bool is_everywhere = layout.idle() == 0;
    if (is_everywhere && of_all) {
      kinds_.push_back(*of_all);
      continue;
    }
    for (std::size_t i = 0; i < layout.count(); ++i) {
      if (!layout[i].is_idle()) layout.set(i, machine::DigitRole::kReplica);
    }
    const auto number = static_cast<std::uint32_t>(layouts_.size());
    const auto [at, fresh] = numbers.emplace(layout, number);
    if (fresh) layouts_.push_back(layout);
    kinds_.push_back(at->second);
    if (is_everywhere) of_all = at->second;
  }
}

std::vector<bool> Holders::find_held_kinds(std::int64_t device) const {
  std::vector<bool> out;
  out.reserve(layouts_.size());
  for (const auto& layout : layouts_) out.push_back(holds_shard(layout, program_.digits, device));
  return out;
}

}  // namespace tandem::predict
