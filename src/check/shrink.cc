#include "check/shrink.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "base/disjoint_sets.h"
#include "base/error.h"
#include "base/stop.h"
#include "machine/node_layout.h"
#include "ops/attributes.h"
#include "ops/registry.h"
#include "ops/sources.h"

namespace tandem::check {

namespace {

using graph::NodeId;
using machine::Digits;
using machine::Layout;

// The dimensions of all tensors, in classes. Dimensions that an operator runs over together share a
// class, and one rule gives their new sizes.
class DimensionClasses {
 public:
  explicit DimensionClasses(const graph::Graph& pcg) : pcg_(pcg) {
    for (auto id : pcg.ids()) {
      first_.push_back(sets_.size());
      for (auto size : pcg.node(id).type.shape.sizes) {
        sets_.add();
        sizes_.push_back({size});
      }
    }
    fixed_.resize(sets_.size());
    windowed_.resize(sets_.size());
    found_by_.resize(pcg.size());
    degree_.assign(sets_.size(), 1);
    degree_of_size_.resize(sets_.size());
    for (auto id : pcg.ids()) {
      if (is_parallel(pcg.node(id)) || is_join(pcg.node(id))) {
        tie_all(id);
      } else if (pcg.node(id).op.role() == ops::Role::kCompute) {
        tie_operator(id);
      }
    }
  }

  void add_degree(NodeId id, std::size_t d, std::int64_t degree) {
    const auto r = root(dim(id, d));
    degree_[r] = std::lcm(degree_[r], degree);
    auto& own = degree_of_size_[r].try_emplace(pcg_.node(id).type.shape.sizes[d], 1).first->second;
    own = std::lcm(own, degree);
  }

  // Returns whether the operator reads windows. Its result's sizes along them then follow from its
  // operands: `find_sizes` sets them, and `clear_window_sizes` clears them.
  [[nodiscard]] bool reads_windows(NodeId id) const { return !found_by_[id.index()].empty(); }
  void set_window_sizes(NodeId id, const Shape& sizes) {
    for (auto d : found_by_[id.index()]) found_.try_emplace(root(dim(id, d)), sizes[d]);
  }
  void clear_window_sizes() { found_.clear(); }

  // Keeps the original size of one more dimension that the node reads or computes. First dimensions
  // come last: batches are cheap to shrink and seldom fixed. Dimensions read in windows count only
  // with `windows`. Returns whether there was such a dimension.
  bool fix_one_dim(NodeId id, bool windows) {
    std::vector<NodeId> tensors(pcg_.inputs(id).begin(), pcg_.inputs(id).end());
    tensors.push_back(id);
    for (const bool first : {false, true}) {
      for (auto n : tensors) {
        for (auto d = rank(n); d-- > 0;) {
          const auto r = root(dim(n, d));
          if ((d == 0) != first || fixed_[r] || (windowed_[r] && !windows)) continue;
          fixed_[r] = true;
          return true;
        }
      }
    }
    return false;
  }

  [[nodiscard]] std::int64_t compute_new_size(NodeId id, std::size_t d, bool twice,
                                              std::int64_t window) {
    const auto r = root(dim(id, d));
    const auto size = pcg_.node(id).type.shape.sizes[d];
    if (fixed_[r]) return size;
    if (const auto at = found_.find(r); at != found_.end()) return at->second;
    const auto& sizes = sizes_[r];
    const auto least = degree_[r];
    if (sizes.size() == 1 && windowed_[r]) return std::min(size, std::lcm(window, least));
    if (sizes.size() == 1) return std::min(size, twice ? 2 * least : least);
    std::int64_t divisor = 0;
    // A flattened dimension may be sharded further than its factor alone, as (kv g) and kv.
    for (auto s : sizes) {
      const auto known = degree_of_size_[r].find(s);
      const auto own = known == degree_of_size_[r].end() ? least : known->second;
      divisor = std::gcd(divisor, s % own == 0 ? s / own : s);
    }
    if (twice && divisor % 2 == 0) divisor /= 2;
    return size / divisor;
  }

 private:
  [[nodiscard]] std::size_t dim(NodeId id, std::size_t d) const { return first_[id.index()] + d; }
  [[nodiscard]] std::size_t rank(NodeId id) const { return pcg_.node(id).type.shape.rank(); }

  std::size_t root(std::size_t at) { return sets_.root(at); }

  void tie(std::size_t a, std::size_t b) {
    a = root(a);
    b = root(b);
    if (a == b) return;
    sets_.join(a, b);
    sizes_[a].merge(sizes_[b]);
    degree_[a] = std::lcm(degree_[a], degree_[b]);
    fixed_[a] = fixed_[a] || fixed_[b];
    windowed_[a] = windowed_[a] || windowed_[b];
  }

  void tie_all(NodeId id) {
    for (auto i : pcg_.inputs(id)) {
      for (std::size_t d = 0; d < rank(id); ++d) tie(dim(id, d), dim(i, d));
    }
  }

  void tie_operator(NodeId id) {
    constexpr auto kNone = static_cast<std::size_t>(-1);
    const auto& map = get_node_signature(pcg_, id).map;
    std::vector<std::size_t> of_factor(map.factors.size(), kNone);
    std::vector<ops::FactorId> retained;
    const auto visit = [&](NodeId tensor, const term::Dims& dims) {
      for (std::size_t d = 0; d < dims.size(); ++d) {
        const auto at = dim(tensor, d);
        if (is_window(dims[d])) {
          windowed_[root(at)] = true;
          for (const auto& part : dims[d].at.parts) {
            const int result = map.find_output_dim(part.factor);
            if (result < 0) retained.push_back(part.factor);
            if (result < 0) continue;
            found_by_[id.index()].insert(static_cast<std::size_t>(result));
            windowed_[root(dim(id, static_cast<std::size_t>(result)))] = true;
          }
          continue;
        }
        // In a flattened dimension the major factor shrinks; the others keep their size.
        const auto& carriers = dims[d].carriers;
        const bool exact = dims[d].exact && !carriers.empty();
        const auto parts = exact ? std::vector{carriers[0]} : list_factors(dims[d]);
        if (exact) retained.insert(retained.end(), carriers.begin() + 1, carriers.end());
        for (auto f : parts) {
          sizes_[root(at)].insert(map.factors[f].size);
          if (of_factor[f] == kNone) of_factor[f] = at;
          tie(of_factor[f], at);
        }
      }
    };
    for (std::size_t i = 0; i < map.inputs.size(); ++i) visit(pcg_.inputs(id)[i], map.inputs[i]);
    visit(id, map.output);
    for (auto f : retained) {
      if (of_factor[f] != kNone) fixed_[root(of_factor[f])] = true;
    }
  }

  static bool is_window(const term::Dim& dim) {
    if (dim.exact) return false;
    return dim.at.parts.size() > 1 ||
           std::ranges::any_of(dim.at.parts, [](const auto& p) { return p.coefficient != 1; });
  }

  static std::vector<ops::FactorId> list_factors(const term::Dim& dim) {
    std::vector<ops::FactorId> out;
    for (const auto& part : dim.at.parts) out.push_back(part.factor);
    return out;
  }

  const graph::Graph& pcg_;
  std::vector<std::size_t> first_;  // by node: position of its first dimension
  DisjointSets sets_;
  // Values per class, at the class's root.
  std::vector<std::set<std::int64_t>> sizes_;
  std::vector<std::int64_t> degree_;
  std::vector<std::map<std::int64_t, std::int64_t>> degree_of_size_;
  std::vector<bool> fixed_;
  std::vector<bool> windowed_;
  std::map<std::size_t, std::int64_t> found_;
  std::vector<std::set<std::size_t>> found_by_;  // by node: its result's window dimensions
};

Digits make_small_digits(const RetainedDigits& retained) {
  machine::Machine machine;
  for (const auto& digit : retained.space) machine.levels.emplace_back().count = digit.size;
  return Digits(machine, retained.micro_batches);
}

class Shrinker {
 public:
  Shrinker(const plan::MappedGraph& mapped, const RetainedDigits& retained, bool twice)
      : mapped_(mapped),
        retained_(retained),
        twice_(twice),
        digits_(make_small_digits(retained)),
        classes_(mapped.pcg) {
    for (auto id : mapped.pcg.ids()) {
      const auto& layout = layouts_.emplace_back(shrink_layout(mapped.layouts[id.index()]));
      for (std::size_t d = 0; d < mapped.pcg.node(id).type.shape.rank(); ++d) {
        classes_.add_degree(id, d, digits_.group_size(layout.digits(machine::DigitRole::dim(d))));
      }
    }
  }

  // Builds small copies until one fits. If an operator's result has other sizes than chosen, its
  // windows do not fit or an attribute fixes a size. The windows then grow, or a dimension keeps
  // its original size.
  std::optional<Small> run() {
    while (true) {
      throw_if_stopped();
      const auto wrong = build();
      if (!wrong) return Small{std::move(out_), digits_};
      if (classes_.reads_windows(*wrong) && window_ < kLargestWindow) {
        window_ *= 2;
        continue;
      }
      window_ = kLeastWindow;
      if (!classes_.fix_one_dim(*wrong, false) && !classes_.fix_one_dim(*wrong, true))
        return std::nullopt;
    }
  }

 private:
  [[nodiscard]] Layout shrink_layout(const Layout& layout) const {
    const std::size_t time = digits_.time() != 0 ? 1 : 0;
    Layout out(digits_.count(), machine::DigitRole::kIdle);
    if (time != 0) out.set(0, layout[0]);
    for (std::size_t i = 0; i < retained_.space.size(); ++i) {
      out.set(i + time, layout[retained_.space[i].digit]);
    }
    return out;
  }

  // Builds the small graph. Returns the first node that cannot be built, or nullopt.
  std::optional<NodeId> build() {
    out_ = {};
    classes_.clear_window_sizes();
    image_.assign(mapped_.pcg.size(), NodeId());
    graph::GraphBuilder builder(mapped_.pcg.name());
    for (auto id : mapped_.pcg.ids()) {
      try {
        if (!add(builder, id)) return id;
      } catch (const UserError&) {
        return id;
      }
    }
    std::vector<NodeId> outputs;
    for (auto o : mapped_.pcg.outputs()) outputs.push_back(image_[o.index()]);
    out_.pcg = builder.finish(std::move(outputs));
    out_.schedule = mapped_.schedule;
    out_.schedule.micro_batches = retained_.micro_batches;
    out_.schedule.digits = 0;
    const std::size_t time = digits_.time() != 0 ? 1 : 0;
    for (std::size_t i = 0; i < retained_.space.size(); ++i) {
      const auto is_rank = mapped_.schedule.digits >> retained_.space[i].digit & 1U;
      out_.schedule.digits |= is_rank << (i + time);
    }
    return std::nullopt;
  }

  bool add(graph::GraphBuilder& builder, NodeId id) {
    const auto& node = mapped_.pcg.node(id);
    const auto& layout = layouts_[id.index()];
    std::vector<NodeId> inputs;
    for (auto i : mapped_.pcg.inputs(id)) inputs.push_back(image_[i.index()]);
    if (classes_.reads_windows(id)) compute_window_sizes(builder, id, inputs);
    const auto shape = compute_parallel_shape(layout, compute_new_sizes(id), digits_);
    if (!shape) return false;
    auto op = std::optional(with_new_sizes(id, *shape));
    if (is_parallel(node)) {
      const auto from = mapped_.pcg.inputs(id)[0];
      if (layouts_[from.index()] == layout) {
        image_[id.index()] = inputs[0];
        return true;
      }
      op = make_parallel_op(builder.node(inputs[0]).type.shape, *shape);
    }
    if (!op) return false;
    image_[id.index()] = builder.add(*op, inputs, node.name);
    out_.layouts.push_back(layout);
    out_.stage.push_back(mapped_.stage[id.index()]);
    out_.recompute.push_back(mapped_.recompute[id.index()]);
    return builder.node(image_[id.index()]).type.shape == *shape;
  }

  void compute_window_sizes(const graph::GraphBuilder& builder, NodeId id,
                            const std::vector<NodeId>& inputs) {
    std::vector<TensorType> types;
    types.reserve(inputs.size());
    for (auto i : inputs) types.push_back(builder.node(i).type);
    const auto op = with_new_sizes(id, {});
    classes_.set_window_sizes(id, graph::infer_result_type(op, types).shape.sizes);
  }

  Shape compute_new_sizes(NodeId id) {
    Shape out = mapped_.pcg.node(id).type.shape.sizes;
    for (std::size_t d = 0; d < out.rank(); ++d)
      out[d] = classes_.compute_new_size(id, d, twice_, window_);
    return out;
  }

  // Returns the operator of `id` with small sizes in those attributes that hold sizes.
  ops::Op with_new_sizes(NodeId id, const ParallelShape& shape) {
    const auto& op = mapped_.pcg.node(id).op;
    if (op.role() == ops::Role::kSource) return with_new_range(ops::with_shape(op, shape), id);
    if (op.is(ops::kReshape) || op.is(ops::kExpand)) {
      return ops::make_op(op.spec(), ops::Reshape{{shape.sizes.begin(), shape.sizes.end()}});
    }
    if (op.is(ops::kConv2d)) {
      auto attributes = op.get<ops::Conv2d>();
      const auto x = mapped_.pcg.inputs(id)[0];
      attributes.groups =
          attributes.groups * compute_new_sizes(x)[1] / mapped_.pcg.node(x).type.shape.sizes[1];
      if (attributes.groups > 0) return ops::make_op(ops::kConv2d, attributes);
    }
    return op;
  }

  // Returns the operator between two types that differ in one degree, or in none. Returns nullopt
  // if they differ in more.
  static std::optional<ops::Op> make_parallel_op(const ParallelShape& from,
                                                 const ParallelShape& to) {
    std::optional<ops::Op> out;
    int changes = 0;
    const auto changed = [&](const ops::OpSpec& spec, auto attributes) {
      ++changes;
      out = ops::make_op(spec, attributes);
    };
    for (std::size_t d = 0; d < from.rank(); ++d) {
      const auto dim = static_cast<std::int64_t>(d);
      const auto a = from.degrees[d];
      const auto b = to.degrees[d];
      if (b > a) changed(ops::kPartition, ops::DimDegree{dim, b / a});
      if (a > b) changed(ops::kCombine, ops::DimDegree{dim, a / b});
    }
    if (to.replicas > from.replicas) {
      changed(ops::kReplicate, ops::Degree{to.replicas / from.replicas});
    } else if (to.replicas < from.replicas) {
      changed(ops::kUnreplicate, ops::Degree{from.replicas / to.replicas});
    }
    if (to.partial < from.partial) changed(ops::kReduce, ops::Degree{from.partial / to.partial});
    if (changes == 0) return ops::make_op(ops::kSend, ops::NoAttributes{});
    return changes == 1 ? out : std::nullopt;
  }

  // Returns an index input whose range fits its readers. Indices stay below a reader's number of
  // rows.
  ops::Op with_new_range(const ops::Op& op, NodeId id) {
    if (!op.is(ops::kInput) || op.get<ops::Input>().below == 0) return op;
    auto source = op.get<ops::Input>();
    for (auto user : mapped_.pcg.ids()) {
      for (auto i : mapped_.pcg.inputs(user)) {
        if (find_producer(i) == id && !is_parallel(mapped_.pcg.node(user)))
          narrow(source.below, user);
      }
    }
    return ops::make_op(ops::kInput, source);
  }

  [[nodiscard]] NodeId find_producer(NodeId id) const {
    while (is_parallel(mapped_.pcg.node(id))) id = mapped_.pcg.inputs(id)[0];
    return id;
  }

  void narrow(std::int64_t& below, NodeId user) {
    const auto full = below;
    for (auto i : mapped_.pcg.inputs(user)) {
      const auto& sizes = mapped_.pcg.node(i).type.shape.sizes;
      for (std::size_t d = 0; d < sizes.rank(); ++d) {
        if (sizes[d] == full)
          below = std::min(below, classes_.compute_new_size(i, d, twice_, window_));
      }
    }
  }

  const plan::MappedGraph& mapped_;
  const RetainedDigits& retained_;
  bool twice_;
  static constexpr std::int64_t kLeastWindow = 4;
  static constexpr std::int64_t kLargestWindow = 512;
  std::int64_t window_ = kLeastWindow;  // size of dimensions that are read in windows
  Digits digits_;
  DimensionClasses classes_;
  std::vector<Layout> layouts_;  // by node
  std::vector<NodeId> image_;    // by node
  plan::MappedGraph out_;
};

}  // namespace

std::optional<Small> shrink(const plan::MappedGraph& mapped, const RetainedDigits& retained,
                            bool twice) {
  return Shrinker(mapped, retained, twice).run();
}

double estimate_work(const Small& small) {
  const auto& pcg = small.mapped.pcg;
  double total = 0;
  for (auto id : pcg.ids()) {
    if (pcg.node(id).op.role() != ops::Role::kCompute) continue;
    const auto& s = get_node_signature(pcg, id);
    std::vector<Layout> inputs;
    for (auto i : pcg.inputs(id)) inputs.push_back(small.mapped.layouts[i.index()]);
    const auto uses = infer_node_layout(s, inputs, small.digits);
    CHECK(uses.has_value(), pcg.node(id).name);
    double terms = 1;
    for (const auto& f : s.map.factors) terms *= static_cast<double>(f.size);
    for (std::size_t i = 0; i < small.digits.count(); ++i) {
      const auto use = uses->uses[i];
      if (!use.is_factor() && !use.is_idle()) terms *= static_cast<double>(small.digits[i].size);
    }
    total += terms;
  }
  return total;
}

}  // namespace tandem::check
