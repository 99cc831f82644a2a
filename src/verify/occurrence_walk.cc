#include "verify/occurrence_walk.h"

#include <algorithm>
#include <array>

#include "verify/instances.h"
#include "verify/symbol_values.h"

namespace tandem::verify {

namespace {

constexpr std::size_t kStepsOfWalk = 60;
constexpr std::size_t kMostRank = 4;
constexpr std::int64_t kMostSize = 24;

void set_size(ParallelShape& shape, std::size_t d, std::int64_t to) {
  if (to >= 1 && to <= kMostSize && to % shape.degrees[d] == 0) shape.sizes[d] = to;
}

// With one dimension in front, or without the first.
ParallelShape longer(const ParallelShape& shape, std::int64_t size) {
  auto out = shape;
  out.sizes = {size};
  out.degrees = {1};
  for (auto n : shape.sizes) out.sizes.push_back(n);
  for (auto n : shape.degrees) out.degrees.push_back(n);
  return out;
}
ParallelShape shorter(const ParallelShape& shape) {
  auto out = shape;
  out.sizes = {};
  out.degrees = {};
  for (std::size_t d = 1; d < shape.rank(); ++d) {
    out.sizes.push_back(shape.sizes[d]);
    out.degrees.push_back(shape.degrees[d]);
  }
  return out;
}

}  // namespace

OccurrenceWalk::OccurrenceWalk(const Rule& rule, std::span<const Instance> near, Hash seed)
    : rule_(rule),
      near_(near),
      values_(symbol_values(rule)),
      random_(seed),
      parallel_(is_parallel(rule)) {
  if (!parallel_) return;
  degrees_ = named_degrees(rule);
  degrees_.insert(degrees_.end(), {1, 2});
}

const Instance* OccurrenceWalk::step() {
  if (steps_++ % kStepsOfWalk == 0) {
    first_ = size_to_begin_with();
    second_ = size_to_begin_with();
    current_ = near_[below(3) == 0 ? 0 : below(near_.size())];
  }
  next_ = current_;
  for (auto changes = 1 + below(3); changes > 0; --changes) change(next_);
  if (next_ == current_ || !occurs(rule_, next_)) return nullptr;
  current_ = next_;
  return &current_;
}

std::int64_t OccurrenceWalk::size_to_begin_with() {
  constexpr std::array<std::int64_t, 6> kSizes = {2, 2, 3, 3, 4, 6};
  constexpr std::array<std::int64_t, 4> kDivisible = {4, 6, 8, 12};
  if (!parallel_) return kSizes[below(kSizes.size())];
  if (below(2) == 0) return kDivisible[below(kDivisible.size())];
  return 2 * degrees_[below(degrees_.size())];
}

std::int64_t OccurrenceWalk::size() {
  const std::array sizes = {std::int64_t{1}, first_, first_, second_, first_ + second_};
  return sizes[below(sizes.size())];
}

// One of its sizes, or a symbol.
std::int64_t OccurrenceWalk::number_of(const Instance& at) {
  std::array<std::int64_t, 64> known = {};
  std::size_t count = 0;
  for (const auto& type : at.tensors) {
    for (auto n : type.shape.sizes) {
      if (count < known.size()) known[count++] = n;
    }
  }
  for (const auto& symbol : at.symbols) {
    const auto* n = std::get_if<std::int64_t>(&*symbol);
    if (n != nullptr && count < known.size()) known[count++] = *n;
  }
  return count == 0 ? 1 : known[below(count)];
}

void OccurrenceWalk::change(Instance& at) {
  const bool symbols = !at.symbols.empty();
  const auto kind = below(symbols ? 9 : 6);
  if (kind > 5 || at.tensors.empty()) return symbols ? change_symbol(at) : void();
  if (parallel_ && below(4) == 0) return divide(at.tensors[below(at.tensors.size())].shape);
  switch (kind) {
    case 0:
      return rename(at);
    case 1:
      return resize_everywhere(at);
    case 2:
      return change_ranks(at);
    case 3:
      return resize_two(at);
    default:
      return resize(at);
  }
}

// All that is one number becomes another.
void OccurrenceWalk::rename(Instance& at) {
  const auto from = number_of(at);
  const auto to = size();
  for (auto& type : at.tensors) {
    for (std::size_t d = 0; d < type.shape.rank(); ++d) {
      if (type.shape.sizes[d] == from) set_size(type.shape, d, to);
    }
  }
  for (auto& symbol : at.symbols) {
    if (*symbol == Value(from)) symbol = to;
  }
}

void OccurrenceWalk::resize(Instance& at) {
  resize_one(at, below(2) == 0 ? size() : number_of(at));
}

// What two tensors share is often a size of each.
void OccurrenceWalk::resize_two(Instance& at) {
  const auto to = size();
  resize_one(at, to);
  resize_one(at, to);
}

void OccurrenceWalk::resize_one(Instance& at, std::int64_t to) {
  auto& shape = at.tensors[below(at.tensors.size())].shape;
  if (shape.rank() != 0) set_size(shape, below(shape.rank()), to);
}

// The dimension that is so far from the last, of all tensors that have it.
void OccurrenceWalk::resize_everywhere(Instance& at) {
  const auto behind = 1 + below(kMostRank);
  const auto to = size();
  for (auto& type : at.tensors) {
    const auto rank = type.shape.rank();
    if (behind <= rank) set_size(type.shape, rank - behind, to);
  }
}

// Of one tensor, of all that have this rank, or of some of them.
void OccurrenceWalk::change_ranks(Instance& at) {
  const auto which = below(at.tensors.size());
  const auto rank = at.tensors[which].shape.rank();
  const bool more = below(2) == 0;
  const auto others_of_six = std::array<std::size_t, 3>{0, 3, 6}[below(3)];
  const auto front = below(2) == 0 ? 1 : size();
  if (more ? rank == kMostRank : rank == 0) return;
  for (std::size_t t = 0; t < at.tensors.size(); ++t) {
    auto& shape = at.tensors[t].shape;
    if (t != which && (shape.rank() != rank || below(6) >= others_of_six)) continue;
    shape = more ? longer(shape, front) : shorter(shape);
  }
}

void OccurrenceWalk::change_symbol(Instance& at) {
  const auto which = below(at.symbols.size());
  auto& value = *at.symbols[which];
  auto* number = std::get_if<std::int64_t>(&value);
  auto* list = std::get_if<std::vector<std::int64_t>>(&value);
  if (number != nullptr && below(2) == 0) {
    *number = number_of(at);
  } else if (list != nullptr && !list->empty() && below(2) == 0) {
    (*list)[below(list->size())] = static_cast<std::int64_t>(below(4));
  } else {
    value = values_[which][below(values_[which].size())];
  }
}

void OccurrenceWalk::divide(ParallelShape& shape) {
  const auto into = degrees_[below(degrees_.size())];
  const auto part = below(shape.rank() + 2);
  if (part < shape.rank()) {
    if (shape.sizes[part] % into == 0) shape.degrees[part] = into;
  } else if (part == shape.rank()) {
    shape.replicas = into;
  } else {
    shape.partial = into;
    shape.monoid = Monoid::kSum;
  }
}

}  // namespace tandem::verify
