#include "lower/instances.h"

namespace tandem::lower {

Instances::Instances(const Program& program, std::int64_t micro_batches)
    : program_(program),
      micro_batches_(micro_batches),
      count_(static_cast<std::size_t>(program.digits.group_size(program.schedule.digits))) {
  for (std::size_t b = 0; b < program.buffers.size(); ++b) {
    const auto& buffer = program.buffers[b];
    rank_.push_back(compute_place_rank(buffer.layout, program.schedule.digits, program.digits));
    auto& count = count_[static_cast<std::size_t>(rank_.back())];
    first_.push_back(count);
    count += static_cast<std::size_t>(buffer.each ? micro_batches : program.versions(BufferId(b)));
  }
}

}  // namespace tandem::lower
