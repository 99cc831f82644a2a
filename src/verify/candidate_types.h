// The types that a tensor may have, by the number of sizes, degrees and counts that deviate from
// the plain ones.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "rewrite/type_table.h"
#include "verify/type_hints.h"

namespace tandem::verify {

class CandidateTypes {
 public:
  // Plain sizes are `size` and others one of `others`. Plain degrees, replicas and partial
  // sums are 1, and others one of `counts`.
  CandidateTypes(std::int64_t size, std::vector<std::int64_t> others,
                 std::vector<std::int64_t> counts)
      : size_(size), others_(std::move(others)), counts_(std::move(counts)) {}

  struct CandidateType {
    TensorType type;
    TypeTable::TypeId id = 0;
  };

  // Returns the types of the given rank with exactly that many deviations. Sizes that `said` fixes
  // do not deviate.
  //   size 2, others {3}, no counts; rank 2: none [2, 2]; one [2, 3] and [3, 2]; two [3, 3]
  const std::vector<CandidateType>& get_types(std::size_t rank, int deviations, bool index,
                                              const Said& said);

 private:
  // Appends all types that `shape` extends to from `coordinate` on. Coordinates are the
  // dimensions, then replicas, then partial sums.
  void extend(std::vector<CandidateType>& out, const ParallelShape& shape, std::size_t coordinate,
              int left, DType dtype);

  std::int64_t size_;
  std::vector<std::int64_t> others_;
  std::vector<std::int64_t> counts_;
  const Said* said_ = nullptr;
  std::map<Said, std::vector<std::vector<CandidateType>>> cache_;
};

}  // namespace tandem::verify
