#include "graph/virtual_devices.h"

#include <optional>

#include "ops/attributes.h"
#include "ops/micro_batches.h"
#include "ops/registry.h"
#include "term/evaluate.h"

namespace tandem::graph {

namespace {

using ops::ShardIndex;

std::size_t compute_shard_number(const ParallelShape& shape, const ShardIndex& index) {
  std::int64_t n = compute_flat_index(shape.degrees, index.dims);
  n = n * shape.replicas + index.replica;
  n = n * shape.partial + index.partial;
  return static_cast<std::size_t>(n);
}

template <class Visit>
void for_each_shard(const ParallelShape& shape, Visit&& visit) {
  for_each_index(shape.degrees, [&](const Shape& dims) {
    for (std::int64_t r = 0; r < shape.replicas; ++r) {
      for (std::int64_t p = 0; p < shape.partial; ++p) visit(ShardIndex{dims, r, p});
    }
  });
}

ShardIndex to_gradient_index(ShardIndex index) {
  std::swap(index.replica, index.partial);
  return index;
}

template <class T>
void add_into(Dense<T>& into, const Dense<T>& from) {
  for (std::size_t i = 0; i < into.data.size(); ++i) into.data[i] += from.data[i];
}

// Returns the part of `source` that starts at `offset`.
template <class T>
Dense<T> slice(const Dense<T>& source, const Shape& offset, const Shape& size) {
  Dense<T> out(size);
  std::size_t n = 0;
  for_each_index(size, [&](const Shape& index) {
    Shape at = index;
    for (std::size_t d = 0; d < at.rank(); ++d) at[d] += offset[d];
    out.data[n++] = source.data[static_cast<std::size_t>(compute_flat_index(source.shape, at))];
  });
  return out;
}

// Combines `part` into `target` at `offset`, by sum or maximum.
template <class T>
void merge(Dense<T>& target, const Dense<T>& part, const Shape& offset, Monoid monoid) {
  std::size_t n = 0;
  for_each_index(part.shape, [&](const Shape& index) {
    Shape at = index;
    for (std::size_t d = 0; d < at.rank(); ++d) at[d] += offset[d];
    auto& into = target.data[static_cast<std::size_t>(compute_flat_index(target.shape, at))];
    const T value = part.data[n++];
    if (monoid == Monoid::kSum) {
      into += value;
    } else if (term::Numbers<T>::greater(value, into)) {
      into = value;
    }
  });
}

template <class T>
void add_into(Sharded<T>& into, const Sharded<T>& from) {
  CHECK(into.shape == from.shape, to_text(into.shape), to_text(from.shape));
  for (std::size_t s = 0; s < from.shards.size(); ++s) add_into(into.shards[s], from.shards[s]);
}

template <class T>
Sharded<T> partition(const Sharded<T>& in, std::size_t dim, std::int64_t degree) {
  ParallelShape shape = in.shape;
  shape.degrees[dim] *= degree;
  Sharded<T> out(shape);
  for_each_shard(shape, [&](const ShardIndex& to) {
    ShardIndex from = to;
    from.dims[dim] /= degree;
    Shape offset = shape.shard_shape();
    for (auto& o : offset) o = 0;
    offset[dim] = (to.dims[dim] % degree) * shape.shard_shape()[dim];
    out.at(to) = slice(in.at(from), offset, shape.shard_shape());
  });
  return out;
}

template <class T>
Sharded<T> combine(const Sharded<T>& in, std::size_t dim, std::int64_t degree) {
  ParallelShape shape = in.shape;
  shape.degrees[dim] /= degree;
  Sharded<T> out(shape);
  for_each_shard(in.shape, [&](const ShardIndex& from) {
    ShardIndex to = from;
    to.dims[dim] /= degree;
    Shape offset = in.shape.shard_shape();
    for (auto& o : offset) o = 0;
    offset[dim] = (from.dims[dim] % degree) * in.shape.shard_shape()[dim];
    merge(out.at(to), in.at(from), offset, Monoid::kSum);
  });
  return out;
}

template <class T>
Sharded<T> replicate(const Sharded<T>& in, std::int64_t degree) {
  ParallelShape shape = in.shape;
  shape.replicas *= degree;
  Sharded<T> out(shape);
  for_each_shard(shape, [&](const ShardIndex& to) {
    out.at(to) = in.at({to.dims, to.replica / degree, to.partial});
  });
  return out;
}

template <class T>
Sharded<T> reduce(const Sharded<T>& in, std::int64_t degree) {
  ParallelShape shape = in.shape;
  shape.partial /= degree;
  if (shape.partial == 1) shape.monoid = Monoid::kSum;
  Sharded<T> out(shape);
  for_each_shard(in.shape, [&](const ShardIndex& from) {
    auto& into = out.at({from.dims, from.replica, from.partial / degree});
    // The first part is added to zeros, whatever the monoid.
    const bool first = from.partial % degree == 0;
    Shape origin = in.shape.shard_shape();
    for (auto& o : origin) o = 0;
    merge(into, in.at(from), origin, first ? Monoid::kSum : in.shape.monoid);
  });
  return out;
}

template <class T>
Sharded<T> unreplicate(const Sharded<T>& in, std::int64_t degree) {
  ParallelShape shape = in.shape;
  shape.replicas /= degree;
  Sharded<T> out(shape);
  for_each_shard(shape, [&](const ShardIndex& to) {
    out.at(to) = in.at({to.dims, to.replica * degree, to.partial});
  });
  return out;
}

// Returns the gradient of unreplicate: replica 0 holds all of it, as the first of `degree` partial
// sums.
template <class T>
Sharded<T> place_in_first_partial(const Sharded<T>& in, std::int64_t degree) {
  ParallelShape shape = in.shape;
  shape.partial *= degree;
  Sharded<T> out(shape);
  for_each_shard(in.shape, [&](const ShardIndex& from) {
    out.at({from.dims, from.replica, from.partial * degree}) = in.at(from);
  });
  return out;
}

// Joins operands: operand i becomes summand i of every k.
template <class T>
Sharded<T> join(std::span<const NodeId> operands, const ShardedValues<T>& values) {
  const auto k = static_cast<std::int64_t>(operands.size());
  ParallelShape shape = values[operands[0].index()].shape;
  shape.partial *= k;
  Sharded<T> out(shape);
  for_each_shard(shape, [&](const ShardIndex& to) {
    const auto i = static_cast<std::size_t>(to.partial % k);
    out.at(to) = values[operands[i].index()].at({to.dims, to.replica, to.partial / k});
  });
  return out;
}

// Returns the gradient of operand `i`: its own one of every k replicas.
template <class T>
Sharded<T> select_own_replicas(const Sharded<T>& gradient, std::size_t i, std::int64_t k) {
  ParallelShape shape = gradient.shape;
  shape.replicas /= k;
  Sharded<T> out(shape);
  for_each_shard(shape, [&](const ShardIndex& to) {
    const auto replica = to.replica * k + static_cast<std::int64_t>(i);
    out.at(to) = gradient.at({to.dims, replica, to.partial});
  });
  return out;
}

struct DimCut {
  std::size_t dim = 0;
  std::int64_t degree = 1;
  bool partitions = true;  // false: the cut is undone
};

// Returns what a partition or combine does, over devices or over time.
std::optional<DimCut> find_cut(const ops::Op& op) {
  const bool pipelines = op.is(ops::kPipeline);
  if (pipelines || op.is(ops::kBatch)) {
    const auto& a = op.get<ops::MicroBatches>();
    return DimCut{static_cast<std::size_t>(a.dim), a.count, pipelines};
  }
  if (!op.is(ops::kPartition) && !op.is(ops::kCombine)) return std::nullopt;
  const auto& a = op.get<ops::DimDegree>();
  return DimCut{static_cast<std::size_t>(a.dim), a.degree, op.is(ops::kPartition)};
}

template <class T>
Sharded<T> apply(const ops::Op& op, const Sharded<T>& in) {
  if (op.is(ops::kSend)) return in;
  if (const auto cut = find_cut(op)) {
    return cut->partitions ? partition(in, cut->dim, cut->degree)
                           : combine(in, cut->dim, cut->degree);
  }
  const auto degree = op.get<ops::Degree>().degree;
  if (op.is(ops::kReplicate)) return replicate(in, degree);
  return op.is(ops::kReduce) ? reduce(in, degree) : unreplicate(in, degree);
}

template <class T>
Sharded<T> apply_backward(const ops::Op& op, const Sharded<T>& gradient) {
  if (op.is(ops::kSend)) return gradient;
  if (const auto cut = find_cut(op)) {
    return cut->partitions ? combine(gradient, cut->dim, cut->degree)
                           : partition(gradient, cut->dim, cut->degree);
  }
  const auto degree = op.get<ops::Degree>().degree;
  if (op.is(ops::kReplicate)) return reduce(gradient, degree);
  return op.is(ops::kReduce) ? replicate(gradient, degree)
                             : place_in_first_partial(gradient, degree);
}

bool contains(const term::Box& outer, const term::Box& inner) {
  for (std::size_t d = 0; d < outer.size.rank(); ++d) {
    if (inner.offset[d] < outer.offset[d] ||
        inner.offset[d] + inner.size[d] > outer.offset[d] + outer.size[d]) {
      return false;
    }
  }
  return true;
}

// Visits every element of the block at `box` together with the element of the shard that holds it:
// visit(shard index, place in the shard, place in the block). The shards are those with the replica
// and partial coordinates of `index`.
template <class Visit>
void for_each_in_block(const ParallelShape& shape, const term::Box& box, ShardIndex index,
                       Visit&& visit) {
  const Shape shard = shape.shard_shape();
  std::size_t n = 0;
  for_each_index(box.size, [&](const Shape& at) {
    Shape inner = at;
    for (std::size_t d = 0; d < at.rank(); ++d) {
      const auto global = box.offset[d] + at[d];
      index.dims[d] = global / shard[d];
      inner[d] = global % shard[d];
    }
    visit(index, static_cast<std::size_t>(compute_flat_index(shard, inner)), n++);
  });
}

// A compute node with its grid: everything needed to run one of its tasks.
template <class T>
class ComputeNode {
 public:
  ComputeNode(const Graph& pcg, NodeId id, const ShardedValues<T>& values)
      : inputs_(pcg.inputs(id)), signature_(get_node_signature(pcg, id)), values_(values) {
    std::vector<ParallelShape> shapes;
    for (const auto& t : pcg.input_types(id)) shapes.push_back(t.shape);
    grid_ = ops::infer_grid(signature_, shapes);
  }

  void forward(Sharded<T>& out) {
    for (std::int64_t task = 0; task < grid_.tasks(); ++task) {
      const auto at = compute_position(grid_, task);
      out.at(find_output_shard(signature_, grid_, at)) =
          make_evaluation(at).forward(signature_.map.output);
    }
  }

  void backward(const Sharded<T>& seeds, ShardedValues<T>& gradients) {
    for (std::int64_t task = 0; task < grid_.tasks(); ++task) {
      const auto at = compute_position(grid_, task);
      auto run = make_evaluation(at);
      std::vector<Dense<T>> blocks(inputs_.size());
      std::vector<Dense<T>*> wanted;
      for (std::size_t i = 0; i < inputs_.size(); ++i) {
        auto& g = gradients[inputs_[i].index()];
        if (g.shards.empty()) {
          wanted.push_back(nullptr);
        } else if (reads_[i].is_window) {
          blocks[i] = Dense<T>(reads_[i].box.size);
          wanted.push_back(&blocks[i]);
        } else {
          wanted.push_back(&g.at(to_gradient_index(reads_[i].index)));
        }
      }
      const auto& seed = seeds.at(to_gradient_index(find_output_shard(signature_, grid_, at)));
      run.backward(signature_.map.output, seed, wanted);
      for (std::size_t i = 0; i < inputs_.size(); ++i) {
        if (wanted[i] == &blocks[i]) scatter(i, blocks[i], gradients[inputs_[i].index()]);
      }
    }
  }

 private:
  // The part of one operand that a task reads: its shard, or a window that reaches beyond it.
  struct OperandRead {
    ShardIndex index;
    term::Box box;
    bool is_window = false;
    Dense<T> window;
  };

  term::Evaluation<T> make_evaluation(const ops::TaskPosition& at) {
    const auto ranges = compute_task_ranges(signature_, grid_, at);
    reads_.assign(inputs_.size(), {});
    std::vector<term::Operand<T>> operands;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const auto& value = values_[inputs_[i].index()];
      auto& read = reads_[i];
      read.index = find_input_shard(signature_, grid_, at, i);
      read.box = term::compute_box(signature_.map.inputs[i], ranges);
      const auto shard = ops::compute_shard_box(value.shape, read.index.dims);
      read.is_window = !contains(shard, read.box);
      if (read.is_window) {
        gather(value, read);
      } else {
        read.box = shard;
      }
      operands.emplace_back(read.is_window ? read.window : value.at(read.index), read.box.offset,
                            value.shape.sizes);
    }
    return term::Evaluation<T>(signature_.meaning, ranges, std::move(operands));
  }

  static void gather(const Sharded<T>& value, OperandRead& read) {
    read.window = Dense<T>(read.box.size);
    for_each_in_block(value.shape, read.box, read.index,
                      [&](const ShardIndex& shard, std::size_t from, std::size_t to) {
                        read.window.data[to] = value.at(shard).data[from];
                      });
  }

  // Adds the gradient of a window to all the shards that the window was read from.
  void scatter(std::size_t i, const Dense<T>& block, Sharded<T>& gradient) const {
    for_each_in_block(values_[inputs_[i].index()].shape, reads_[i].box, reads_[i].index,
                      [&](const ShardIndex& shard, std::size_t to, std::size_t from) {
                        gradient.at(to_gradient_index(shard)).data[to] += block.data[from];
                      });
  }

  std::span<const NodeId> inputs_;
  const ops::Signature& signature_;
  const ShardedValues<T>& values_;
  ops::TaskGrid grid_;
  std::vector<OperandRead> reads_;  // reads of the current task, by operand
};

}  // namespace

template <class T>
Sharded<T>::Sharded(const ParallelShape& s)
    : shape(s), shards(static_cast<std::size_t>(s.device_count()), Dense<T>(s.shard_shape())) {}

template <class T>
Dense<T>& Sharded<T>::at(const ShardIndex& index) {
  return shards[compute_shard_number(shape, index)];
}

template <class T>
const Dense<T>& Sharded<T>::at(const ShardIndex& index) const {
  return shards[compute_shard_number(shape, index)];
}

template <class T>
Sharded<T> distribute(const Dense<T>& whole, const ParallelShape& shape, Hash salt) {
  Sharded<T> out(shape);
  const T minus_one = term::Numbers<T>::from_index(-1);
  for_each_shard(shape, [&](const ShardIndex& index) {
    auto& shard = out.at(index);
    const bool first = index.partial == 0;
    if (first)
      add_into(shard,
               slice(whole, ops::compute_shard_box(shape, index.dims).offset, shape.shard_shape()));
    // The first partial maximum holds the value; the others are below it.
    if (shape.monoid == Monoid::kMax && !first) {
      for (auto& v : shard.data) v = term::Numbers<T>::lowest();
    }
    if (shape.monoid == Monoid::kMax) return;
    // Summand p adds noise that summand 0 subtracts; the noise is the same on every replica.
    if (shape.partial == 1) return;
    for (std::int64_t p = first ? 1 : index.partial;
         p < (first ? shape.partial : index.partial + 1); ++p) {
      for (std::size_t i = 0; i < shard.data.size(); ++i) {
        const Hash h =
            hash_combine(hash_combine(hash_combine(salt, static_cast<Hash>(p)), i),
                         static_cast<Hash>(compute_flat_index(shape.degrees, index.dims)));
        const T noise = term::Numbers<T>::from_index(static_cast<std::int64_t>(h % 7) - 3);
        shard.data[i] += first ? minus_one * noise : noise;
      }
    }
  });
  return out;
}

template <class T>
Dense<T> assemble(const Sharded<T>& value, bool* replicas_agree) {
  Dense<T> out(value.shape.sizes);
  if (replicas_agree != nullptr) *replicas_agree = true;
  for_each_shard(value.shape, [&](const ShardIndex& index) {
    if (index.replica == 0) {
      merge(out, value.at(index), ops::compute_shard_box(value.shape, index.dims).offset,
            index.partial == 0 ? Monoid::kSum : value.shape.monoid);
    } else if (replicas_agree != nullptr &&
               value.at(index).data != value.at({index.dims, 0, index.partial}).data) {
      *replicas_agree = false;
    }
  });
  return out;
}

template <class T>
ShardedValues<T> run_sharded_forward(const Graph& pcg, const SourceValues<T>& sources) {
  ShardedValues<T> values(pcg.size());
  for (auto id : pcg.ids()) {
    const Node& node = pcg.node(id);
    auto& value = values[id.index()];
    switch (node.op.role()) {
      case ops::Role::kSource:
        value = distribute(sources(id), node.type.shape, hash_text(node.name));
        break;
      case ops::Role::kParallel:
        value = apply(node.op, values[pcg.inputs(id)[0].index()]);
        break;
      case ops::Role::kJoin:
        value = join(pcg.inputs(id), values);
        break;
      case ops::Role::kCompute:
        value = Sharded<T>(node.type.shape);
        ComputeNode<T>(pcg, id, values).forward(value);
        break;
    }
  }
  return values;
}

template <class T>
ShardedValues<T> run_sharded_backward(const Graph& pcg, const ShardedValues<T>& values,
                                      ShardedValues<T> gradients) {
  for (std::size_t n = pcg.size(); n-- > 0;) {
    const NodeId id(n);
    const Node& node = pcg.node(id);
    if (node.op.role() == ops::Role::kSource || gradients[n].shards.empty()) continue;
    for (auto i : pcg.inputs(id)) {
      const auto& type = pcg.node(i).type;
      auto& g = gradients[i.index()];
      if (g.shards.empty() && !is_integer(type.dtype))
        g = Sharded<T>(to_gradient_shape(type.shape));
    }
    const auto inputs = pcg.inputs(id);
    if (is_parallel(node)) {
      auto& into = gradients[inputs[0].index()];
      if (!into.shards.empty()) add_into(into, apply_backward(node.op, gradients[n]));
    } else if (is_join(node)) {
      const auto k = static_cast<std::int64_t>(inputs.size());
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        add_into(gradients[inputs[i].index()], select_own_replicas(gradients[n], i, k));
      }
    } else {
      ComputeNode<T>(pcg, id, values).backward(gradients[n], gradients);
    }
  }
  return gradients;
}

template <class T>
ShardedValues<T> make_sharded_loss_gradient(const Graph& pcg) {
  ShardedValues<T> seeds(pcg.size());
  const NodeId loss = pcg.outputs()[0];
  const auto& type = pcg.node(loss).type;
  CHECK(type.shape.rank() == 0, pcg.node(loss).name);
  // In the dual type, replicas and partial sums are exchanged.
  Sharded<T> seed(to_gradient_shape(type.shape));
  for (std::int64_t p = 0; p < type.shape.partial; ++p) {
    seed.at({Shape{}, p, 0}).data[0] = term::Numbers<T>::from_index(1);
  }
  seeds[loss.index()] = std::move(seed);
  return seeds;
}

#define TANDEM_INSTANTIATE(T)                                                              \
  template struct Sharded<T>;                                                              \
  template Sharded<T> distribute<T>(const Dense<T>&, const ParallelShape&, Hash);          \
  template Dense<T> assemble<T>(const Sharded<T>&, bool*);                                 \
  template ShardedValues<T> run_sharded_forward<T>(const Graph&, const SourceValues<T>&);  \
  template ShardedValues<T> run_sharded_backward<T>(const Graph&, const ShardedValues<T>&, \
                                                    ShardedValues<T>);                     \
  template ShardedValues<T> make_sharded_loss_gradient<T>(const Graph&);
TANDEM_INSTANTIATE(double)
TANDEM_INSTANTIATE(term::Field)
#undef TANDEM_INSTANTIATE

}  // namespace tandem::graph
