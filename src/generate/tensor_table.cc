#include "generate/tensor_table.h"

#include <algorithm>
#include <atomic>
#include <tuple>

#include "base/parallel.h"
#include "base/stop.h"

namespace tandem::generate {

namespace {

// Largest result, relative to the largest variable: a concatenation of three, and a little more.
constexpr std::int64_t kLargestGrowth = 4;
constexpr std::size_t kPieceTensors = 64;

std::int64_t compute_largest_result(const OperatorSet& set) {
  std::int64_t largest = 1;
  for (const auto& v : set.variables) largest = std::max(largest, v.type.shape.sizes.count());
  return largest * kLargestGrowth;
}

}  // namespace

TensorTable::TensorTable(const OperatorSet& set, unsigned threads)
    : threads_(threads),
      programs_(set.operations, compute_largest_result(set)),
      variables_(set.variables) {
  add_leaves();
  find_commutative();
}

namespace {

Hash add_to_hash(Hash h, std::span<const Field> value) {
  for (const auto& v : value) {
    h = (h ^ v.value()) * 0x9e3779b97f4a7c15ULL;
    h ^= h >> 32U;
  }
  return mix(h);
}

}  // namespace

std::size_t TensorTable::count_elements(TypeId type) const {
  return static_cast<std::size_t>(programs_.type(type).shape.sizes.count());
}

const Field* TensorTable::value(TensorId id, std::size_t draw) const {
  return values_.data() + tensors_[id].value + draw * count_elements(tensors_[id].type);
}

Hash TensorTable::compute_full_hash(const Application& application,
                                    PatternProgram::EvaluationMemory& memory) const {
  const auto arity = programs_.operations()[application.operation].arity;
  std::array<TypeId, kMaxArity> types{};
  std::array<const Field*, kMaxArity> inputs{};
  for (std::size_t i = 0; i < arity; ++i) types[i] = tensors_[application.operands[i]].type;
  const auto* program = programs_.find_known(application.operation, std::span(types).first(arity));
  memory.result.resize(program->size());
  Hash h = mix(program->type_id());
  for (std::size_t draw = 0; draw < kDraws; ++draw) {
    for (std::size_t i = 0; i < arity; ++i) inputs[i] = value(application.operands[i], draw);
    program->run(std::span(inputs).first(arity), memory.result.data(), memory);
    h = add_to_hash(h, memory.result);
  }
  return h;
}

TensorId TensorTable::add_tensor(const Application& application, TypeId type, std::size_t level) {
  TableTensor tensor{
      .producer = application, .type = type, .level = static_cast<std::uint8_t>(level)};
  tensor.value = values_.size();
  values_.resize(values_.size() + count_elements(type) * kDraws);
  tensor.closed = level == 0 && application.operation != kVariable;
  if (level > 0) {
    std::vector<std::uint32_t> needs = {number_application(application)};
    for (std::size_t i = 0; i < programs_.operations()[application.operation].arity; ++i) {
      const auto more = tensors_[application.operands[i]].applications();
      needs.insert(needs.end(), more.begin(), more.end());
    }
    std::ranges::sort(needs);
    needs.erase(std::unique(needs.begin(), needs.end()), needs.end());
    CHECK(needs.size() == level, needs.size(), level);
    std::ranges::copy(needs, tensor.needs.begin());
  }
  if (of_type_.size() <= type) of_type_.resize(type + 1);
  const auto id = static_cast<TensorId>(tensors_.size());
  of_type_[type][level].push_back(id);
  tensors_.push_back(tensor);
  return id;
}

// Returns the number of an application. The outputs of one line on the same operands are one
// application.
std::uint32_t TensorTable::number_application(const Application& application) {
  Hash h = hash_combine(1, programs_.operations()[application.operation].line);
  for (auto operand : application.operands) h = hash_combine(h, operand);
  const auto next = static_cast<std::uint32_t>(application_numbers_.size());
  return application_numbers_.try_emplace(h, next).first->second;
}

void TensorTable::compute_tensor(TensorId id, PatternProgram::EvaluationMemory& memory) {
  const auto& tensor = tensors_[id];
  const auto arity = programs_.operations()[tensor.producer.operation].arity;
  std::array<TypeId, kMaxArity> types{};
  std::array<const Field*, kMaxArity> inputs{};
  for (std::size_t i = 0; i < arity; ++i) types[i] = tensors_[tensor.producer.operands[i]].type;
  const auto* program =
      programs_.find_known(tensor.producer.operation, std::span(types).first(arity));
  for (std::size_t draw = 0; draw < kDraws; ++draw) {
    for (std::size_t i = 0; i < arity; ++i) inputs[i] = value(tensor.producer.operands[i], draw);
    program->run(std::span(inputs).first(arity),
                 values_.data() + tensor.value + draw * program->size(), memory);
  }
}

void TensorTable::add_leaves() {
  std::uint32_t number = 0;
  for (const auto& group : variables_) {
    const auto type = programs_.type_id(group.type);
    for (std::size_t i = 0; i < group.count; ++i, ++number) {
      const auto id = add_tensor({.operation = kVariable, .operands = {number}}, type, 0);
      Hash h = mix(type);
      auto at = values_.begin() + static_cast<std::ptrdiff_t>(tensors_[id].value);
      for (std::size_t draw = 0; draw < kDraws; ++draw) {
        const auto values =
            draw_random_values(group.type, group.below, hash_combine(3, number), draw);
        at = std::ranges::copy(values, at).out;
        h = add_to_hash(h, values);
        if (draw == 0) first_draws_.insert(h);
      }
      by_hash_.emplace(h, id);
    }
  }
  PatternProgram::EvaluationMemory memory;
  for (std::size_t o = 0; o < programs_.operations().size(); ++o) {
    if (programs_.operations()[o].arity != 0) continue;
    const auto* program = programs_.find(o, {});
    CHECK(program != nullptr, "a constant that is not legal");
    const auto type = programs_.type_id(program->type());
    const auto id = add_tensor({.operation = static_cast<std::uint16_t>(o)}, type, 0);
    compute_tensor(id, memory);
    first_draws_.insert(add_to_hash(mix(type), std::span(value(id, 0), program->size())));
    by_hash_.emplace(compute_full_hash(tensors_[id].producer, memory), id);
  }
  distinct_ = tensors_.size();
}

// Finds the operations of two operands that give the same result in both orders, for every type
// that has two variables.
void TensorTable::find_commutative() {
  commutes_.assign(programs_.operations().size(), false);
  PatternProgram::EvaluationMemory memory;
  for (std::size_t o = 0; o < commutes_.size(); ++o) {
    if (programs_.operations()[o].arity != 2) continue;
    bool same = true;
    bool tried = false;
    for (const auto& group : variables_) {
      const auto type = programs_.type_id(group.type);
      const std::array types = {type, type};
      const auto* program = programs_.find(o, types);
      if (program == nullptr || group.count < 2) continue;
      const auto a = of_type_[type][0][0];
      const auto b = of_type_[type][0][1];
      std::vector<Field> one(program->size());
      std::vector<Field> other(program->size());
      program->run(std::array{value(a, 0), value(b, 0)}, one.data(), memory);
      program->run(std::array{value(b, 0), value(a, 0)}, other.data(), memory);
      tried = true;
      same = same && one == other;
    }
    commutes_[o] = tried && same;
  }
}

std::size_t TensorTable::compute_union_size(TensorId a, TensorId b) const {
  const auto x = tensors_[a].applications();
  const auto y = tensors_[b].applications();
  std::size_t n = 0;
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < x.size() && j < y.size()) {
    const auto least = std::min(x[i], y[j]);
    i += static_cast<std::size_t>(x[i] == least);
    j += static_cast<std::size_t>(y[j] == least);
    ++n;
  }
  return n + (x.size() - i) + (y.size() - j);
}

void TensorTable::find_partners(std::size_t level) {
  std::vector<std::vector<TensorId>> users(application_numbers_.size());
  for (TensorId id = 0; id < tensors_.size(); ++id) {
    for (auto a : tensors_[id].applications()) users[a].push_back(id);
  }
  partners_.assign(tensors_.size(), {});
  parallel_for(tensors_.size(), threads_, [&](std::size_t i) {
    const auto id = static_cast<TensorId>(i);
    auto& out = partners_[id];
    for (auto a : tensors_[id].applications()) {
      for (auto other : users[a]) {
        if (tensors_[id].level + tensors_[other].level >= level &&
            compute_union_size(id, other) + 1 == level) {
          out.push_back(other);
        }
      }
    }
    std::ranges::sort(out);
    out.erase(std::unique(out.begin(), out.end()), out.end());
  });
}

// Returns the programs of `operation` by types of the second and third operand. Operands from the
// third on are variables or constants.
std::vector<std::vector<TensorTable::OperandChoice>> TensorTable::find_choices(
    std::size_t operation, TypeId first) {
  const auto arity = programs_.operations()[operation].arity;
  const auto types = static_cast<TypeId>(of_type_.size());
  std::vector<std::vector<OperandChoice>> out(arity > 1 ? types : 1);
  for (TypeId second = 0; second < out.size(); ++second) {
    for (TypeId third = 0; third < (arity > 2 ? types : 1); ++third) {
      if (arity > 2 && of_type_[third][0].empty()) continue;
      const std::array key = {first, second, third};
      const auto* program = programs_.find(operation, std::span(key).first(arity));
      if (program != nullptr) out[second].push_back({third, program});
    }
  }
  return out;
}

void TensorTable::add_pieces(std::size_t level, std::vector<Piece>& pieces) {
  for (std::size_t o = 0; o < programs_.operations().size(); ++o) {
    if (programs_.operations()[o].arity == 0) continue;
    for (TypeId first = 0; first < of_type_.size(); ++first) {
      const auto choices = find_choices(o, first);
      const auto is_empty = [](const auto& c) { return c.empty(); };
      if (std::ranges::all_of(choices, is_empty)) continue;
      std::size_t tensors = 0;
      for (std::size_t l = 0; l < level; ++l) tensors += of_type_[first][l].size();
      for (std::size_t begin = 0; begin < tensors; begin += kPieceTensors) {
        pieces.push_back({.operation = static_cast<std::uint16_t>(o),
                          .first = first,
                          .begin = begin,
                          .end = std::min(tensors, begin + kPieceTensors),
                          .choices = choices});
      }
    }
  }
}

void TensorTable::apply(const Application& application, std::size_t arity,
                        const PatternProgram& program, Piece& piece,
                        PatternProgram::EvaluationMemory& memory) const {
  std::array<const Field*, kMaxArity> inputs{};
  bool closed = true;
  for (std::size_t i = 0; i < arity; ++i) {
    closed = closed && tensors_[application.operands[i]].closed;
    inputs[i] = value(application.operands[i], 0);
  }
  piece.found.push_back({.application = application, .type = program.type_id(), .closed = closed});
  memory.result.resize(program.size());
  program.run(std::span(inputs).first(arity), memory.result.data(), memory);
  piece.found.back().hash = add_to_hash(mix(program.type_id()), memory.result);
}

void TensorTable::run_piece(std::size_t level, Piece& piece,
                            PatternProgram::EvaluationMemory& memory) const {
  const auto arity = programs_.operations()[piece.operation].arity;
  std::vector<TensorId> firsts;
  for (std::size_t l = 0; l < level; ++l) {
    firsts.insert(firsts.end(), of_type_[piece.first][l].begin(), of_type_[piece.first][l].end());
  }
  const auto with_second = [&](TensorId first, TensorId second) {
    if (commutes_[piece.operation] && second < first) return;
    for (const auto& choice : piece.choices[tensors_[second].type]) {
      Application application{.operation = piece.operation, .operands = {first, second}};
      if (arity == 2) {
        apply(application, arity, *choice.program, piece, memory);
        continue;
      }
      for (auto leaf : of_type_[choice.third][0]) {
        application.operands[2] = leaf;
        apply(application, arity, *choice.program, piece, memory);
      }
    }
  };
  for (auto i = piece.begin; i < piece.end; ++i) {
    const auto first = firsts[i];
    const std::size_t below = level - 1 - tensors_[first].level;
    if (arity == 1) {
      if (below == 0) {
        apply({.operation = piece.operation, .operands = {first}}, arity,
              *piece.choices[0][0].program, piece, memory);
      }
      continue;
    }
    for (TypeId type = 0; type < piece.choices.size(); ++type) {
      if (piece.choices[type].empty()) continue;
      for (auto second : of_type_[type][below]) {
        if (compute_union_size(first, second) + 1 == level) with_second(first, second);
      }
    }
    for (auto second : partners_[first]) {
      if (tensors_[second].level > below) with_second(first, second);
    }
  }
}

namespace {

// Retains the hashes that occur more than once in a sorted list, each once. Example: 1 1 2 3 3 3 ->
// 1 3.
void keep_repeated(std::vector<Hash>& sorted) {
  std::size_t retained = 0;
  for (std::size_t i = 0; i + 1 < sorted.size(); ++i) {
    const bool again = sorted[i] == sorted[i + 1];
    if (again && (retained == 0 || sorted[retained - 1] != sorted[i]))
      sorted[retained++] = sorted[i];
  }
  sorted.resize(retained);
}

// Returns which of `ranges` ascending ranges of equal length contains `hash`.
std::size_t find_range(Hash hash, unsigned ranges) {
  return static_cast<std::size_t>((static_cast<unsigned __int128>(hash) * ranges) >> 64U);
}

}  // namespace

// Replaces hashes of the first draw by hashes of all draws where the first draw is not unique.
void TensorTable::refine(std::vector<Piece>& pieces, bool all,
                         std::vector<PatternProgram::EvaluationMemory>& memories) {
  std::vector<HashSet> repeated(threads_);  // by range
  parallel_for(all ? 0 : threads_, threads_, [&](std::size_t range) {
    std::vector<Hash> hashes;
    for (const auto& piece : pieces) {
      for (const auto& found : piece.found) {
        if (find_range(found.hash, threads_) == range) hashes.push_back(found.hash);
      }
    }
    std::ranges::sort(hashes);
    keep_repeated(hashes);
    for (auto h : hashes) repeated[range].insert(h);
  });
  const auto is_alone = [&](Hash h) {
    return !repeated[find_range(h, threads_)].contains(h) && !first_draws_.contains(h);
  };
  std::atomic<std::size_t> next = 0;
  parallel_for(threads_, threads_, [&](std::size_t thread) {
    for (auto i = next++; i < pieces.size(); i = next++) {
      throw_if_stopped();
      for (auto& found : pieces[i].found) {
        found.first_draw = found.hash;
        if (all || !is_alone(found.hash)) {
          found.hash = compute_full_hash(found.application, memories[thread]);
        }
      }
    }
  });
}

// Adds the tensors with new hashes to the table. The others become equalities.
void TensorTable::store_results(const std::vector<Piece>& pieces, std::size_t level) {
  PatternProgram::EvaluationMemory memory;
  for (const auto& piece : pieces) {
    for (const auto& found : piece.found) {
      if (found.closed && !by_hash_.contains(found.hash)) continue;
      const auto [at, fresh] = by_hash_.try_emplace(found.hash, 0);
      if (fresh) {
        at->second = add_tensor(found.application, found.type, level);
        compute_tensor(at->second, memory);
        first_draws_.insert(found.first_draw);
        ++distinct_;
      } else {
        equalities_.push_back({found.application, tensors_[at->second].producer});
      }
    }
  }
}

// Compares the results of the highest level, sorted by hash. Each is compared with a tensor of the
// table, or with the first result of the same hash.
void TensorTable::compare_results(const std::vector<Piece>& pieces) {
  struct ApplicationPlace {
    Hash hash;
    std::uint32_t piece, at;
    bool operator<(const ApplicationPlace& o) const {
      return std::tie(hash, piece, at) < std::tie(o.hash, o.piece, o.at);
    }
  };
  struct RangeComparison {
    std::vector<Equality> equalities;
    std::size_t distinct = 0;
  };
  std::vector<RangeComparison> compared(threads_);  // by range
  const auto application = [&](const ApplicationPlace& place) {
    return pieces[place.piece].found[place.at].application;
  };
  parallel_for(threads_, threads_, [&](std::size_t range) {
    std::vector<ApplicationPlace> places;
    auto& out = compared[range];
    for (std::uint32_t p = 0; p < pieces.size(); ++p) {
      for (std::uint32_t i = 0; i < pieces[p].found.size(); ++i) {
        const auto& found = pieces[p].found[i];
        if (find_range(found.hash, threads_) != range) continue;
        if (found.hash == found.first_draw) {
          ++out.distinct;
        } else {
          places.push_back({found.hash, p, i});
        }
      }
    }
    std::ranges::sort(places, std::less<>());
    for (std::size_t i = 0; i < places.size();) {
      const auto known = by_hash_.find(places[i].hash);
      const bool first_is_new = known == by_hash_.end();
      const auto right = first_is_new ? application(places[i]) : tensors_[known->second].producer;
      if (first_is_new) ++out.distinct;
      for (std::size_t j = i; i < places.size() && places[i].hash == places[j].hash; ++i) {
        if (i != j || !first_is_new) out.equalities.push_back({application(places[i]), right});
      }
    }
  });
  for (const auto& c : compared) {
    distinct_ += c.distinct;
    equalities_.insert(equalities_.end(), c.equalities.begin(), c.equalities.end());
  }
}

void TensorTable::fill(std::size_t levels,
                       const std::function<void(const TableProgress&)>& progress) {
  CHECK(levels <= TableTensor::kMaxLevel);
  std::vector<PatternProgram::EvaluationMemory> memories(threads_);
  for (std::size_t level = 1; level <= levels; ++level) {
    find_partners(level);
    std::vector<Piece> pieces;
    add_pieces(level, pieces);
    of_type_.resize(programs_.type_count());
    std::atomic<std::size_t> done = 0;
    std::atomic<std::size_t> graphs = graphs_;
    // Each thread takes the next piece and works in its own memory.
    std::atomic<std::size_t> next = 0;
    parallel_for(threads_, threads_, [&](std::size_t thread) {
      for (auto i = next++; i < pieces.size(); i = next++) {
        throw_if_stopped();
        run_piece(level, pieces[i], memories[thread]);
        graphs += pieces[i].found.size();
        ++done;
        if (thread == 0 && progress) {
          progress({.graphs = graphs, .done = done, .of = pieces.size(), .level = level});
        }
      }
    });
    graphs_ = graphs;
    refine(pieces, level < levels, memories);
    if (level < levels) {
      store_results(pieces, level);
    } else {
      compare_results(pieces);
    }
  }
}

}  // namespace tandem::generate
