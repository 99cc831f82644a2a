// Folding: nodes whose operands are all known are computed here, on whole numbers where ONNX does.
// It is how shapes that a network computes from its inputs' shapes become numbers.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>

#include "import/importer.h"

namespace tandem::import {

namespace {

using Operands = std::vector<KnownPtr>;
using Folder = Known (*)(Call&, const Operands&);

std::size_t count_of(Call& call, const Sizes& sizes) {
  const auto count = count_elements(sizes, "the result");
  call.charge(count);
  return static_cast<std::size_t>(count);
}

std::int64_t to_integer(double value) {
  if (std::isnan(value)) return 0;
  if (value >= 0x1p63) return std::numeric_limits<std::int64_t>::max();
  if (value <= -0x1p63) return std::numeric_limits<std::int64_t>::min();
  return static_cast<std::int64_t>(value);
}

void push(Known& out, double value) {
  if (out.whole()) {
    out.ints.push_back(to_integer(value));
  } else {
    out.reals.push_back(value);
  }
}

// Element `from` of `k`, unchanged.
void copy_element(const Known& k, std::size_t from, Known& out) {
  if (k.whole()) {
    out.ints.push_back(k.ints[from]);
  } else {
    out.reals.push_back(k.reals[from]);
  }
}

const Known& operand(const Operands& in, std::size_t i) {
  if (i >= in.size() || !in[i]) reject(fmt::format("input {} is missing", i));
  return *in[i];
}

std::vector<std::size_t> strides_of(const Sizes& sizes) {
  std::vector<std::size_t> out(sizes.size(), 1);
  for (std::size_t d = sizes.size(); d-- > 1;) {
    out[d - 1] = out[d] * static_cast<std::size_t>(sizes[d]);
  }
  return out;
}

// A result that reads every element of `k` at an index made from the result's: element n along
// dimension d is at n * stride[d] more than `begin`.
Known strided(Call& call, const Known& k, Sizes sizes, std::int64_t begin,
              const std::vector<std::int64_t>& strides) {
  Known out{.type = k.type, .sizes = std::move(sizes)};
  const auto count = count_of(call, out.sizes);
  Sizes index(out.sizes.size(), 0);
  std::int64_t at = begin;
  for (std::size_t i = 0; i < count; ++i) {
    copy_element(k, static_cast<std::size_t>(at), out);
    for (std::size_t d = index.size(); d-- > 0;) {
      at += strides[d];
      if (++index[d] < out.sizes[d]) break;
      at -= strides[d] * index[d];
      index[d] = 0;
    }
  }
  return out;
}

}  // namespace

Sizes broadcast_sizes(const Sizes& a, const Sizes& b) {
  Sizes out(std::max(a.size(), b.size()));
  for (std::size_t d = 0; d < out.size(); ++d) {
    const auto size = [&](const Sizes& s) {
      const auto lacks = out.size() - s.size();
      return d < lacks ? std::int64_t{1} : s[d - lacks];
    };
    if (size(a) != size(b) && size(a) != 1 && size(b) != 1) {
      reject(fmt::format("sizes {} and {} do not fit", size(a), size(b)));
    }
    out[d] = size(a) == 1 ? size(b) : size(a);
  }
  return out;
}

namespace {

Known broadcast(Call& call, const Known& k, const Sizes& sizes) {
  std::vector<std::int64_t> strides(sizes.size(), 0);
  const auto own = strides_of(k.sizes);
  const auto lacks = sizes.size() - k.sizes.size();
  for (std::size_t d = 0; d < own.size(); ++d) {
    if (k.sizes[d] != 1) strides[d + lacks] = static_cast<std::int64_t>(own[d]);
  }
  return strided(call, k, sizes, 0, strides);
}

// Whole numbers wrap around, as they do in ONNX's implementations.
template <class F>
std::int64_t wrapping(std::int64_t a, std::int64_t b, F f) {
  return static_cast<std::int64_t>(f(static_cast<std::uint64_t>(a), static_cast<std::uint64_t>(b)));
}

std::int64_t whole_result(std::string_view op, std::int64_t a, std::int64_t b) {
  if (op == "Add") return wrapping(a, b, std::plus<>());
  if (op == "Sub") return wrapping(a, b, std::minus<>());
  if (op == "Mul") return wrapping(a, b, std::multiplies<>());
  if (op == "Min") return std::min(a, b);
  if (op == "Max") return std::max(a, b);
  if (op == "Pow") return to_integer(std::pow(static_cast<double>(a), static_cast<double>(b)));
  if (b == 0) reject("a division by zero");
  if (b == -1) return op == "Div" ? wrapping(0, a, std::minus<>()) : 0;
  if (op == "Div") return a / b;
  if (op == "Remainder") return a % b;
  const auto rest = a % b;  // Mod: the sign is that of the divisor
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

double real_result(std::string_view op, double a, double b) {
  if (op == "Add") return a + b;
  if (op == "Sub") return a - b;
  if (op == "Mul") return a * b;
  if (op == "Div") return a / b;
  if (op == "Min") return std::min(a, b);
  if (op == "Max") return std::max(a, b);
  if (op == "Pow") return std::pow(a, b);
  return std::fmod(a, b);
}

Known arithmetic_of_two(Call& call, std::string_view op, const Known& a, const Known& b) {
  const auto sizes = broadcast_sizes(a.sizes, b.sizes);
  const auto x = broadcast(call, a, sizes);
  const auto y = broadcast(call, b, sizes);
  Known out{.type = a.type, .sizes = sizes};
  for (std::size_t i = 0; i < x.count(); ++i) {
    if (x.whole() && y.whole()) {
      out.ints.push_back(whole_result(op, x.ints[i], y.ints[i]));
    } else {
      push(out, real_result(op, x.real(i), y.real(i)));
    }
  }
  return out;
}

Known arithmetic(Call& call, const Operands& in) {
  const auto op = call.op() == "Mod" && call.integer("fmod", 0) != 0 ? "Remainder" : call.op();
  Known out = operand(in, 0);
  for (std::size_t i = 1; i < in.size(); ++i)
    out = arithmetic_of_two(call, op, out, operand(in, i));
  return out;
}

bool compare(std::string_view op, double a, double b) {
  if (op == "Equal") return a == b;
  if (op == "Less") return a < b;
  if (op == "LessOrEqual") return a <= b;
  if (op == "Greater") return a > b;
  if (op == "GreaterOrEqual") return a >= b;
  if (op == "And") return a != 0 && b != 0;
  if (op == "Or") return a != 0 || b != 0;
  return (a != 0) != (b != 0);  // Xor
}

Known comparison(Call& call, const Operands& in) {
  const auto sizes = broadcast_sizes(operand(in, 0).sizes, operand(in, 1).sizes);
  const auto x = broadcast(call, *in[0], sizes);
  const auto y = broadcast(call, *in[1], sizes);
  Known out{.type = kBool, .sizes = sizes};
  for (std::size_t i = 0; i < x.count(); ++i) {
    const bool exact = x.whole() && y.whole() && call.op() == "Equal";
    out.ints.push_back(exact ? x.ints[i] == y.ints[i] : compare(call.op(), x.real(i), y.real(i)));
  }
  return out;
}

Known where(Call& call, const Operands& in) {
  const auto sizes = broadcast_sizes(broadcast_sizes(operand(in, 0).sizes, operand(in, 1).sizes),
                                     operand(in, 2).sizes);
  const auto condition = broadcast(call, *in[0], sizes);
  const auto x = broadcast(call, *in[1], sizes);
  const auto y = broadcast(call, *in[2], sizes);
  Known out{.type = x.type, .sizes = sizes};
  for (std::size_t i = 0; i < x.count(); ++i) {
    const auto& from = condition.real(i) != 0 ? x : y;
    if (from.whole() == out.whole()) {
      copy_element(from, i, out);
    } else {
      push(out, from.real(i));
    }
  }
  return out;
}

double unary_result(std::string_view op, double x) {
  if (op == "Neg") return -x;
  if (op == "Abs") return std::abs(x);
  if (op == "Floor") return std::floor(x);
  if (op == "Ceil") return std::ceil(x);
  if (op == "Round") return std::nearbyint(x);
  if (op == "Sqrt") return std::sqrt(x);
  if (op == "Exp") return std::exp(x);
  if (op == "Log") return std::log(x);
  if (op == "Sin") return std::sin(x);
  if (op == "Cos") return std::cos(x);
  if (op == "Reciprocal") return 1 / x;
  return x == 0 ? 1 : 0;  // Not
}

Known unary(Call& call, const Operands& in) {
  Known out = operand(in, 0);
  for (auto& x : out.ints) x = to_integer(unary_result(call.op(), static_cast<double>(x)));
  for (auto& x : out.reals) x = unary_result(call.op(), x);
  return out;
}

}  // namespace

Known known_cast(const Known& k, std::int32_t to) {
  if (!real_type(to) && !is_whole(to)) {
    reject(fmt::format("to {} is not supported", type_name(to)));
  }
  Known out{.type = to, .sizes = k.sizes};
  for (std::size_t i = 0; i < k.count(); ++i) {
    if (k.whole() && out.whole()) {
      out.ints.push_back(to == kBool ? k.ints[i] != 0 : k.ints[i]);
    } else {
      push(out, to == kBool ? static_cast<double>(k.real(i) != 0) : k.real(i));
    }
  }
  return out;
}

namespace {

Known cast(Call& call, const Operands& in) {
  return known_cast(operand(in, 0), static_cast<std::int32_t>(call.integer("to", kFloat)));
}

Known cast_like(Call&, const Operands& in) {
  return known_cast(operand(in, 0), operand(in, 1).type);
}

Known with_sizes(const Known& k, Sizes sizes) {
  Known out = k;
  out.sizes = std::move(sizes);
  return out;
}

std::size_t checked_axis(Call& call, std::int64_t axis, const Known& k) {
  return call.axis(axis, k.sizes.size());
}

Known gather(Call& call, const Operands& in) {
  const auto& k = operand(in, 0);
  const auto& index = operand(in, 1);
  if (!index.whole()) reject("the indices must be whole numbers");
  const auto axis = checked_axis(call, call.integer("axis", 0), k);
  Sizes sizes(k.sizes.begin(), k.sizes.begin() + static_cast<std::ptrdiff_t>(axis));
  sizes.insert(sizes.end(), index.sizes.begin(), index.sizes.end());
  sizes.insert(sizes.end(), k.sizes.begin() + static_cast<std::ptrdiff_t>(axis) + 1, k.sizes.end());
  Known out{.type = k.type, .sizes = sizes};
  if (count_of(call, sizes) == 0) return out;
  const auto behind = strides_of(k.sizes)[axis];
  const auto along = k.sizes[axis];
  if (along == 0) reject("there is nothing to choose from");
  const auto blocks = k.count() / (behind * static_cast<std::size_t>(along));
  for (std::size_t b = 0; b < blocks; ++b) {
    for (auto i : index.ints) {
      if (i < -along || i >= along) reject(fmt::format("index {} is not in 0..{}", i, along - 1));
      const auto row = static_cast<std::size_t>(i < 0 ? i + along : i);
      for (std::size_t e = 0; e < behind; ++e) {
        copy_element(k, (b * static_cast<std::size_t>(along) + row) * behind + e, out);
      }
    }
  }
  return out;
}

Known concat(Call& call, const Operands& in) {
  const auto& first = operand(in, 0);
  const auto axis = checked_axis(call, call.integer("axis", 1), first);
  Known out{.type = first.type, .sizes = first.sizes};
  out.sizes[axis] = 0;
  for (std::size_t i = 0; i < in.size(); ++i) {
    const auto& k = operand(in, i);
    if (k.sizes.size() != first.sizes.size() || k.whole() != first.whole()) {
      reject("the inputs differ in rank or type");
    }
    for (std::size_t d = 0; d < k.sizes.size(); ++d) {
      if (d != axis && k.sizes[d] != first.sizes[d]) reject("the inputs' sizes differ");
    }
    out.sizes[axis] += k.sizes[axis];
  }
  if (count_of(call, out.sizes) == 0) return out;
  std::size_t blocks = 1;
  for (std::size_t d = 0; d < axis; ++d) blocks *= static_cast<std::size_t>(first.sizes[d]);
  for (std::size_t b = 0; b < blocks; ++b) {
    for (const auto& k : in) {
      const auto block = k->count() / blocks;
      for (std::size_t e = 0; e < block; ++e) copy_element(*k, b * block + e, out);
    }
  }
  return out;
}

Known slice(Call& call, const Operands& in) {
  const auto& k = operand(in, 0);
  const auto list = [&](const char* name, std::size_t i) -> std::optional<Sizes> {
    if (auto given = call.integers(name)) return given;
    if (i < in.size() && in[i]) return in[i]->ints;
    return std::nullopt;
  };
  const auto starts = list("starts", 1).value_or(Sizes{});
  const auto ends = list("ends", 2).value_or(Sizes{});
  auto axes = list("axes", 3);
  const auto steps = list("steps", 4).value_or(Sizes(starts.size(), 1));
  if (!axes) {
    axes.emplace(starts.size());
    std::iota(axes->begin(), axes->end(), 0);
  }
  if (ends.size() != starts.size() || axes->size() != starts.size() ||
      steps.size() != starts.size()) {
    reject("starts, ends, axes and steps differ in number");
  }
  auto sizes = k.sizes;
  std::vector<std::int64_t> strides;
  for (auto s : strides_of(k.sizes)) strides.push_back(static_cast<std::int64_t>(s));
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const auto d = checked_axis(call, (*axes)[i], k);
    const auto size = k.sizes[d];
    const auto step = steps[i];
    if (step == 0 || step == std::numeric_limits<std::int64_t>::min()) reject("a step is 0");
    if (size == 0) continue;
    const auto place = [&](std::int64_t at, std::int64_t low, std::int64_t high) {
      return std::clamp(at < 0 ? at + size : at, low, high);
    };
    const auto from = step > 0 ? place(starts[i], 0, size) : place(starts[i], 0, size - 1);
    const auto to = step > 0 ? place(ends[i], 0, size) : place(ends[i], -1, size - 1);
    const auto length = step > 0 ? to - from : from - to;
    const auto stride = step > 0 ? step : -step;
    sizes[d] = length <= 0 ? 0 : (length - 1) / stride + 1;
    if (sizes[d] == 0) continue;
    begin += from * strides[d];
    strides[d] *= sizes[d] == 1 ? 1 : step;
  }
  if (count_elements(sizes, "the result") == 0) return {.type = k.type, .sizes = sizes};
  return strided(call, k, sizes, begin, strides);
}

Known range(Call& call, const Operands& in) {
  const auto& start = operand(in, 0);
  if (start.count() != 1 || operand(in, 1).count() != 1 || operand(in, 2).count() != 1) {
    reject("start, limit and delta must be scalars");
  }
  const double step = in[2]->real(0);
  if (step == 0) reject("delta is 0");
  const double steps = std::ceil((in[1]->real(0) - start.real(0)) / step);
  const double count = std::isfinite(steps) ? std::max(0.0, std::min(steps, 0x1p40)) : 0;
  Known out{.type = start.type, .sizes = {static_cast<std::int64_t>(count)}};
  const auto n = count_of(call, out.sizes);
  for (std::size_t i = 0; i < n; ++i) push(out, start.real(0) + static_cast<double>(i) * step);
  return out;
}

Known expand(Call& call, const Operands& in) {
  const auto& k = operand(in, 0);
  return broadcast(call, k, broadcast_sizes(k.sizes, operand(in, 1).ints));
}

Known tile(Call& call, const Operands& in) {
  const auto& k = operand(in, 0);
  const auto& times = operand(in, 1).ints;
  if (times.size() != k.sizes.size()) reject("the repeats do not fit the rank");
  // [a, b] tiled is [ta, a, tb, b] with strides of 0 along the new dimensions.
  Sizes sizes;
  Sizes joined;
  std::vector<std::int64_t> strides;
  const auto own = strides_of(k.sizes);
  for (std::size_t d = 0; d < times.size(); ++d) {
    if (times[d] < 0 || times[d] > (std::int64_t{1} << 40U)) reject("a repeat is out of range");
    sizes.insert(sizes.end(), {times[d], k.sizes[d]});
    strides.insert(strides.end(), {0, static_cast<std::int64_t>(own[d])});
    joined.push_back(times[d] * k.sizes[d]);
  }
  return with_sizes(strided(call, k, sizes, 0, strides), joined);
}

Known transpose(Call& call, const Operands& in) {
  const auto& k = operand(in, 0);
  Sizes perm(k.sizes.size());
  for (std::size_t d = 0; d < perm.size(); ++d) {
    perm[d] = static_cast<std::int64_t>(perm.size() - 1 - d);
  }
  perm = call.integers("perm").value_or(perm);
  if (perm.size() != k.sizes.size()) reject("perm does not fit the rank");
  const auto own = strides_of(k.sizes);
  Sizes sizes;
  std::vector<std::int64_t> strides;
  for (auto p : perm) {
    const auto d = checked_axis(call, p, k);
    sizes.push_back(k.sizes[d]);
    strides.push_back(static_cast<std::int64_t>(own[d]));
  }
  if (count_elements(sizes, "the result") != static_cast<std::int64_t>(k.count())) {
    reject("perm names a dimension twice");
  }
  return strided(call, k, sizes, 0, strides);
}

Known reduce(Call& call, const Operands& in) {
  const auto& k = operand(in, 0);
  const bool keep = call.integer("keepdims", 1) != 0;
  auto axes = call.integers("axes").value_or(in.size() > 1 && in[1] ? in[1]->ints : Sizes{});
  const bool none = axes.empty() && call.integer("noop_with_empty_axes", 0) != 0;
  if (none) return k;
  std::vector<bool> reduced(k.sizes.size(), axes.empty());
  for (auto a : axes) reduced[checked_axis(call, a, k)] = true;
  Sizes kept_sizes;
  Sizes sizes;
  for (std::size_t d = 0; d < reduced.size(); ++d) {
    kept_sizes.push_back(reduced[d] ? 1 : k.sizes[d]);
    if (!reduced[d] || keep) sizes.push_back(kept_sizes.back());
  }
  const auto strides = strides_of(kept_sizes);
  Known out{.type = k.type, .sizes = sizes};
  const auto n = count_of(call, sizes);
  const auto op = call.op().substr(std::string_view("Reduce").size());
  const auto step = op == "Prod" ? "Mul" : op == "Sum" ? "Add" : op;
  out.whole() ? out.ints.resize(n) : out.reals.resize(n);
  std::vector<bool> seen(n);
  for (std::size_t i = 0; i < k.count(); ++i) {
    std::size_t at = 0;
    std::size_t rest = i;
    for (std::size_t d = k.sizes.size(); d-- > 0;) {
      const auto size = static_cast<std::size_t>(k.sizes[d]);
      if (!reduced[d]) at += rest % size * strides[d];
      rest /= size;
    }
    if (k.whole()) {
      out.ints[at] = seen[at] ? whole_result(step, out.ints[at], k.ints[i]) : k.ints[i];
    } else {
      out.reals[at] = seen[at] ? real_result(step, out.reals[at], k.reals[i]) : k.reals[i];
    }
    seen[at] = true;
  }
  return out;
}

Known trilu(Call& call, const Operands& in) {
  const auto& k = operand(in, 0);
  if (k.sizes.size() < 2) reject("the input must have at least 2 dimensions");
  const bool upper = call.integer("upper", 1) != 0;
  const std::int64_t diagonal = in.size() > 1 && in[1] && !in[1]->ints.empty() ? in[1]->ints[0] : 0;
  if (std::abs(static_cast<double>(diagonal)) > 0x1p40) reject("the diagonal is out of range");
  Known out = k;
  const auto columns = k.sizes.back();
  const auto rows = k.sizes[k.sizes.size() - 2];
  for (std::size_t i = 0; i < k.count(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    const auto above = at % columns - at / columns % rows - diagonal;
    if (upper ? above >= 0 : above <= 0) continue;
    out.whole() ? static_cast<void>(out.ints[i] = 0) : static_cast<void>(out.reals[i] = 0);
  }
  return out;
}

Known non_zero(Call& call, const Operands& in) {
  const auto& k = operand(in, 0);
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < k.count(); ++i) {
    if (k.real(i) != 0) found.push_back(i);
  }
  Known out{.type = kInt64,
            .sizes = {static_cast<std::int64_t>(k.sizes.size()),
                      static_cast<std::int64_t>(found.size())}};
  count_of(call, out.sizes);
  const auto strides = strides_of(k.sizes);
  for (std::size_t d = 0; d < k.sizes.size(); ++d) {
    for (auto i : found) {
      out.ints.push_back(
          static_cast<std::int64_t>(i / strides[d] % static_cast<std::size_t>(k.sizes[d])));
    }
  }
  return out;
}

Known cumulative_sum(Call& call, const Operands& in) {
  Known out = operand(in, 0);
  if (call.integer("exclusive", 0) != 0 || call.integer("reverse", 0) != 0) {
    reject("exclusive and reverse are not supported");
  }
  if (operand(in, 1).count() != 1) reject("the axis must be a scalar");
  const auto axis = checked_axis(call, to_integer(in[1]->real(0)), out);
  const auto behind = strides_of(out.sizes)[axis];
  const auto size = static_cast<std::size_t>(out.sizes[axis]);
  for (std::size_t i = 0; i < out.count(); ++i) {
    if (i / behind % size == 0) continue;
    if (out.whole()) {
      out.ints[i] = wrapping(out.ints[i], out.ints[i - behind], std::plus<>());
    } else {
      out.reals[i] += out.reals[i - behind];
    }
  }
  return out;
}

// Products of matrices; dimensions in front are matched.
Known matmul(Call& call, const Operands& in) {
  const auto& a = operand(in, 0);
  const auto& b = operand(in, 1);
  if (a.sizes.size() < 2 || b.sizes.size() < 2 || a.whole() || b.whole()) {
    reject("constants must be matrices of real numbers");
  }
  const auto rows = a.sizes[a.sizes.size() - 2];
  const auto inner = a.sizes.back();
  const auto columns = b.sizes.back();
  if (inner != b.sizes[b.sizes.size() - 2]) {
    reject(fmt::format("sizes {} and {} do not fit", inner, b.sizes[b.sizes.size() - 2]));
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
  count_of(call, out.sizes);
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

Known identity(Call&, const Operands& in) { return operand(in, 0); }

// Reshape, Squeeze, Unsqueeze and Flatten have converters, which know how to do it to sizes.
const std::map<std::string_view, Folder>& folders() {
  static const std::map<std::string_view, Folder> kFolders = {
      {"Abs", unary},
      {"Add", arithmetic},
      {"And", comparison},
      {"Cast", cast},
      {"CastLike", cast_like},
      {"Ceil", unary},
      {"Concat", concat},
      {"Cos", unary},
      {"CumSum", cumulative_sum},
      {"Div", arithmetic},
      {"Equal", comparison},
      {"Exp", unary},
      {"Expand", expand},
      {"Floor", unary},
      {"Gather", gather},
      {"Greater", comparison},
      {"Identity", identity},
      {"GreaterOrEqual", comparison},
      {"Less", comparison},
      {"LessOrEqual", comparison},
      {"Log", unary},
      {"MatMul", matmul},
      {"Max", arithmetic},
      {"Min", arithmetic},
      {"Mod", arithmetic},
      {"Mul", arithmetic},
      {"Neg", unary},
      {"NonZero", non_zero},
      {"Not", unary},
      {"Or", comparison},
      {"Pow", arithmetic},
      {"Range", range},
      {"Reciprocal", unary},
      {"ReduceMax", reduce},
      {"ReduceMin", reduce},
      {"ReduceProd", reduce},
      {"ReduceSum", reduce},
      {"Round", unary},
      {"Sin", unary},
      {"Slice", slice},
      {"Sqrt", unary},
      {"Sub", arithmetic},
      {"Tile", tile},
      {"Transpose", transpose},
      {"Trilu", trilu},
      {"Where", where},
      {"Xor", comparison},
  };
  return kFolders;
}

}  // namespace

std::vector<std::string_view> foldable_operators() {
  std::vector<std::string_view> out;
  for (const auto& [name, folder] : folders()) out.push_back(name);
  return out;
}

bool fold(Call& call) {
  const auto at = folders().find(call.op());
  if (at == folders().end() || call.inputs() == 0 || call.outputs() != 1) return false;
  for (std::size_t i = 0; i < call.inputs(); ++i) {
    if (!call.has(i)) continue;
    // A look that reads nothing yet: most operands are computed.
    const auto& v = call.value(i);
    if (!v.known && v.stored.empty() && !v.fill) return false;
  }
  Operands in;
  for (std::size_t i = 0; i < call.inputs(); ++i) {
    in.push_back(call.has(i) ? call.known(i) : nullptr);
    if (call.has(i) && !in.back()) return false;
  }
  call.result(at->second(call, in));
  return true;
}

}  // namespace tandem::import
