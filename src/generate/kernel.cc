#include "generate/kernel.h"

#include <algorithm>
#include <map>

#include "base/check.h"

namespace tandem::generate {

using term::Affine;
using term::bit;
using term::BoundNode;
using term::FactorId;
using term::FactorMask;
using term::Kind;
using Numbers = term::Numbers<Field>;

class KernelCompiler {
 public:
  KernelCompiler(const ops::Signature& signature, FieldKernel& kernel)
      : map_(signature.map), meaning_(signature.meaning), kernel_(kernel) {}

  void run() {
    for (std::uint32_t n = 0; n < meaning_.nodes.size(); ++n) {
      const auto& node = meaning_.nodes[n];
      if (node.kind == Kind::kSum || node.kind == Kind::kMax) add_reduction(n);
    }
    add_result();
  }

 private:
  using Column = FieldKernel::Column;
  using Stage = FieldKernel::Stage;
  using End = FieldKernel::End;

  [[nodiscard]] std::vector<FactorId> list_factors(FactorMask mask) const {
    std::vector<FactorId> out;
    for (FactorId f = 0; f < map_.factors.size(); ++f) {
      if ((mask & bit(f)) != 0) out.push_back(f);
    }
    return out;
  }

  // Sets the points to all combinations of the indices of `factors`, the last one fastest.
  void set_points(const std::vector<FactorId>& factors) {
    const auto width = map_.factors.size();
    points_.clear();
    count_ = 0;
    std::vector<std::int64_t> point(width, 0);
    while (true) {
      points_.insert(points_.end(), point.begin(), point.end());
      ++count_;
      std::size_t d = factors.size();
      while (d > 0 && ++point[factors[d - 1]] == map_.factors[factors[d - 1]].size) {
        point[factors[--d]] = 0;
      }
      if (d == 0) return;
    }
  }

  template <class Visit>
  void for_each_point(Visit&& visit) const {
    for (std::size_t p = 0; p < count_; ++p) visit(points_.data() + p * map_.factors.size());
  }

  void add_reduction(std::uint32_t id) {
    const auto& node = meaning_.nodes[id];
    auto factors = list_factors(node.free);
    table_factors_[id] = factors;
    table_number_[id] = static_cast<std::uint32_t>(kernel_.stages_.size());
    const auto over = list_factors(node.over);
    factors.insert(factors.end(), over.begin(), over.end());
    set_points(factors);
    Stage stage;
    stage.width = 1;
    for (auto f : over) stage.width *= static_cast<std::size_t>(map_.factors[f].size);
    stage.end = node.kind == Kind::kSum ? End::kSum : End::kMax;
    begin_stage(stage);
    stage.value = add_column(node.a);
    if (node.has_guard) stage.guard = static_cast<int>(add_column(node.b));
    if (stage.end == End::kSum) make_dot(stage);
    kernel_.stages_.push_back(std::move(stage));
  }

  void add_result() {
    std::vector<FactorId> factors;
    for (const auto& dim : map_.output) {
      for (const auto& part : dim.at.parts) factors.push_back(part.factor);
    }
    set_points(factors);
    Stage stage;
    begin_stage(stage);
    stage.value = add_column(static_cast<std::uint32_t>(meaning_.nodes.size() - 1));
    kernel_.result_size_ = stage.points;
    kernel_.stages_.push_back(std::move(stage));
  }

  void begin_stage(Stage& stage) {
    stage_ = &stage;
    stage.points = count_;
    known_.clear();
  }

  std::uint32_t add_column(std::uint32_t id) {
    if (const auto at = known_.find(id); at != known_.end()) return at->second;
    auto made = make_column(id);
    stage_->columns.push_back(std::move(made));
    const auto number = static_cast<std::uint32_t>(stage_->columns.size() - 1);
    known_.emplace(id, number);
    return number;
  }

  Column make_column(std::uint32_t id) {
    const auto& node = meaning_.nodes[id];
    Column out;
    switch (node.kind) {
      case Kind::kConstant:
        return make_fixed_column([&](const auto*) { return Numbers::from(node.constant); });
      case Kind::kExtent: {
        std::int64_t n = 1;
        for (auto f : list_factors(node.over)) n *= map_.factors[f].size;
        return make_fixed_column([&](const auto*) { return Numbers::from_index(n); });
      }
      case Kind::kIndex:
        return make_fixed_column(
            [&](const auto* point) { return Numbers::from_index(point[node.dims[0]]); });
      case Kind::kInside:
        return make_fixed_column([&](const auto* point) {
          return Numbers::from_index(compute_position(node, point) < 0 ? 0 : 1);
        });
      case Kind::kInput:
        out.from = Column::From::kInput;
        out.source = static_cast<std::uint32_t>(node.input);
        for_each_point(
            [&](const auto* point) { out.places.push_back(compute_position(node, point)); });
        out.in_order = is_in_order(out.places);
        return out;
      case Kind::kSum:
      case Kind::kMax:
        out.from = Column::From::kTable;
        out.source = table_number_.at(id);
        for_each_point(
            [&](const auto* point) { out.places.push_back(compute_table_position(id, point)); });
        out.in_order = is_in_order(out.places);
        return out;
      case Kind::kKeep:
        CHECK(false, "a random operator has no kernel");
      default:
        out.kind = node.kind;
        out.function = node.function;
        out.a = add_column(node.a);
        if (node.has_b()) out.b = add_column(node.b);
        return out;
    }
  }

  // Returns a column of values that depend on the index alone.
  template <class Value>
  Column make_fixed_column(Value&& value) {
    Column out;
    out.from = Column::From::kFixed;
    for_each_point([&](const auto* point) { out.fixed.push_back(value(point)); });
    return out;
  }

  [[nodiscard]] std::int32_t compute_position(const BoundNode& node,
                                              const std::int64_t* point) const {
    std::int64_t flat = 0;
    const auto& dims = map_.inputs[node.input];
    for (std::size_t d = 0; d < dims.size(); ++d) {
      std::int64_t i = node.at[d].constant;
      for (const auto& part : node.at[d].parts) i += part.coefficient * point[part.factor];
      if (i < 0 || i >= dims[d].size) return -1;
      flat = flat * dims[d].size + i;
    }
    return static_cast<std::int32_t>(flat);
  }

  [[nodiscard]] std::int32_t compute_table_position(std::uint32_t id,
                                                    const std::int64_t* point) const {
    std::int64_t flat = 0;
    for (auto f : table_factors_.at(id)) flat = flat * map_.factors[f].size + point[f];
    return static_cast<std::int32_t>(flat);
  }

  // Returns whether `places` is 0, 1, 2, ...
  static bool is_in_order(const std::vector<std::int32_t>& places) {
    for (std::size_t p = 0; p < places.size(); ++p) {
      if (places[p] != static_cast<std::int32_t>(p)) return false;
    }
    return true;
  }

  // Converts a sum of products of two reads into a kDot stage, which needs no lists of values.
  static void make_dot(Stage& stage) {
    const auto& root = stage.columns[stage.value];
    if (root.from != Column::From::kNode || root.kind != Kind::kMul) return;
    const auto& a = stage.columns[root.a];
    const auto& b = stage.columns[root.b];
    if (a.from != Column::From::kInput || b.from != Column::From::kInput) return;
    for (std::size_t p = 0; p < stage.points; ++p) {
      if (a.places[p] >= 0 && b.places[p] >= 0) {
        stage.left.push_back(static_cast<std::uint32_t>(a.places[p]));
        stage.right.push_back(static_cast<std::uint32_t>(b.places[p]));
      }
      if ((p + 1) % stage.width == 0) {
        stage.ends.push_back(static_cast<std::uint32_t>(stage.left.size()));
      }
    }
    Column from;
    from.source = a.source;
    from.a = b.source;  // the second input
    stage.columns = {from};
    stage.end = End::kDot;
  }

  const term::IndexMap& map_;
  const term::BoundTerm& meaning_;
  FieldKernel& kernel_;
  Stage* stage_ = nullptr;
  std::vector<std::int64_t> points_;  // by point, the index along every factor
  std::size_t count_ = 0;
  std::map<std::uint32_t, std::uint32_t> known_;  // column by node of the meaning
  std::map<std::uint32_t, std::vector<FactorId>> table_factors_;
  std::map<std::uint32_t, std::uint32_t> table_number_;
};

FieldKernel::FieldKernel(const ops::Signature& signature) {
  KernelCompiler(signature, *this).run();
}

std::size_t FieldKernel::bytes() const {
  std::size_t out = sizeof(FieldKernel);
  for (const auto& stage : stages_) {
    const auto pairs = stage.left.size() + stage.right.size() + stage.ends.size();
    out += sizeof(Stage) + pairs * sizeof(std::uint32_t);
    for (const auto& column : stage.columns) {
      out += sizeof(Column) + column.places.size() * sizeof(std::int32_t) +
             column.fixed.size() * sizeof(Field);
    }
  }
  return out;
}

Field FieldKernel::compute_dot(const Stage& stage, const Field* a, const Field* b,
                               std::size_t result) {
  // 63 products below 2^122 fit into 128 bits.
  constexpr std::uint32_t kMany = 63;
  Field total;
  std::uint32_t i = result == 0 ? 0 : stage.ends[result - 1];
  const auto end = stage.ends[result];
  while (i < end) {
    const auto stop = std::min(end, i + kMany);
    unsigned __int128 sum = 0;
    for (; i < stop; ++i) {
      sum += static_cast<unsigned __int128>(a[stage.left[i]].value()) * b[stage.right[i]].value();
    }
    total += Field(static_cast<std::uint64_t>(sum) & Field::kPrime);
    const auto high = sum >> 61U;  // 2^61 is 1 modulo the prime
    total += Field(static_cast<std::uint64_t>(high) & Field::kPrime);
    total += Field(static_cast<std::uint64_t>(high >> 61U));
  }
  return total;
}

namespace {

void gather_elements(const Field* from, const std::vector<std::int32_t>& places, Field* out) {
  for (std::size_t p = 0; p < places.size(); ++p) {
    out[p] = places[p] < 0 ? Field() : from[places[p]];
  }
}

template <class F>
void compute_elements(std::size_t points, Field* out, F&& value) {
  for (std::size_t p = 0; p < points; ++p) out[p] = value(p);
}

// Divides elementwise. Reuses the last inverse, because neighbours often have the same divisor.
void divide(const Field* a, const Field* b, std::size_t points, Field* out) {
  Field divisor;
  Field inverse;
  compute_elements(points, out, [&](std::size_t p) {
    if (!(b[p] == divisor)) {
      divisor = b[p];
      inverse = divisor.inverse();
    }
    return a[p] * inverse;
  });
}

}  // namespace

const Field* FieldKernel::compute_column(const Column& column, std::span<const Field* const> inputs,
                                         std::size_t points, const Scratch& scratch, Field* out) {
  using From = Column::From;
  if (column.from == From::kFixed) return column.fixed.data();
  if (column.from == From::kInput || column.from == From::kTable) {
    const auto* from =
        column.from == From::kInput ? inputs[column.source] : scratch.tables[column.source].data();
    if (column.in_order) return from;
    gather_elements(from, column.places, out);
    return out;
  }
  const auto* a = scratch.values[column.a];
  const auto* b = scratch.values[column.b];
  const auto truth = [](bool value) { return Field(value ? 1 : 0); };
  switch (column.kind) {
    case Kind::kAdd:
      compute_elements(points, out, [&](std::size_t p) { return a[p] + b[p]; });
      break;
    case Kind::kMul:
      compute_elements(points, out, [&](std::size_t p) { return a[p] * b[p]; });
      break;
    case Kind::kDiv:
      divide(a, b, points, out);
      break;
    case Kind::kEqual:
      compute_elements(points, out, [&](std::size_t p) { return truth(a[p] == b[p]); });
      break;
    case Kind::kLess:
      compute_elements(points, out,
                       [&](std::size_t p) { return truth(Numbers::greater(b[p], a[p])); });
      break;
    case Kind::kFunction:
      compute_elements(points, out,
                       [&](std::size_t p) { return Numbers::apply(column.function, a[p]); });
      break;
    default:
      CHECK(false);
  }
  return out;
}

void FieldKernel::reduce_stage(const Stage& stage, const Scratch& scratch, Field* out) {
  const auto* values = scratch.values[stage.value];
  const auto results = stage.points / stage.width;
  for (std::size_t r = 0; r < results; ++r) {
    const auto begin = r * stage.width;
    Field total = stage.end == End::kSum ? Field() : Numbers::lowest();
    for (auto p = begin; p < begin + stage.width; ++p) {
      const bool counts =
          stage.guard < 0 || !(scratch.values[static_cast<std::size_t>(stage.guard)][p] == Field());
      if (!counts) continue;
      if (stage.end == End::kSum) {
        total += values[p];
      } else if (Numbers::greater(values[p], total)) {
        total = values[p];
      }
    }
    out[r] = total;
  }
}

void FieldKernel::run(std::span<const Field* const> inputs, Field* out, Scratch& scratch) const {
  if (scratch.tables.size() < stages_.size()) scratch.tables.resize(stages_.size());
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    const auto& stage = stages_[s];
    Field* to = out;
    if (s + 1 < stages_.size()) {
      scratch.tables[s].resize(stage.points / stage.width);
      to = scratch.tables[s].data();
    }
    if (stage.end == End::kDot) {
      const auto* a = inputs[stage.columns[0].source];
      const auto* b = inputs[stage.columns[0].a];
      for (std::size_t r = 0; r < stage.ends.size(); ++r) to[r] = compute_dot(stage, a, b, r);
      continue;
    }
    if (scratch.columns.size() < stage.columns.size()) {
      scratch.columns.resize(stage.columns.size());
      scratch.values.resize(stage.columns.size());
    }
    const bool copies = stage.end == End::kCopy;
    for (std::size_t c = 0; c < stage.columns.size(); ++c) {
      auto* room = to;
      if (!copies || c != stage.value) {
        auto& own = scratch.columns[c];
        if (own.size() < stage.points) own.resize(stage.points);
        room = own.data();
      }
      scratch.values[c] = compute_column(stage.columns[c], inputs, stage.points, scratch, room);
    }
    if (!copies) {
      reduce_stage(stage, scratch, to);
    } else if (const auto* values = scratch.values[stage.value]; values != to) {
      std::copy_n(values, stage.points, to);
    }
  }
}

}  // namespace tandem::generate
