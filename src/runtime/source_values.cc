#include "runtime/source_values.h"

#include "runtime/aten.h"
#include "tensor/dense.h"

namespace tandem::runtime {

namespace {

// The last dimension is a run of neighbours in the whole tensor, too.
template <class T>
void fill(T* to, const graph::Feed& feed, const Shape& sizes, const Shape& local,
          const Shape& offset) {
  Shape rows = local;
  const std::int64_t run = local.rank() == 0 ? 1 : local[local.rank() - 1];
  if (rows.rank() > 0) rows[rows.rank() - 1] = 1;
  for_each_index(rows, [&](const Shape& index) {
    Shape at = index;
    for (std::size_t d = 0; d < at.rank(); ++d) at[d] += offset[d];
    const auto first = flat_index(sizes, at);
    for (std::int64_t i = 0; i < run; ++i) *to++ = static_cast<T>(feed.element(first + i));
  });
}

}  // namespace

at::Tensor source_values(const lower::Program& program, const lower::Buffer& buffer,
                         std::int64_t device, std::uint64_t seed, std::uint64_t step) {
  const auto type = to_aten(buffer.dtype);
  const auto summands = buffer.layout.digits(machine::DigitRole::kPartial);
  if (program.digits.rank_in_group(device, summands) != 0) {
    return at::zeros(to_aten(buffer.shard), type);
  }
  const graph::Feed feed(program.pcg.node(buffer.node), seed, step);
  Shape offset = buffer.shard;
  for (std::size_t d = 0; d < offset.rank(); ++d) {
    offset[d] = range_of(buffer.layout, program.digits, device, d, buffer.sizes[d]).offset;
  }
  auto out = at::empty(to_aten(buffer.shard), type);
  if (type == at::kDouble) {
    fill(out.data_ptr<double>(), feed, buffer.sizes, buffer.shard, offset);
  } else if (type == at::kFloat) {
    fill(out.data_ptr<float>(), feed, buffer.sizes, buffer.shard, offset);
  } else {
    fill(out.data_ptr<std::int64_t>(), feed, buffer.sizes, buffer.shard, offset);
  }
  return out;
}

}  // namespace tandem::runtime
