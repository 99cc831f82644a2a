#include "runtime/source_values.h"

#include "runtime/aten.h"
#include "tensor/dense.h"

namespace tandem::runtime {

namespace {

// Fills `out` in runs along the last dimension, which are contiguous in the whole tensor too.
// `read` stores the elements from a global index on.
template <class T, class Read>
void fill(at::Tensor& out, const Shape& sizes, const Shape& offset, const Read& read) {
  auto* to = out.data_ptr<T>();
  Shape rows(std::span(out.sizes().data(), out.sizes().size()));
  const std::int64_t run = rows.rank() == 0 ? 1 : rows[rows.rank() - 1];
  if (rows.rank() > 0) rows[rows.rank() - 1] = 1;
  std::vector<double> elements(static_cast<std::size_t>(run));
  for_each_index(rows, [&](const Shape& index) {
    Shape at = index;
    for (std::size_t d = 0; d < at.rank(); ++d) at[d] += offset[d];
    read(compute_flat_index(sizes, at), std::span(elements));
    for (auto element : elements) *to++ = static_cast<T>(element);
  });
}

template <class Read>
void fill(at::Tensor& out, const Shape& sizes, const Shape& offset, const Read& read) {
  if (out.scalar_type() == at::kDouble) return fill<double>(out, sizes, offset, read);
  if (out.scalar_type() == at::kFloat) return fill<float>(out, sizes, offset, read);
  if (out.scalar_type() == at::kBFloat16) return fill<at::BFloat16>(out, sizes, offset, read);
  fill<std::int64_t>(out, sizes, offset, read);
}

}  // namespace

at::Tensor make_source_values(const lower::Program& program, const lower::Buffer& buffer,
                              std::int64_t device, std::uint64_t seed, std::uint64_t step,
                              at::Device place, const data::Dataset* data) {
  const auto type = to_aten(buffer.dtype);
  const auto summands = buffer.layout.digits(machine::DigitRole::kPartial);
  if (program.digits.rank_in_group(device, summands) != 0) {
    return at::zeros(to_aten(buffer.shard), at::device(place).dtype(type));
  }
  const auto& source = program.pcg.node(buffer.node);
  Shape offset = buffer.shard;
  for (std::size_t d = 0; d < offset.rank(); ++d) {
    offset[d] = compute_range(buffer.layout, program.digits, device, d, buffer.sizes[d]).offset;
  }
  auto out = at::empty(to_aten(buffer.shard), type);
  if (data != nullptr && graph::is_input(source)) {
    fill(out, buffer.sizes, offset, [&](std::int64_t first, std::span<double> to) {
      data->read(source, static_cast<std::int64_t>(step), first, to);
    });
  } else {
    const graph::Feed feed(source, seed, step);
    fill(out, buffer.sizes, offset, [&](std::int64_t first, std::span<double> to) {
      for (auto& element : to) element = feed.element(first++);
    });
  }
  return out.to(place);
}

}  // namespace tandem::runtime
