#include "verify/candidate_types.h"

namespace tandem::verify {

const std::vector<CandidateTypes::CandidateType>& CandidateTypes::get_types(std::size_t rank,
                                                                            int deviations,
                                                                            bool index,
                                                                            const Said& said) {
  auto& all = cache_[said];
  if (all.empty()) all.resize(64);
  auto& made = all[rank * 10 + static_cast<std::size_t>(deviations) * 2 + (index ? 1 : 0)];
  if (made.empty()) {
    ParallelShape plain;
    for (std::size_t d = 0; d < rank; ++d) {
      plain.sizes.push_back(said.sizes[d] != 0 ? said.sizes[d] : size_);
      plain.degrees.push_back(1);
    }
    said_ = &said;
    extend(made, plain, 0, deviations, index ? DType::kInt64 : DType::kFp32);
  }
  return made;
}

void CandidateTypes::extend(std::vector<CandidateType>& out, const ParallelShape& shape,
                            std::size_t coordinate, int left, DType dtype) {
  if (left == 0) {
    const TensorType type{shape, dtype};
    out.push_back({type, TypeTable::get_thread_local().intern(type)});
  }
  if (left == 0 || coordinate >= shape.rank() + (counts_.empty() ? 0 : 2)) return;
  extend(out, shape, coordinate + 1, left, dtype);
  const auto with = [&](auto&& change) {
    auto changed = shape;
    change(changed);
    extend(out, changed, coordinate + 1, left - 1, dtype);
  };
  for (auto n : counts_) {
    if (coordinate == shape.rank()) {
      with([&](auto& s) { s.replicas = n; });
    } else if (coordinate > shape.rank()) {
      with([&](auto& s) { s.partial = n; });
      with([&](auto& s) { s.partial = n, s.monoid = Monoid::kMax; });
    } else if (shape.sizes[coordinate] % n == 0) {
      with([&](auto& s) { s.degrees[coordinate] = n; });
    }
  }
  if (coordinate >= shape.rank()) return;
  if (said_->sizes[coordinate] != 0) return;
  for (auto other : others_) with([&](auto& s) { s.sizes[coordinate] = other; });
}

}  // namespace tandem::verify
