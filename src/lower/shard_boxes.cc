#include "lower/shard_boxes.h"

#include <algorithm>

#include "term/field.h"

namespace tandem::lower {

using term::Box;

Box make_whole_box(const Shape& sizes) {
  Box box{sizes, sizes};
  for (auto& o : box.offset) o = 0;
  return box;
}

Box compute_box(const Buffer& buffer, const machine::Digits& digits, std::int64_t slot) {
  Box box{buffer.sizes, buffer.sizes};
  for (std::size_t d = 0; d < buffer.sizes.rank(); ++d) {
    const auto range = compute_range(buffer, digits, slot, d);
    box.offset[d] = range.offset;
    box.size[d] = range.size;
  }
  return box;
}

template <class T>
std::int64_t add_overlap(const Dense<T>& from, const Box& from_box, Dense<T>& to,
                         const Box& to_box) {
  CHECK(from.shape == from_box.size && to.shape == to_box.size);
  Shape size = from_box.size;
  Shape from_offset = size;
  Shape to_offset = size;
  for (std::size_t d = 0; d < size.rank(); ++d) {
    const auto begin = std::max(from_box.offset[d], to_box.offset[d]);
    const auto end =
        std::min(from_box.offset[d] + from_box.size[d], to_box.offset[d] + to_box.size[d]);
    if (end <= begin) return 0;
    size[d] = end - begin;
    from_offset[d] = begin - from_box.offset[d];
    to_offset[d] = begin - to_box.offset[d];
  }
  const auto at = [](const Dense<T>& t, const Shape& index, const Shape& offset) {
    Shape moved = index;
    for (std::size_t d = 0; d < moved.rank(); ++d) moved[d] += offset[d];
    return static_cast<std::size_t>(compute_flat_index(t.shape, moved));
  };
  for_each_index(size, [&](const Shape& index) {
    to.data[at(to, index, to_offset)] += from.data[at(from, index, from_offset)];
  });
  return size.count();
}

template std::int64_t add_overlap(const Dense<double>&, const Box&, Dense<double>&, const Box&);
template std::int64_t add_overlap(const Dense<term::Field>&, const Box&, Dense<term::Field>&,
                                  const Box&);

}  // namespace tandem::lower
