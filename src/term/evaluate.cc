#include "term/evaluate.h"

#include "base/check.h"

namespace tandem::term {

std::vector<FactorRange> whole_ranges(const IndexMap& map) {
  std::vector<FactorRange> ranges;
  for (const auto& f : map.factors) ranges.push_back({f.size, f.size, 0});
  return ranges;
}

namespace {
std::vector<FactorId> factors_in(FactorMask mask) {
  std::vector<FactorId> out;
  for (FactorId f = 0; f < IndexMap::kMaxFactors; ++f) {
    if ((mask & bit(f)) != 0) out.push_back(f);
  }
  return out;
}
}  // namespace

template <class T>
Evaluation<T>::Evaluation(const BoundTerm& term, std::vector<FactorRange> ranges,
                          std::vector<const Dense<T>*> inputs)
    : term_(term),
      ranges_(std::move(ranges)),
      inputs_(std::move(inputs)),
      tables_(term.nodes.size()),
      point_(ranges_.size(), 0) {
  for (std::uint32_t n = 0; n < term_.nodes.size(); ++n) {
    if (term_.nodes[n].kind == Kind::kSum || term_.nodes[n].kind == Kind::kMax) fill(n);
  }
}

template <class T>
Shape Evaluation<T>::local_shape(std::span<const FactorId> dims) const {
  Shape shape;
  for (auto f : dims) shape.push_back(ranges_[f].local);
  return shape;
}

template <class T>
template <class Visit>
void Evaluation<T>::for_each_point(std::span<const FactorId> dims, Visit&& visit) {
  for_each_index(local_shape(dims), [&](const Shape& index) {
    for (std::size_t d = 0; d < dims.size(); ++d) point_[dims[d]] = index[d];
    visit();
  });
}

template <class T>
std::size_t Evaluation<T>::position(const Table& table) const {
  std::int64_t flat = 0;
  for (std::size_t d = 0; d < table.dims.size(); ++d) {
    flat = flat * table.shape[d] + point_[table.dims[d]];
  }
  return static_cast<std::size_t>(flat);
}

template <class T>
std::int64_t Evaluation<T>::read_position(const BoundNode& node) const {
  const Shape& shape = inputs_[node.input]->shape;
  std::int64_t flat = 0;
  for (std::size_t d = 0; d < node.at.size(); ++d) {
    std::int64_t i = point_[node.at[d]];
    if (d == node.shifted) i -= node.shift;
    if (i < 0 || i >= shape[d]) return -1;
    flat = flat * shape[d] + i;
  }
  return flat;
}

template <class T>
T Evaluation<T>::at_point(std::uint32_t id) const {
  using N = Numbers<T>;
  const BoundNode& node = term_.nodes[id];
  switch (node.kind) {
    case Kind::kConstant:
      return N::from(node.constant);
    case Kind::kExtent: {
      std::int64_t n = 1;
      for (auto f : factors_in(node.over)) n *= ranges_[f].global;
      return N::from_index(n);
    }
    case Kind::kIndex:
      return N::from_index(ranges_[node.factor].offset + point_[node.factor]);
    case Kind::kInput: {
      const auto at = read_position(node);
      return at < 0 ? T{} : inputs_[node.input]->data[static_cast<std::size_t>(at)];
    }
    case Kind::kAdd:
      return at_point(node.a) + at_point(node.b);
    case Kind::kMul:
      return at_point(node.a) * at_point(node.b);
    case Kind::kDiv:
      return N::divide(at_point(node.a), at_point(node.b));
    case Kind::kEqual:
      return at_point(node.a) == at_point(node.b) ? N::from_index(1) : T{};
    case Kind::kFunction:
      return N::apply(node.function, at_point(node.a));
    case Kind::kSum:
    case Kind::kMax:
      return tables_[id].values[position(tables_[id])];
  }
  CHECK(false);
}

template <class T>
void Evaluation<T>::fill(std::uint32_t id) {
  const BoundNode& node = term_.nodes[id];
  Table& table = tables_[id];
  table.dims = factors_in(node.free);
  table.shape = local_shape(table.dims);
  const auto over = factors_in(node.over);
  for_each_point(table.dims, [&] {
    T total{};
    bool first = true;
    for_each_point(over, [&] {
      const T value = at_point(node.a);
      if (node.kind == Kind::kSum) {
        total += value;
      } else if (first || Numbers<T>::greater(value, total)) {
        total = value;
      }
      first = false;
    });
    table.values.push_back(total);
  });
}

template <class T>
Dense<T> Evaluation<T>::forward(std::span<const FactorId> dims) {
  Dense<T> out(local_shape(dims));
  std::size_t at = 0;
  const auto root = static_cast<std::uint32_t>(term_.nodes.size() - 1);
  for_each_point(dims, [&] { out.data[at++] = at_point(root); });
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
    case Kind::kEqual:
    case Kind::kMax:
      return;
    case Kind::kInput: {
      const auto at = read_position(node);
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
      push(node.a, adjoint * at_point(node.b));
      push(node.b, adjoint * at_point(node.a));
      return;
    case Kind::kDiv: {
      const T b = at_point(node.b);
      const T quotient = N::divide(adjoint, b);
      push(node.a, quotient);
      push(node.b, N::from_index(-1) * N::divide(quotient * at_point(node.a), b));
      return;
    }
    case Kind::kFunction:
      push(node.a, adjoint * N::derivative(node.function, at_point(node.a)));
      return;
    case Kind::kSum:
      tables_[id].adjoints[position(tables_[id])] += adjoint;
      return;
  }
}

template <class T>
void Evaluation<T>::push_reduction(std::uint32_t id) {
  const BoundNode& node = term_.nodes[id];
  const auto over = factors_in(node.over);
  for_each_point(tables_[id].dims, [&] {
    const T adjoint = tables_[id].adjoints[position(tables_[id])];
    if (adjoint == T{}) return;
    for_each_point(over, [&] { push(node.a, adjoint); });
  });
}

template <class T>
void Evaluation<T>::backward(std::span<const FactorId> dims, const Dense<T>& output_gradient,
                             std::vector<Dense<T>*> grads) {
  CHECK(output_gradient.shape == local_shape(dims));
  grads_ = std::move(grads);
  for (auto& table : tables_) table.adjoints.assign(table.values.size(), T{});
  std::size_t at = 0;
  const auto root = static_cast<std::uint32_t>(term_.nodes.size() - 1);
  for_each_point(dims, [&] { push(root, output_gradient.data[at++]); });
  // Parents come after children, so every adjoint is complete when its reduction is reached.
  for (std::uint32_t n = root + 1; n-- > 0;) {
    if (term_.nodes[n].kind == Kind::kSum) push_reduction(n);
  }
}

template class Evaluation<double>;
template class Evaluation<Field>;

}  // namespace tandem::term
