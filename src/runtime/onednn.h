// Descriptions of oneDNN's matmul for versions 2 and 3 of the library. Version 3 has no operation
// descriptors and no output scale; a linear post-op replaces the scale.
#pragma once

#include <dnnl.hpp>
#include <optional>

namespace tandem::runtime {

struct Matrices {
  dnnl::memory::desc a, b, out;
  std::optional<dnnl::memory::desc> bias = {};
};

inline dnnl::matmul::primitive_desc make_matmul_description(
    const Matrices& m, const dnnl::engine& engine, const dnnl::primitive_attr& attributes = {}) {
#if DNNL_VERSION_MAJOR < 3
  const auto matmul =
      m.bias ? dnnl::matmul::desc(m.a, m.b, *m.bias, m.out) : dnnl::matmul::desc(m.a, m.b, m.out);
  return {matmul, attributes, engine};
#else
  if (m.bias) return {engine, m.a, m.b, *m.bias, m.out, attributes};
  return {engine, m.a, m.b, m.out, attributes};
#endif
}

// Returns the attributes of a matmul that adds `factor` times the product to the output.
inline dnnl::primitive_attr make_adding_attributes(float factor) {
  dnnl::primitive_attr out;
  dnnl::post_ops after;
#if DNNL_VERSION_MAJOR < 3
  out.set_output_scales(0, {factor});
#else
  after.append_eltwise(dnnl::algorithm::eltwise_linear, factor, 0);
#endif
  after.append_sum(1);
  out.set_post_ops(after);
  return out;
}

}  // namespace tandem::runtime
