#include "verify/kernel_cache.h"

#include <gtest/gtest.h>

#include "ops/registry.h"
#include "ops/signature.h"

namespace tandem::verify {
namespace {

const ops::Signature& make_signature(const ops::Op& op, const std::vector<Shape>& shapes) {
  return ops::get_signature(op, shapes);
}

TEST(KnownKernels, CompilesFrequentOperators) {
  KnownKernels kernels;
  const auto& s = make_signature(ops::parse_op(ops::kRelu, {}), {{2, 3}});
  EXPECT_EQ(kernels.find_or_compile(s).kernel, nullptr);
  EXPECT_EQ(kernels.find_or_compile(s).kernel, nullptr);
  const auto* kernel = kernels.find_or_compile(s).kernel.get();
  ASSERT_NE(kernel, nullptr);
  EXPECT_EQ(kernel->result_size(), 6U);
  EXPECT_EQ(kernels.find_or_compile(s).kernel.get(), kernel);
}

TEST(KnownKernels, SkipsLargeAndEmptyOperators) {
  KnownKernels kernels;
  for (const auto& shape : {Shape{200, 200}, Shape{0, 3}}) {
    const auto& s = make_signature(ops::parse_op(ops::kRelu, {}), {shape});
    for (int i = 0; i < 5; ++i) EXPECT_EQ(kernels.find_or_compile(s).kernel, nullptr);
  }
}

// Random values differ for each element, so they have no kernel.
TEST(KnownKernels, SkipsRandomOperators) {
  KnownKernels kernels;
  const auto& s = make_signature(ops::parse_op(ops::kDropout, {}), {{2, 3}});
  for (int i = 0; i < 5; ++i) EXPECT_EQ(kernels.find_or_compile(s).kernel, nullptr);
}

TEST(KnownKernels, EvictsKernelsAtItsLimit) {
  KnownKernels kernels(1000);
  for (std::int64_t n = 1; n < 100; ++n) {
    const auto& s = make_signature(ops::parse_op(ops::kSoftmax, {}), {{2, n}});
    for (int i = 0; i < 2; ++i) EXPECT_EQ(kernels.find_or_compile(s).kernel, nullptr);
    ASSERT_NE(kernels.find_or_compile(s).kernel, nullptr);
  }
}

}  // namespace
}  // namespace tandem::verify
