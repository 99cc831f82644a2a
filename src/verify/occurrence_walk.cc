#include "verify/occurrence_walk.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

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

// Returns `shape` with one more dimension, in front or behind.
ParallelShape add_dimension(const ParallelShape& shape, std::int64_t size, bool behind) {
  auto out = shape;
  if (!behind) {
    out.sizes = {size};
    out.degrees = {1};
    for (auto n : shape.sizes) out.sizes.push_back(n);
    for (auto n : shape.degrees) out.degrees.push_back(n);
  } else {
    out.sizes.push_back(size);
    out.degrees.push_back(1);
  }
  return out;
}
// Returns `shape` without its first dimension.
ParallelShape drop_first_dimension(const ParallelShape& shape) {
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
      values_(find_symbol_values(rule)),
      typer_(rule),
      random_(seed),
      parallel_(is_parallel(rule)) {
  build_groups();
  if (!parallel_) return;
  degrees_ = find_named_degrees(rule);
  degrees_.insert(degrees_.end(), {1, 2});
}

const Instance* OccurrenceWalk::step() {
  if (steps_++ % kStepsOfWalk == 0) {
    first_ = draw_initial_size();
    second_ = draw_initial_size();
    current_ = near_[draw_below(3) == 0 ? 0 : draw_below(near_.size())];
    results_.clear();
  }
  next_ = current_;
  for (auto changes = 1 + draw_below(3); changes > 0; --changes) change(next_);
  if (next_ == current_ || !repair(next_) || !typer_.conditions_hold(next_)) return nullptr;
  current_ = next_;
  return &current_;
}

std::int64_t OccurrenceWalk::draw_initial_size() {
  constexpr std::array<std::int64_t, 6> kSizes = {2, 2, 3, 3, 4, 6};
  constexpr std::array<std::int64_t, 4> kDivisible = {4, 6, 8, 12};
  if (!parallel_) return kSizes[draw_below(kSizes.size())];
  if (draw_below(2) == 0) return kDivisible[draw_below(kDivisible.size())];
  return 2 * degrees_[draw_below(degrees_.size())];
}

std::int64_t OccurrenceWalk::draw_size() {
  const std::array sizes = {std::int64_t{1}, first_, first_, second_, first_ + second_};
  return sizes[draw_below(sizes.size())];
}

// Returns one of the instance's sizes or symbols. Sometimes returns a size of an operator's result,
// which may be a sum of two.
std::int64_t OccurrenceWalk::draw_number(const Instance& at) {
  if (!results_.empty() && draw_below(4) == 0) return results_[draw_below(results_.size())];
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
  return count == 0 ? 1 : known[draw_below(count)];
}

void OccurrenceWalk::change(Instance& at) {
  const bool symbols = !at.symbols.empty();
  const auto kind = draw_below(symbols ? 11 : 8);
  if (kind > 7 || at.tensors.empty()) return symbols ? change_symbol(at) : void();
  if (parallel_ && draw_below(4) == 0)
    return change_sharding(at.tensors[draw_below(at.tensors.size())].shape);
  switch (kind) {
    case 0:
      return replace_number(at);
    case 1:
      return resize_everywhere(at);
    case 2:
      return change_ranks(at);
    case 3:
      return resize_two(at);
    case 4:
    case 5:
      return resize_group(at);
    default:
      return resize(at);
  }
}

// Replaces one number by another wherever it occurs.
void OccurrenceWalk::replace_number(Instance& at) {
  const auto from = draw_number(at);
  const auto to = draw_size();
  for (auto& type : at.tensors) {
    for (std::size_t d = 0; d < type.shape.rank(); ++d) {
      if (type.shape.sizes[d] == from) set_size(type.shape, d, to);
    }
  }
  for (auto& symbol : at.symbols) {
    if (*symbol == Value(from)) symbol = to;
  }
}

// Resizes dimensions of a group, or of a random half of all tensors: those equal to one number, or
// those at one distance from the last dimension.
void OccurrenceWalk::resize_group(Instance& at) {
  const auto from = draw_number(at);
  const auto behind = 1 + draw_below(kMostRank);
  const bool by_number = draw_below(2) == 0;
  const auto to = draw_below(2) == 0 ? 1 : draw_size();
  const auto* group = draw_below(4) == 0 ? nullptr : &groups_[draw_below(groups_.size())];
  for (std::size_t t = 0; t < at.tensors.size(); ++t) {
    if (group != nullptr ? !group->tensors[t] : draw_below(2) == 0) continue;
    auto& shape = at.tensors[t].shape;
    for (std::size_t d = 0; d < shape.rank(); ++d) {
      if (by_number ? shape.sizes[d] == from : d + behind == shape.rank()) set_size(shape, d, to);
    }
  }
  for (std::size_t s = 0; s < at.symbols.size(); ++s) {
    if (group != nullptr ? !group->symbols[s] : draw_below(2) == 0) continue;
    if (*at.symbols[s] == Value(from)) at.symbols[s] = to;
  }
}

void OccurrenceWalk::build_groups() {
  const auto& nodes = rule_.source.nodes;
  const Names none{std::vector<bool>(rule_.tensors.size()),
                   std::vector<bool>(rule_.symbols.size())};
  std::map<std::pair<const ops::OpSpec*, std::size_t>, Names> operands;
  for (rewrite::PatternId n = 0; n < nodes.size(); ++n) {
    if (nodes[n].is_variable()) continue;
    operators_.push_back(n);
    add_names_below(n, groups_.emplace_back(none));
    for (std::size_t i = 0; i < nodes[n].inputs.size(); ++i) {
      auto& names = operands.try_emplace({nodes[n].spec, i}, none).first->second;
      add_names_below(nodes[n].inputs[i], names);
    }
  }
  // Uses the order of the rule; an order of addresses would change from run to run.
  for (auto n : operators_) {
    for (std::size_t i = 0; i < nodes[n].inputs.size(); ++i) {
      const auto found = operands.find({nodes[n].spec, i});
      if (found == operands.end()) continue;
      groups_.push_back(std::move(found->second));
      operands.erase(found);
    }
  }
}

void OccurrenceWalk::add_names_below(rewrite::PatternId node, Names& to) const {
  const auto& side = rule_.source;
  std::vector<bool> reached(side.nodes.size());
  reached[node] = true;
  for (auto n = node + 1; n-- > 0;) {
    if (!reached[n]) continue;
    if (side.nodes[n].is_variable()) to.tensors[side.nodes[n].variable] = true;
    for (auto i : side.nodes[n].inputs) reached[i] = true;
    for (const auto& attribute : side.nodes[n].attributes) {
      rewrite::for_each_part(attribute, [&](const rewrite::Expression& part) {
        if (part.operation == rewrite::Operation::kSymbol) to.symbols[part.variables[0]] = true;
      });
    }
  }
}

// Mends operands that do not fit: a variable among them takes the type of another one. Returns
// whether the source then fits.
bool OccurrenceWalk::repair(Instance& at) {
  constexpr int kMost = 2;
  for (int i = 0;; ++i) {
    const auto types = typer_.type_source(at);
    if (types.size() == rule_.source.nodes.size()) {
      results_.clear();
      for (auto n : operators_) {
        for (auto size : TypeTable::get_thread_local().type(types[n]).shape.sizes) {
          results_.push_back(size);
        }
      }
      return true;
    }
    const auto& inputs = rule_.source.nodes[types.size()].inputs;
    if (i == kMost || inputs.size() < 2) return false;
    const auto which = draw_below(inputs.size());
    const auto& node = rule_.source.nodes[inputs[which]];
    const auto other = types[inputs[(which + 1 + draw_below(inputs.size() - 1)) % inputs.size()]];
    const auto& shape = TypeTable::get_thread_local().type(other).shape;
    const bool is_small = std::ranges::all_of(shape.sizes, [](auto n) { return n <= kMostSize; });
    if (!node.is_variable() || shape.rank() > kMostRank || !is_small) continue;
    at.tensors[node.variable].shape = shape;
  }
}

void OccurrenceWalk::resize(Instance& at) {
  resize_one(at, draw_below(2) == 0 ? draw_size() : draw_number(at));
}

// Sets two sizes to one value, since tensors often share a size. Sometimes shifts size from one
// tensor to another, so that their sum stays.
void OccurrenceWalk::resize_two(Instance& at) {
  if (draw_below(3) == 0) return shift_size(at);
  const auto to = draw_size();
  resize_one(at, to);
  resize_one(at, to);
}

// Moves size from one tensor to another, as between parts of a concatenation.
void OccurrenceWalk::shift_size(Instance& at) {
  auto& from = at.tensors[draw_below(at.tensors.size())].shape;
  auto& to = at.tensors[draw_below(at.tensors.size())].shape;
  if (from.rank() == 0 || from.rank() != to.rank()) return;
  const auto d = draw_below(from.rank());
  const auto by = static_cast<std::int64_t>(1 + draw_below(2));
  if (from.sizes[d] <= by) return;
  set_size(from, d, from.sizes[d] - by);
  set_size(to, d, to.sizes[d] + by);
}

void OccurrenceWalk::resize_one(Instance& at, std::int64_t to) {
  auto& shape = at.tensors[draw_below(at.tensors.size())].shape;
  if (shape.rank() != 0) set_size(shape, draw_below(shape.rank()), to);
}

// Resizes the dimension at one distance from the last, in all tensors that have it.
void OccurrenceWalk::resize_everywhere(Instance& at) {
  const auto behind = 1 + draw_below(kMostRank);
  const auto to = draw_size();
  for (auto& type : at.tensors) {
    const auto rank = type.shape.rank();
    if (behind <= rank) set_size(type.shape, rank - behind, to);
  }
}

// Changes the rank of one tensor, of a group, of all tensors with this rank, or of some of them.
void OccurrenceWalk::change_ranks(Instance& at) {
  const auto* group = draw_below(2) == 0 ? &groups_[draw_below(groups_.size())] : nullptr;
  auto which = draw_below(at.tensors.size());
  for (std::size_t i = 0; group != nullptr && !group->tensors[which]; ++i) {
    if (i == at.tensors.size()) return;
    which = (which + 1) % at.tensors.size();
  }
  const auto rank = at.tensors[which].shape.rank();
  const bool more = draw_below(2) == 0;
  const auto others_of_six = std::array<std::size_t, 3>{0, 3, 6}[draw_below(3)];
  const bool behind = draw_below(3) == 0;
  const auto usual = behind && !results_.empty() ? results_[draw_below(results_.size())] : 1;
  const auto added = draw_below(2) == 0 ? usual : draw_size();
  if (more ? rank >= kMostRank || added < 1 || added > kMostSize : rank == 0) return;
  for (std::size_t t = 0; t < at.tensors.size(); ++t) {
    auto& shape = at.tensors[t].shape;
    const bool too = group != nullptr ? group->tensors[t] : draw_below(6) < others_of_six;
    if (t != which && (shape.rank() != rank || !too)) continue;
    shape = more ? add_dimension(shape, added, behind) : drop_first_dimension(shape);
  }
}

void OccurrenceWalk::change_symbol(Instance& at) {
  const auto which = draw_below(at.symbols.size());
  auto& value = *at.symbols[which];
  auto* number = std::get_if<std::int64_t>(&value);
  auto* list = std::get_if<std::vector<std::int64_t>>(&value);
  if (number != nullptr && draw_below(2) == 0) {
    *number = draw_number(at);
  } else if (list != nullptr && !list->empty() && draw_below(2) == 0) {
    (*list)[draw_below(list->size())] = static_cast<std::int64_t>(draw_below(4));
  } else {
    value = values_[which][draw_below(values_[which].size())];
  }
}

void OccurrenceWalk::change_sharding(ParallelShape& shape) {
  const auto into = degrees_[draw_below(degrees_.size())];
  const auto part = draw_below(shape.rank() + 2);
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
