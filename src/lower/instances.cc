#include "lower/instances.h"

namespace tandem::lower {

namespace {

std::int64_t rank_of(const machine::Layout& layout, const Program& program) {
  std::int64_t rank = 0;
  for (std::size_t i = 0; i < program.digits.count(); ++i) {
    if ((program.schedule.digits >> i & 1U) == 0) continue;
    rank = rank * program.digits[i].size + layout[i].place();
  }
  return rank;
}

}  // namespace

Instances::Instances(const Program& program)
    : program_(program),
      count_(static_cast<std::size_t>(program.digits.group_size(program.schedule.digits))) {
  for (const auto& buffer : program.buffers) {
    rank_.push_back(lower::rank_of(buffer.layout, program));
    auto& count = count_[static_cast<std::size_t>(rank_.back())];
    first_.push_back(count);
    count += buffer.each ? static_cast<std::size_t>(program.digits.micro_batches()) : 1;
  }
}

}  // namespace tandem::lower
