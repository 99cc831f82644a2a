#include "verify/random_instances.h"

#include <algorithm>
#include <array>
#include <random>

#include "verify/occurrence_walk.h"
#include "verify/rule_typer.h"
#include "verify/symbol_values.h"

namespace tandem::verify {

namespace {

class Draws {
 public:
  Draws(const Rule& rule, std::span<const Instance> near, Hash seed)
      : near_(near),
        values_(find_symbol_values(rule)),
        random_(seed),
        parallel_(is_parallel(rule)) {}

  Instance draw() {
    // Uses two sizes besides 1, and their sum, so that sizes that must be equal often are.
    constexpr std::array<std::int64_t, 6> kSizes = {2, 3, 4, 5, 6, 7};
    constexpr std::array<std::int64_t, 4> kDivisible = {4, 6, 8, 12};
    const auto first = parallel_ ? draw_from(kDivisible) : draw_from(kSizes);
    const auto second = parallel_ ? draw_from(kDivisible) : draw_from(kSizes);
    sizes_ = {first, first, second, second, first + second};
    const bool plain = draw_below(2) == 0;
    auto out = near_[plain ? 0 : draw_below(near_.size())];
    const bool equal_sizes = draw_below(3) == 0;
    // Sizes of 1 are few in some draws and nearly all in others.
    ones_of_ten_ = draw_from(std::array<std::size_t, 3>{1, 3, 8});
    const auto changed_of_ten = draw_from(std::array<std::size_t, 3>{2, 5, 9});
    if (!parallel_ && draw_below(8) == 0 && !out.tensors.empty()) change_rank(out.tensors);
    for (auto& type : out.tensors) change_shape(type.shape, equal_sizes);
    for (std::size_t s = 0; s < out.symbols.size(); ++s) {
      if (draw_below(10) < changed_of_ten) change_symbol(s, *out.symbols[s]);
    }
    return out;
  }

 private:
  std::size_t draw_below(std::size_t n) { return random_() % n; }
  template <class Values>
  typename Values::value_type draw_from(const Values& values) {
    return values[draw_below(values.size())];
  }

  std::int64_t draw_size() { return draw_below(10) < ones_of_ten_ ? 1 : draw_from(sizes_); }

  // Changes the rank of all types that share one rank.
  void change_rank(std::vector<TensorType>& types) {
    const auto from = draw_from(types).shape.rank();
    const auto to = draw_below(4);
    for (auto& type : types) {
      if (type.shape.rank() == from) type.shape = ParallelShape(draw_shape(to));
    }
  }

  Shape draw_shape(std::size_t rank) {
    Shape out;
    while (out.rank() < rank) out.push_back(draw_size());
    return out;
  }

  // Changes sizes, and sometimes degrees. With `equal_sizes`, most sizes become the first one.
  void change_shape(ParallelShape& shape, bool equal_sizes) {
    if (!parallel_ && draw_below(8) == 0) {
      shape = ParallelShape(this->draw_shape(draw_below(4)));
      return;
    }
    for (std::size_t d = 0; d < shape.rank(); ++d) {
      const auto to = equal_sizes && draw_below(4) != 0 ? sizes_[0] : draw_size();
      if (to % shape.degrees[d] == 0) shape.sizes[d] = to;
    }
    if (!parallel_ || draw_below(3) != 0) return;
    const auto part = draw_below(shape.rank() + 2);
    if (part < shape.rank()) {
      if (shape.sizes[part] % 2 == 0) shape.degrees[part] = 2;
    } else if (part == shape.rank()) {
      shape.replicas = 2;
    } else {
      shape.partial = 2;
    }
  }

  void change_symbol(std::size_t symbol, Value& value) {
    if (!std::holds_alternative<std::int64_t>(value)) {
      value = draw_from(values_[symbol]);
      return;
    }
    constexpr std::array<std::int64_t, 5> kNumbers = {0, 1, 2, 3, -1};
    value = draw_below(2) == 0 ? draw_from(kNumbers) : draw_size();
  }

  std::span<const Instance> near_;
  std::vector<std::vector<Value>> values_;
  std::mt19937_64 random_;
  bool parallel_;
  std::array<std::int64_t, 5> sizes_ = {};
  std::size_t ones_of_ten_ = 0;
};

// Returns copies of `first` with all combinations of ranks and one element per tensor. Many of them
// fit, and few are patterns.
std::vector<Instance> make_one_element_instances(const Instance& first) {
  const auto count = first.tensors.size();
  constexpr std::size_t kFew = 3;
  constexpr std::size_t kMany = 5;
  if (count > kMany) return {};
  const std::size_t ranks = count <= kFew ? 4 : 3;
  std::vector<Instance> out;
  std::vector<std::size_t> rank(count);
  for (bool more = count > 0; more;) {
    out.push_back(first);
    for (std::size_t t = 0; t < count; ++t) {
      Shape ones;
      while (ones.rank() < rank[t]) ones.push_back(1);
      out.back().tensors[t].shape = ParallelShape(ones);
    }
    std::size_t t = 0;
    while (t < count && ++rank[t] == ranks) rank[t++] = 0;
    more = t < count;
  }
  return out;
}

}  // namespace

std::vector<Instance> draw_instances(const Rule& rule, std::span<const Instance> near,
                                     std::size_t tries, Hash seed) {
  std::vector<Instance> out;
  if (near.empty()) return out;
  Draws draws(rule, near, seed);
  RuleTyper typer(rule);
  OccurrenceWalk walk(rule, near, hash_combine(seed, 1));
  std::unordered_set<Hash> known;
  const auto keep = [&](const Instance& instance) {
    if (known.insert(hash_instance(instance)).second) out.push_back(instance);
  };
  for (const auto& instance : make_one_element_instances(near[0])) {
    if (typer.occurs(instance)) keep(instance);
  }
  for (std::size_t i = 0; i < tries; ++i) {
    if (i % 3 == 0) {
      const auto instance = draws.draw();
      if (typer.occurs(instance)) keep(instance);
    } else if (const auto* instance = walk.step()) {
      keep(*instance);
    }
  }
  return out;
}

bool NoveltyFilter::is_new(const Instance& instance) {
  // Each fact hashes a subject and its value: "size 1 of ?x is 1", "?s is 2".
  std::vector<Hash> facts;
  facts.reserve(32);
  std::vector<std::int64_t> numbers;
  const auto say = [&](Hash what, Hash is) { facts.push_back(hash_combine(what, is)); };
  const auto say_number = [&](std::int64_t n) {
    const auto place = numbers.size();
    constexpr std::int64_t kSmall = 2;
    say(place, static_cast<Hash>(std::min(n, kSmall)));
    const auto equal = std::ranges::find(numbers, n) - numbers.begin();
    numbers.push_back(n);
    if (n > 1) say(place, hash_combine(1, static_cast<Hash>(equal)));
  };
  for (const auto& type : instance.tensors) {
    say(hash_combine(2, numbers.size()), type.shape.rank());
    // Aligns sizes at the last dimension and pads them, so that no rank moves the places of others.
    constexpr std::size_t kPlaces = Shape::kMaxRank;
    for (std::size_t d = 0; d < kPlaces - type.shape.rank(); ++d) numbers.push_back(0);
    for (auto n : type.shape.sizes) say_number(n);
    if (!type.shape.is_undivided()) say(hash_combine(3, numbers.size()), hash_type(type));
  }
  for (const auto& symbol : instance.symbols) {
    say(hash_combine(4, numbers.size()), rewrite::compute_hash(*symbol));
    const auto* n = std::get_if<std::int64_t>(&*symbol);
    say_number(n == nullptr ? 0 : *n);
  }
  bool out = false;
  for (std::size_t i = 0; i < facts.size(); ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      out = pairs_.insert(hash_combine(facts[i], facts[j])).second || out;
    }
  }
  return out;
}

}  // namespace tandem::verify
