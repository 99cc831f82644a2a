#include "lower/instances.h"

namespace tandem::lower {

Instances::Instances(const Program& program)
    : program_(program),
      count_(static_cast<std::size_t>(program.digits.group_size(program.schedule.digits))) {
  for (const auto& buffer : program.buffers) {
    rank_.push_back(rank_of_place(buffer.layout, program.schedule.digits, program.digits));
    auto& count = count_[static_cast<std::size_t>(rank_.back())];
    first_.push_back(count);
    count += buffer.each ? static_cast<std::size_t>(program.digits.micro_batches()) : 1;
  }
}

}  // namespace tandem::lower
