#include "verify/kernel_cache.h"

#include <algorithm>

namespace tandem::verify {

namespace {

constexpr unsigned kOften = 3;  // evaluations that cost as much as compiling a kernel
constexpr std::int64_t kMostPoints = 1U << 13U;  // limit for one kernel
constexpr std::size_t kMostKnown = 1U << 17U;    // limit on cached signatures

bool has_kernel(const ops::Signature& signature) {
  std::int64_t points = 1;
  for (const auto& factor : signature.map.factors) {
    if (factor.size == 0) return false;
    points *= factor.size;
    if (points > kMostPoints) return false;
  }
  return std::ranges::none_of(signature.meaning.nodes, [](const term::BoundNode& node) {
    return node.kind == term::Kind::kKeep;
  });
}

}  // namespace

KnownKernels& KnownKernels::get_thread_cache() {
  static thread_local KnownKernels known;
  return known;
}

KnownKernels::CachedKernel& KnownKernels::find_or_compile(const ops::Signature& signature) {
  if (bytes_ > most_ || known_.size() > kMostKnown) {
    known_.clear();
    bytes_ = 0;
  }
  auto& known = known_[&signature];
  if (known.kernel != nullptr || known.has_none || ++known.asked < kOften) return known;
  known.has_none = !has_kernel(signature);
  if (known.has_none) return known;
  known.kernel = std::make_unique<const generate::FieldKernel>(signature);
  bytes_ += known.kernel->bytes();
  return known;
}

}  // namespace tandem::verify
