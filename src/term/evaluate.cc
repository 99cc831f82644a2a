#include "term/evaluate.h"

#include <algorithm>

#include "base/check.h"
#include "base/random.h"
#include "base/stop.h"

namespace tandem::term {

std::vector<FactorRange> make_full_ranges(const IndexMap& map) {
  std::vector<FactorRange> ranges;
  for (const auto& f : map.factors) ranges.push_back({f.size, f.size, 0});
  return ranges;
}

Box compute_box(const Dims& dims, std::span<const FactorRange> ranges) {
  Box box;
  for (const auto& dim : dims) {
    std::int64_t first = dim.at.constant;
    std::int64_t last = dim.at.constant;
    for (const auto& part : dim.at.parts) {
      const auto& r = ranges[part.factor];
      const auto a = part.coefficient * r.offset;
      const auto b = part.coefficient * (r.offset + r.local - 1);
      first += std::min(a, b);
      last += std::max(a, b);
    }
    first = std::clamp(first, std::int64_t{0}, dim.size);
    last = std::clamp(last + 1, first, dim.size);
    box.offset.push_back(first);
    box.size.push_back(last - first);
  }
  return box;
}

namespace {

std::vector<FactorId> list_factors(FactorMask mask) {
  std::vector<FactorId> out;
  for (FactorId f = 0; f < IndexMap::kMaxFactors; ++f) {
    if ((mask & bit(f)) != 0) out.push_back(f);
  }
  return out;
}

// Returns the factors of `output` in the order of its elements, the fastest last.
std::vector<FactorId> list_output_factors(const Dims& output) {
  std::vector<FactorId> out;
  for (const auto& dim : output) {
    for (const auto& part : dim.at.parts) out.push_back(part.factor);
  }
  return out;
}

}  // namespace

template <class T>
Evaluation<T>::Evaluation(const BoundTerm& term, std::vector<FactorRange> ranges,
                          std::vector<Operand<T>> inputs, Draw draw)
    : term_(term),
      ranges_(std::move(ranges)),
      inputs_(std::move(inputs)),
      draw_(draw),
      tables_(term.nodes.size()),
      point_(ranges_.size(), 0) {
  for (std::uint32_t n = 0; n < term_.nodes.size(); ++n) {
    if (term_.nodes[n].kind == Kind::kSum || term_.nodes[n].kind == Kind::kMax) fill_table(n);
  }
}

template <class T>
template <class Visit>
void Evaluation<T>::for_each_point(std::span<const FactorId> factors, Visit&& visit) {
  // for_each_index does not fit: a term may run over more factors than a tensor has dimensions.
  for (auto f : factors) {
    if (ranges_[f].local == 0) return;
    point_[f] = 0;
  }
  while (true) {
    visit();
    std::size_t d = factors.size();
    while (d > 0 && ++point_[factors[d - 1]] == ranges_[factors[d - 1]].local) {
      point_[factors[--d]] = 0;
    }
    if (d == 0) return;
  }
}

template <class T>
std::size_t Evaluation<T>::compute_table_position(const ReductionTable& table) const {
  std::int64_t flat = 0;
  for (auto f : table.factors) flat = flat * ranges_[f].local + point_[f];
  return static_cast<std::size_t>(flat);
}

template <class T>
std::int64_t Evaluation<T>::compute_read_position(const BoundNode& node) const {
  const auto& in = inputs_[node.input];
  std::int64_t flat = 0;
  for (std::size_t d = 0; d < node.at.size(); ++d) {
    std::int64_t i = node.at[d].constant;
    for (const auto& part : node.at[d].parts) i += part.coefficient * global_index(part.factor);
    if (i < 0 || i >= in.whole[d]) return -1;
    i -= in.offset[d];
    const auto size = in.values->shape[d];
    CHECK(i >= 0 && i < size, "a read outside the block of input", node.input);
    flat = flat * size + i;
  }
  return flat;
}

template <class T>
bool Evaluation<T>::is_retained(const BoundNode& node) const {
  std::int64_t flat = 0;
  for (auto f : node.dims) flat = flat * ranges_[f].global + global_index(f);
  return draw_uniform(draw_.seed, draw_.step, static_cast<std::uint64_t>(node.origin),
                      static_cast<std::uint64_t>(flat)) < node.constant;
}

template <class T>
bool Evaluation<T>::is_guarded_out(const BoundNode& node) const {
  return node.has_guard && evaluate_at_point(node.b) == T{};
}

template <class T>
T Evaluation<T>::evaluate_at_point(std::uint32_t id) const {
  using N = Numbers<T>;
  const BoundNode& node = term_.nodes[id];
  switch (node.kind) {
    case Kind::kConstant:
      return N::from(node.constant);
    case Kind::kExtent: {
      std::int64_t n = 1;
      for (auto f : list_factors(node.over)) n *= ranges_[f].global;
      return N::from_index(n);
    }
    case Kind::kIndex:
      return N::from_index(global_index(node.dims[0]));
    case Kind::kInput: {
      const auto at = compute_read_position(node);
      return at < 0 ? T{} : inputs_[node.input].values->data[static_cast<std::size_t>(at)];
    }
    case Kind::kInside:
      return N::from_index(compute_read_position(node) < 0 ? 0 : 1);
    case Kind::kKeep:
      return N::from_index(is_retained(node) ? 1 : 0);
    case Kind::kAdd:
      return evaluate_at_point(node.a) + evaluate_at_point(node.b);
    case Kind::kMul:
      return evaluate_at_point(node.a) * evaluate_at_point(node.b);
    case Kind::kDiv:
      return N::divide(evaluate_at_point(node.a), evaluate_at_point(node.b));
    case Kind::kEqual:
      return evaluate_at_point(node.a) == evaluate_at_point(node.b) ? N::from_index(1) : T{};
    case Kind::kLess:
      return N::from_index(N::greater(evaluate_at_point(node.b), evaluate_at_point(node.a)) ? 1
                                                                                            : 0);
    case Kind::kFunction:
      return N::apply(node.function, evaluate_at_point(node.a));
    case Kind::kSum:
    case Kind::kMax:
      return tables_[id].values[compute_table_position(tables_[id])];
  }
  CHECK(false);
}

template <class T>
void Evaluation<T>::fill_table(std::uint32_t id) {
  const BoundNode& node = term_.nodes[id];
  ReductionTable& table = tables_[id];
  table.factors = list_factors(node.free);
  const auto over = list_factors(node.over);
  for_each_point(table.factors, [&] {
    throw_if_stopped();
    T total = node.kind == Kind::kSum ? T{} : Numbers<T>::lowest();
    for_each_point(over, [&] {
      if (is_guarded_out(node)) return;
      const T value = evaluate_at_point(node.a);
      if (node.kind == Kind::kSum) {
        total += value;
      } else if (Numbers<T>::greater(value, total)) {
        total = value;
      }
    });
    table.values.push_back(total);
  });
}

template <class T>
Dense<T> Evaluation<T>::forward(const Dims& output) {
  Dense<T> out(compute_box(output, ranges_).size);
  std::size_t at = 0;
  const auto root = static_cast<std::uint32_t>(term_.nodes.size() - 1);
  throw_if_stopped();
  for_each_point(list_output_factors(output), [&] { out.data[at++] = evaluate_at_point(root); });
  CHECK(at == out.data.size());
  return out;
}

template <class T>
void Evaluation<T>::push(std::uint32_t id, T adjoint) {
  using N = Numbers<T>;
  if (adjoint == T{}) return;
  const BoundNode& node = term_.nodes[id];
  switch (node.kind) {
    case Kind::kConstant:
    case Kind::kExtent:
    case Kind::kIndex:
    case Kind::kInside:
    case Kind::kKeep:
    case Kind::kEqual:
    case Kind::kLess:
      return;
    case Kind::kInput: {
      const auto at = compute_read_position(node);
      if (at >= 0 && grads_[node.input] != nullptr) {
        grads_[node.input]->data[static_cast<std::size_t>(at)] += adjoint;
      }
      return;
    }
    case Kind::kAdd:
      push(node.a, adjoint);
      push(node.b, adjoint);
      return;
    case Kind::kMul:
      push(node.a, adjoint * evaluate_at_point(node.b));
      push(node.b, adjoint * evaluate_at_point(node.a));
      return;
    case Kind::kDiv: {
      const T b = evaluate_at_point(node.b);
      const T quotient = N::divide(adjoint, b);
      push(node.a, quotient);
      push(node.b, N::from_index(-1) * N::divide(quotient * evaluate_at_point(node.a), b));
      return;
    }
    case Kind::kFunction:
      push(node.a, adjoint * N::derivative(node.function, evaluate_at_point(node.a)));
      return;
    case Kind::kMax:
      if (!node.has_gradient) return;
      [[fallthrough]];
    case Kind::kSum:
      tables_[id].adjoints[compute_table_position(tables_[id])] += adjoint;
      return;
  }
}

template <class T>
void Evaluation<T>::push_reduction(std::uint32_t id) {
  const BoundNode& node = term_.nodes[id];
  const auto over = list_factors(node.over);
  for_each_point(tables_[id].factors, [&] {
    throw_if_stopped();
    const auto at = compute_table_position(tables_[id]);
    const T adjoint = tables_[id].adjoints[at];
    if (adjoint == T{}) return;
    if (node.kind == Kind::kMax) return push_to_maximum(id, tables_[id].values[at], adjoint);
    for_each_point(over, [&] { push(node.a, adjoint); });
  });
}

template <class T>
void Evaluation<T>::push_to_maximum(std::uint32_t id, T maximum, T adjoint) {
  const BoundNode& node = term_.nodes[id];
  bool done = false;
  for_each_point(list_factors(node.over), [&] {
    if (done || is_guarded_out(node) || !(evaluate_at_point(node.a) == maximum)) return;
    done = true;
    push(node.a, adjoint);
  });
}

template <class T>
void Evaluation<T>::backward(const Dims& output, const Dense<T>& output_gradient,
                             std::vector<Dense<T>*> grads) {
  CHECK(output_gradient.shape == compute_box(output, ranges_).size);
  grads_ = std::move(grads);
  for (auto& table : tables_) table.adjoints.assign(table.values.size(), T{});
  std::size_t at = 0;
  const auto root = static_cast<std::uint32_t>(term_.nodes.size() - 1);
  for_each_point(list_output_factors(output), [&] { push(root, output_gradient.data[at++]); });
  // Parents come after children, so every adjoint is complete when the loop reaches its reduction.
  for (std::uint32_t n = root + 1; n-- > 0;) {
    const BoundNode& node = term_.nodes[n];
    if (node.kind == Kind::kSum || (node.kind == Kind::kMax && node.has_gradient)) {
      push_reduction(n);
    }
  }
}

template class Evaluation<double>;
template class Evaluation<Field>;

}  // namespace tandem::term
