#include "generate/equations.h"

#include <algorithm>

#include "base/hash_set.h"
#include "base/parallel.h"

namespace tandem::generate {

FormulaReader::FormulaReader(const TensorTable& table, Formulas& formulas)
    : table_(table), formulas_(formulas), of_tensor_(table.tensors().size(), ~FormulaId{0}) {
  for (const auto& group : table.variables()) {
    const auto type = formulas.programs().type_id(group.type);
    for (std::uint32_t i = 0; i < group.count; ++i)
      of_variable_.push_back(formulas.add_variable(type, i));
  }
}

FormulaId FormulaReader::read(TensorId id) {
  if (of_tensor_[id] == ~FormulaId{0}) of_tensor_[id] = read(table_.tensors()[id].producer);
  return of_tensor_[id];
}

FormulaId FormulaReader::read(const Application& application) {
  if (application.operation == kVariable) return of_variable_[application.operands[0]];
  const auto arity = formulas_.programs().operations()[application.operation].arity;
  std::array<FormulaId, kMaxArity> operands{};
  for (std::size_t i = 0; i < arity; ++i) operands[i] = read(application.operands[i]);
  const auto out = formulas_.apply(application.operation, std::span(operands).first(arity));
  CHECK(out.has_value());
  return *out;
}

std::map<TypeId, std::int64_t> list_index_types(TensorTable& table) {
  std::map<TypeId, std::int64_t> out;
  for (const auto& group : table.variables()) {
    if (group.below > 0) out.emplace(table.programs().type_id(group.type), group.below);
  }
  return out;
}

namespace {

// Hashes an equality of the table with its variables numbered by first use.
class NamelessHash {
 public:
  explicit NamelessHash(const TensorTable& table)
      : tensors_(table.tensors()), operations_(table.programs().operations()) {
    for (const auto& tensor : tensors_) {  // variables come first
      if (tensor.producer.operation == kVariable) type_of_.push_back(tensor.type);
    }
    number_.assign(type_of_.size(), -1);
  }

  Hash compute(const Equality& equality) {
    for (auto v : used_) number_[v] = -1;
    used_.clear();
    return hash_combine(add(equality.left), add(equality.right));
  }

 private:
  Hash add(const Application& application) {
    if (application.operation == kVariable) {
      const auto v = application.operands[0];
      if (number_[v] < 0) {
        number_[v] = static_cast<int>(used_.size());
        used_.push_back(v);
      }
      return hash_combine(hash_combine(2, static_cast<Hash>(number_[v])), type_of_[v]);
    }
    Hash h = hash_combine(1, application.operation);
    for (std::size_t i = 0; i < operations_[application.operation].arity; ++i) {
      h = hash_combine(h, add(tensors_[application.operands[i]].producer));
    }
    return h;
  }

  const std::vector<TableTensor>& tensors_;
  const std::vector<GeneratorOperation>& operations_;
  std::vector<TypeId> type_of_;
  std::vector<int> number_;
  std::vector<TensorId> used_;
};

}  // namespace

std::vector<Equality> drop_renamings(const TensorTable& table, unsigned threads) {
  const auto& all = table.equalities();
  std::vector<Hash> hashes(all.size());
  const std::size_t pieces = threads;
  parallel_for(pieces, threads, [&](std::size_t piece) {
    NamelessHash hash(table);
    const auto end = all.size() * (piece + 1) / pieces;
    for (auto i = all.size() * piece / pieces; i < end; ++i) hashes[i] = hash.compute(all[i]);
  });
  HashSet seen;
  std::vector<Equality> out;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (seen.insert(hashes[i])) out.push_back(all[i]);
  }
  return out;
}

Hash compute_nameless_hash(const Formulas& formulas, const Equation& equation) {
  std::vector<FormulaId> variables;  // by first use
  const auto add = [&](const auto& self, FormulaId id) -> Hash {
    const auto& f = formulas[id];
    if (f.is_variable()) {
      const auto at = std::ranges::find(variables, id);
      const auto number = static_cast<Hash>(at - variables.begin());
      if (at == variables.end()) variables.push_back(id);
      return mix((number << 32U) | f.type);
    }
    Hash h = hash_combine(f.operation, f.type);
    for (auto o : formulas.operands(id)) h = mix(h ^ self(self, o));
    return h;
  };
  Hash h = 0;
  for (const auto* side : {&equation.left, &equation.right}) {
    h = hash_combine(h, side->size());
    for (auto root : *side) h = mix(h ^ add(add, root));
  }
  return h;
}

namespace {

std::vector<FormulaId> list_parts(const Formulas& formulas, const std::vector<FormulaId>& roots) {
  std::vector<FormulaId> out;
  for (auto root : roots) {
    for (auto p : formulas.list_parts(root)) {
      if (std::ranges::find(out, p) == out.end()) out.push_back(p);
    }
  }
  return out;
}

std::optional<std::vector<FormulaId>> replace_all(Formulas& formulas,
                                                  const std::vector<FormulaId>& roots,
                                                  std::initializer_list<Formulas::Image> images) {
  std::vector<FormulaId> out;
  for (auto root : roots) {
    const auto image = formulas.replace(root, images);
    if (!image) return std::nullopt;
    out.push_back(*image);
  }
  return out;
}

std::uint32_t find_free_number(const Formulas& formulas, const std::vector<FormulaId>& parts,
                               TypeId type) {
  std::uint32_t next = 0;
  for (auto p : parts) {
    const auto& f = formulas[p];
    if (f.is_variable() && f.type == type) next = std::max(next, f.operands[0] + 1);
  }
  return next;
}

}  // namespace

Equation generalize_equation(Formulas& formulas, Equation equation) {
  for (bool again = true; again;) {
    again = false;
    const auto left = list_parts(formulas, equation.left);
    const auto right = list_parts(formulas, equation.right);
    auto all = left;
    all.insert(all.end(), right.begin(), right.end());
    // Larger parts come later, so they are tried first.
    for (std::size_t i = left.size(); i-- > 0 && !again;) {
      const auto part = left[i];
      if (formulas[part].is_variable() || std::ranges::find(right, part) == right.end()) continue;
      const auto type = formulas[part].type;
      const auto fresh = formulas.add_variable(type, find_free_number(formulas, all, type));
      const auto a = replace_all(formulas, equation.left, {{part, fresh}});
      const auto b = replace_all(formulas, equation.right, {{part, fresh}});
      if (!a || !b) continue;
      const bool holds = std::ranges::equal(
          *a, *b, [&](FormulaId x, FormulaId y) { return formulas.are_equal(x, y); });
      if (!holds) continue;
      equation = {*a, *b};
      again = true;
    }
  }
  return equation;
}

namespace {

// Returns the formula with the occurrences of `variable`, in reading order, replaced by the next
// `images`. Returns nullopt if that is not legal.
std::optional<FormulaId> replace_occurrences(Formulas& formulas, FormulaId id, FormulaId variable,
                                             std::span<const FormulaId> images, std::size_t& next) {
  const auto f = formulas[id];
  if (f.is_variable()) return id == variable ? images[next++] : id;
  std::array<FormulaId, kMaxArity> operands{};
  const auto arity = formulas.operands(id).size();
  for (std::size_t i = 0; i < arity; ++i) {
    const auto image = replace_occurrences(formulas, f.operands[i], variable, images, next);
    if (!image) return std::nullopt;
    operands[i] = *image;
  }
  return formulas.apply(f.operation, std::span(operands).first(arity));
}

std::size_t count_occurrences(const Formulas& formulas, FormulaId id, FormulaId variable) {
  if (id == variable) return 1;
  std::size_t n = 0;
  for (auto o : formulas.operands(id)) n += count_occurrences(formulas, o, variable);
  return n;
}

// Returns all partitions of n places, as the class of each place, those with more classes first.
// Example: 2 -> {0, 1}, {0, 0}.
std::vector<std::vector<std::uint32_t>> list_partitions(std::size_t n) {
  std::vector<std::vector<std::uint32_t>> out = {{0}};
  for (std::size_t i = 1; i < n; ++i) {
    std::vector<std::vector<std::uint32_t>> longer;
    for (const auto& p : out) {
      const auto most = *std::ranges::max_element(p) + 1;
      for (std::uint32_t c = 0; c <= most; ++c) {
        longer.push_back(p);
        longer.back().push_back(c);
      }
    }
    out = std::move(longer);
  }
  std::ranges::stable_sort(out, std::greater<>(),
                           [](const auto& p) { return *std::ranges::max_element(p); });
  return out;
}

std::optional<Equation> split_variable(Formulas& formulas, const Equation& equation,
                                       FormulaId variable, std::span<const FormulaId> images) {
  std::size_t next = 0;
  const auto left = replace_occurrences(formulas, equation.left[0], variable, images, next);
  if (!left) return std::nullopt;
  const auto right = replace_occurrences(formulas, equation.right[0], variable, images, next);
  if (!right || !formulas.are_equal(*left, *right)) return std::nullopt;
  return Equation{{*left}, {*right}};
}

}  // namespace

Equation split_variables(Formulas& formulas, Equation equation) {
  constexpr std::size_t kMostPlaces = 6;
  auto variables = list_parts(formulas, {equation.left[0], equation.right[0]});
  std::erase_if(variables, [&](FormulaId p) { return !formulas[p].is_variable(); });
  for (auto variable : variables) {
    const auto n = count_occurrences(formulas, equation.left[0], variable) +
                   count_occurrences(formulas, equation.right[0], variable);
    if (n < 2 || n > kMostPlaces) continue;
    const auto type = formulas[variable].type;
    const auto parts = list_parts(formulas, {equation.left[0], equation.right[0]});
    const auto fresh = find_free_number(formulas, parts, type);
    for (const auto& classes : list_partitions(n)) {
      std::vector<FormulaId> images;
      images.reserve(classes.size());
      for (auto c : classes) {
        images.push_back(c == 0 ? variable : formulas.add_variable(type, fresh + c));
      }
      const auto changed = split_variable(formulas, equation, variable, images);
      if (!changed) continue;
      equation = *changed;
      break;
    }
  }
  return equation;
}

bool holds_for_more_values(Formulas& formulas, const Equation& equation) {
  constexpr std::uint32_t kTimes = 8;
  constexpr std::uint32_t kOthers = 64;  // larger than any variable's number
  const auto parts = list_parts(formulas, {equation.left[0], equation.right[0]});
  for (std::uint32_t t = 1; t <= kTimes; ++t) {
    std::vector<Formulas::Image> others;
    for (auto p : parts) {
      const auto f = formulas[p];
      if (!f.is_variable()) continue;
      others.push_back({p, formulas.add_variable(f.type, f.operands[0] + kOthers * t)});
    }
    const auto left = formulas.replace(equation.left[0], others);
    const auto right = formulas.replace(equation.right[0], others);
    if (!left || !right || !formulas.are_equal(*left, *right)) return false;
  }
  return true;
}

bool is_unbound(const Formulas& formulas, const Equation& equation) {
  std::vector<FormulaId> left;
  std::vector<FormulaId> right;
  for (auto p : list_parts(formulas, equation.left)) {
    if (formulas[p].is_variable()) left.push_back(p);
  }
  for (auto p : list_parts(formulas, equation.right)) {
    if (formulas[p].is_variable()) right.push_back(p);
  }
  std::ranges::sort(left);
  std::ranges::sort(right);
  return !std::ranges::includes(left, right) && !std::ranges::includes(right, left);
}

namespace {

// Writes formulas as a list of numbers that does not depend on variable names or on the order of
// commutative operands. The operand whose shape hash is smaller is written first. If the hashes
// agree, both orders are tried.
class Writer {
 public:
  Writer(const TensorTable& table, Formulas& formulas) : table_(table), formulas_(formulas) {}

  struct WrittenEquation {
    std::vector<std::uint32_t> text;
    std::map<FormulaId, FormulaId> images;  // images of variables
    std::map<FormulaId, bool> swapped;      // commutative formulas whose operands are exchanged
  };

  WrittenEquation write_best(const std::vector<FormulaId>& first,
                             const std::vector<FormulaId>& second) {
    std::vector<FormulaId> ties;
    for (const auto* roots : {&first, &second}) {
      for (auto p : list_parts(formulas_, *roots)) {
        if (!commutes(p) || std::ranges::find(ties, p) != ties.end()) continue;
        if (compute_shape_hash(formulas_[p].operands[0]) ==
            compute_shape_hash(formulas_[p].operands[1]))
          ties.push_back(p);
      }
    }
    constexpr std::size_t kMostTies = 6;
    const auto tried = std::min(ties.size(), kMostTies);
    WrittenEquation out;
    for (std::size_t choice = 0; choice < (std::size_t{1} << tried); ++choice) {
      WrittenEquation written;
      for (std::size_t t = 0; t < tried; ++t) written.swapped[ties[t]] = ((choice >> t) & 1U) != 0;
      next_.clear();
      for (const auto* roots : {&first, &second}) {
        for (auto root : *roots) write(root, written);
      }
      if (choice == 0 || written.text < out.text) out = std::move(written);
    }
    return out;
  }

 private:
  [[nodiscard]] bool commutes(FormulaId id) const {
    const auto& f = formulas_[id];
    return !f.is_variable() && table_.commutes(f.operation);
  }

  // Returns a hash that ignores names.
  Hash compute_shape_hash(FormulaId id) {
    if (const auto known = shapes_.find(id); known != shapes_.end()) return known->second;
    const auto& f = formulas_[id];
    Hash h = hash_combine(hash_combine(1, f.operation), f.type);
    if (commutes(id)) {
      h = hash_combine(h, compute_shape_hash(f.operands[0]) + compute_shape_hash(f.operands[1]));
    } else {
      for (auto o : formulas_.operands(id)) h = hash_combine(h, compute_shape_hash(o));
    }
    return shapes_[id] = h;
  }

  void write(FormulaId id, WrittenEquation& out) {
    const auto f = formulas_[id];
    if (f.is_variable()) {
      auto image = out.images.find(id);
      if (image == out.images.end()) {
        image = out.images.emplace(id, formulas_.add_variable(f.type, next_[f.type]++)).first;
      }
      out.text.push_back(0x10000U + image->second);
      return;
    }
    out.text.push_back(f.operation);
    const auto arity = formulas_.operands(id).size();
    if (commutes(id)) {
      const auto a = compute_shape_hash(f.operands[0]);
      const auto b = compute_shape_hash(f.operands[1]);
      const bool swap = a == b ? out.swapped[id] : b < a;
      out.swapped[id] = swap;
      write(f.operands[swap ? 1 : 0], out);
      write(f.operands[swap ? 0 : 1], out);
      return;
    }
    for (std::size_t i = 0; i < arity; ++i) write(f.operands[i], out);
  }

  const TensorTable& table_;
  Formulas& formulas_;
  std::map<TypeId, std::uint32_t> next_;
  std::map<FormulaId, Hash> shapes_;
};

FormulaId rebuild_formula(Formulas& formulas, FormulaId id, Writer::WrittenEquation& written) {
  const auto f = formulas[id];
  if (f.is_variable()) return written.images.at(id);
  std::array<FormulaId, kMaxArity> operands{};
  const auto arity = formulas.operands(id).size();
  for (std::size_t i = 0; i < arity; ++i)
    operands[i] = rebuild_formula(formulas, f.operands[i], written);
  const auto swapped = written.swapped.find(id);
  if (swapped != written.swapped.end() && swapped->second) std::swap(operands[0], operands[1]);
  const auto out = formulas.apply(f.operation, std::span(operands).first(arity));
  CHECK(out.has_value());
  return *out;
}

}  // namespace

Equation normalize_equation(const TensorTable& table, Formulas& formulas,
                            const Equation& equation) {
  Writer writer(table, formulas);
  auto forward = writer.write_best(equation.left, equation.right);
  auto backward = writer.write_best(equation.right, equation.left);
  const auto left = formulas.operators(equation.left);
  const auto right = formulas.operators(equation.right);
  const bool swap = left == right ? backward.text < forward.text : left < right;
  auto& chosen = swap ? backward : forward;
  Equation out;
  for (auto root : equation.left) out.left.push_back(rebuild_formula(formulas, root, chosen));
  for (auto root : equation.right) out.right.push_back(rebuild_formula(formulas, root, chosen));
  if (swap) std::swap(out.left, out.right);
  return out;
}

}  // namespace tandem::generate
