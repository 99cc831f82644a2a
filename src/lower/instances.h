// A number for every buffer that the devices of one rank of the pipeline have: one for each
// micro-batch where a buffer is there for `each`, one for each version where it has several.
#pragma once

#include "lower/program.h"

namespace tandem::lower {

class Instances {
 public:
  explicit Instances(const Program& program) : Instances(program, program.digits.micro_batches()) {}
  // With so many micro-batches, of those that the program has.
  Instances(const Program& program, std::int64_t micro_batches);

  [[nodiscard]] std::int64_t micro_batches() const { return micro_batches_; }
  [[nodiscard]] std::int64_t ranks() const { return static_cast<std::int64_t>(count_.size()); }
  [[nodiscard]] std::size_t count(std::int64_t rank) const {
    return count_[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] std::size_t of(BufferId id, std::int64_t micro_batch, std::int64_t step = 0) const {
    const auto which = program_.buffer(id).each ? micro_batch : step % program_.versions(id);
    return first_[id.index()] + static_cast<std::size_t>(which);
  }
  [[nodiscard]] std::int64_t rank_of(BufferId id) const { return rank_[id.index()]; }

 private:
  const Program& program_;
  std::int64_t micro_batches_;
  std::vector<std::size_t> count_;  // by rank
  std::vector<std::size_t> first_;  // by buffer
  std::vector<std::int64_t> rank_;  // by buffer
};

}  // namespace tandem::lower
