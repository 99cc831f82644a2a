// Folding of reductions, cumulative sums and matmuls.
#include <fmt/format.h>

#include <functional>

#include "import/constant_folding.h"

namespace tandem::import {

namespace {

Known fold_reduce(OnnxCall& call, const Operands& in) {
  const auto& k = get_operand(in, 0);
  const bool keep = call.integer("keepdims", 1) != 0;
  auto axes = call.integers("axes").value_or(in.size() > 1 && in[1] ? in[1]->ints : Sizes{});
  const bool none = axes.empty() && call.integer("noop_with_empty_axes", 0) != 0;
  if (none) return k;
  std::vector<bool> reduced(k.sizes.size(), axes.empty());
  for (auto a : axes) reduced[call.axis(a, k.sizes.size())] = true;
  Sizes sizes_with_ones;
  Sizes sizes;
  for (std::size_t d = 0; d < reduced.size(); ++d) {
    sizes_with_ones.push_back(reduced[d] ? 1 : k.sizes[d]);
    if (!reduced[d] || keep) sizes.push_back(sizes_with_ones.back());
  }
  const auto strides = compute_strides(sizes_with_ones);
  Known out{.type = k.type, .sizes = sizes};
  const auto n = count_and_charge(call, sizes);
  const auto op = call.op().substr(std::string_view("Reduce").size());
  const auto step = op == "Prod" ? "Mul" : op == "Sum" ? "Add" : op;
  out.has_integers() ? out.ints.resize(n) : out.reals.resize(n);
  std::vector<bool> seen(n);
  for (std::size_t i = 0; i < k.count(); ++i) {
    std::size_t at = 0;
    std::size_t rest = i;
    for (std::size_t d = k.sizes.size(); d-- > 0;) {
      const auto size = static_cast<std::size_t>(k.sizes[d]);
      if (!reduced[d]) at += rest % size * strides[d];
      rest /= size;
    }
    if (k.has_integers()) {
      out.ints[at] = seen[at] ? evaluate_integer_op(step, out.ints[at], k.ints[i]) : k.ints[i];
    } else {
      out.reals[at] = seen[at] ? evaluate_real_op(step, out.reals[at], k.reals[i]) : k.reals[i];
    }
    seen[at] = true;
  }
  return out;
}

Known fold_cumulative_sum(OnnxCall& call, const Operands& in) {
  Known out = get_operand(in, 0);
  if (call.integer("exclusive", 0) != 0 || call.integer("reverse", 0) != 0) {
    reject("exclusive and reverse are not supported");
  }
  if (get_operand(in, 1).count() != 1) reject("the axis must be a scalar");
  const auto axis = call.axis(to_integer(in[1]->real(0)), out.sizes.size());
  const auto behind = compute_strides(out.sizes)[axis];
  const auto size = static_cast<std::size_t>(out.sizes[axis]);
  for (std::size_t i = 0; i < out.count(); ++i) {
    if (i / behind % size == 0) continue;
    if (out.has_integers()) {
      out.ints[i] = evaluate_integer_op("Add", out.ints[i], out.ints[i - behind]);
    } else {
      out.reals[i] += out.reals[i - behind];
    }
  }
  return out;
}

// Multiplies matrices; leading dimensions are broadcast.
Known fold_matmul(OnnxCall& call, const Operands& in) {
  const auto& a = get_operand(in, 0);
  const auto& b = get_operand(in, 1);
  if (a.sizes.size() < 2 || b.sizes.size() < 2 || a.has_integers() || b.has_integers()) {
    reject("constant operands must be floating-point matrices");
  }
  const auto rows = a.sizes[a.sizes.size() - 2];
  const auto inner = a.sizes.back();
  const auto columns = b.sizes.back();
  if (inner != b.sizes[b.sizes.size() - 2]) {
    reject(fmt::format("sizes {} and {} do not match", inner, b.sizes[b.sizes.size() - 2]));
  }
  const auto front = broadcast_sizes(Sizes(a.sizes.begin(), a.sizes.end() - 2),
                                     Sizes(b.sizes.begin(), b.sizes.end() - 2));
  const auto whole = [&](std::int64_t m, std::int64_t n) {
    auto sizes = front;
    sizes.insert(sizes.end(), {m, n});
    return sizes;
  };
  const auto x = broadcast(call, a, whole(rows, inner));
  const auto y = broadcast(call, b, whole(inner, columns));
  Known out{.type = a.type, .sizes = whole(rows, columns)};
  count_and_charge(call, out.sizes);
  call.charge(count_elements(whole(rows, columns * inner), "the product"));
  const auto blocks = count_elements(front, "the product");
  for (std::int64_t block = 0; block < blocks; ++block) {
    for (std::int64_t m = 0; m < rows; ++m) {
      for (std::int64_t n = 0; n < columns; ++n) {
        double sum = 0;
        for (std::int64_t k = 0; k < inner; ++k) {
          sum += x.reals[static_cast<std::size_t>((block * rows + m) * inner + k)] *
                 y.reals[static_cast<std::size_t>((block * inner + k) * columns + n)];
        }
        out.reals.push_back(sum);
      }
    }
  }
  return out;
}

}  // namespace

FoldFunctions reduction_fold_functions() {
  return {
      {"CumSum", fold_cumulative_sum}, {"MatMul", fold_matmul},     {"ReduceMax", fold_reduce},
      {"ReduceMin", fold_reduce},      {"ReduceProd", fold_reduce}, {"ReduceSum", fold_reduce},
  };
}

}  // namespace tandem::import
