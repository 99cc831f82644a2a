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

// Operators for which ATen has one GPU kernel, or several that sum in fp32.
constexpr auto kTakeHalfOnGpus = std::to_array<std::string_view>(
    {"batch_norm", "gelu", "gelu_tanh", "layer_norm", "max_pool2d", "mul", "reduce_sum", "rms_norm",
     "rope", "scale", "sigmoid", "silu", "softmax", "sub", "tanh"});

constexpr auto kMatmulKernels =
    std::to_array<std::string_view>({"attention", "contract", "conv2d", "linear", "matmul"});

// Returns whether bf16 matmuls are faster than fp32 on `device`. ATen uses oneDNN for them on CPUs,
// which is slower than fp32 without instructions for bf16.
bool has_fast_half_matmuls(at::Device device) {
  if (!device.is_cpu()) return true;
#if defined(__x86_64__)
  static const bool has = at::hasMKLDNN() && __builtin_cpu_supports("avx512bf16") > 0;
  return has;
#else
  return false;
#endif
}

bool is_in(std::span<const std::string_view> names, const Kernel& kernel) {
  return std::ranges::find(names, kernel.name) != names.end();
}

}  // namespace

bool takes_half(const Kernel& kernel) { return is_in(kTakeHalf, kernel); }

bool takes_half_for_half_results(const Kernel& kernel, at::Device device) {
  return takes_half(kernel) || (device.is_cuda() && is_in(kTakeHalfOnGpus, kernel));
}

bool multiplies_half(const Kernel& kernel, at::Device device) {
  return is_in(kMatmulKernels, kernel) && has_fast_half_matmuls(device);
}

at::Tensor widen(const at::Tensor& t) {
  return t.defined() && t.scalar_type() == at::kBFloat16 ? t.to(at::kFloat) : t;
}

std::vector<at::Tensor> widen(std::vector<at::Tensor> tensors) {
  for (auto& t : tensors) t = widen(t);
  return tensors;
}

at::Tensor convert_to_type(const at::Tensor& t, at::ScalarType type) {
  if (!t.defined() || t.scalar_type() == type) return t;
  if (!t.is_sparse()) return t.to(type);
  return at::_sparse_coo_tensor_unsafe(t._indices(), t._values().to(type), t.sizes(),
                                       t.options().dtype(type));
}

}  // namespace tandem::runtime
