// Numbers for all buffer instances on the devices of one pipeline rank. A buffer with `each` has
// one instance for each micro-batch; other buffers have one for each version.
//
// Example: 4 micro-batches, an activation a (`each`) and a weight w with one version, on one rank.
// The instances of a are 0 to 3, and that of w is 4: get_index(a, 2) is 2, get_index(w, 2) is 4.
#pragma once

#include "lower/program.h"

namespace tandem::lower {

// The numbering of buffer instances, separately for each rank.
class Instances {
 public:
  explicit Instances(const Program& program) : Instances(program, program.digits.micro_batches()) {}
  // Numbers the instances of the first `micro_batches` of the program's micro-batches.
  Instances(const Program& program, std::int64_t micro_batches);

  [[nodiscard]] std::int64_t micro_batches() const { return micro_batches_; }
  [[nodiscard]] std::int64_t ranks() const { return static_cast<std::int64_t>(count_.size()); }
  // Returns the number of instances on `rank`.
  [[nodiscard]] std::size_t count(std::int64_t rank) const {
    return count_[static_cast<std::size_t>(rank)];
  }
  // Returns the number of the instance of `id` in this micro-batch and step.
  [[nodiscard]] std::size_t get_index(BufferId id, std::int64_t micro_batch,
                                      std::int64_t step = 0) const {
    const auto which = program_.buffer(id).each ? micro_batch : step % program_.versions(id);
    return first_[id.index()] + static_cast<std::size_t>(which);
  }
  // Returns the pipeline rank that has the buffer `id`.
  [[nodiscard]] std::int64_t get_rank(BufferId id) const { return rank_[id.index()]; }

 private:
  const Program& program_;
  std::int64_t micro_batches_;
  std::vector<std::size_t> count_;  // by rank
  std::vector<std::size_t> first_;  // by buffer
  std::vector<std::int64_t> rank_;  // by buffer
};

}  // namespace tandem::lower
