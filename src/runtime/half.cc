#include "runtime/half.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "runtime/aten.h"

namespace tandem::runtime {

namespace {

constexpr auto kTakeHalf = std::to_array<std::string_view>(
    {"add", "concat", "embedding", "embedding_bag", "embedding_bags", "identity", "neg", "relu",
     "reshape", "slice", "split", "transpose"});

}  // namespace

bool takes_half(const Kernel& kernel) {
  return std::ranges::find(kTakeHalf, kernel.name) != kTakeHalf.end();
}

at::Tensor widened(const at::Tensor& t) {
  return t.defined() && t.scalar_type() == at::kBFloat16 ? t.to(at::kFloat) : t;
}

std::vector<at::Tensor> widened(std::vector<at::Tensor> tensors) {
  for (auto& t : tensors) t = widened(t);
  return tensors;
}

at::Tensor rounded(const at::Tensor& t, at::ScalarType type) {
  if (!t.defined() || t.scalar_type() == type) return t;
  if (!t.is_sparse()) return t.to(type);
  return at::_sparse_coo_tensor_unsafe(t._indices(), t._values().to(type), t.sizes(),
                                       t.options().dtype(type));
}

}  // namespace tandem::runtime
