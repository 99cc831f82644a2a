#include "graph/sequential.h"

#include "graph/feed.h"
#include "ops/signature.h"
#include "term/evaluate.h"

namespace tandem::graph {

namespace {

template <class T>
term::Evaluation<T> make_evaluation(const Graph& graph, NodeId id, const ops::Signature& s,
                                    const Values<T>& values) {
  std::vector<term::Operand<T>> inputs;
  for (auto i : graph.inputs(id)) inputs.emplace_back(values[i.index()]);
  return term::Evaluation<T>(s.meaning, term::make_full_ranges(s.map), std::move(inputs));
}

}  // namespace

template <class T>
SourceValues<T> make_feed_values(const Graph& graph, std::uint64_t seed, std::uint64_t step) {
  return [graph, seed, step](NodeId id) {
    const Node& node = graph.node(id);
    const Feed feed(node, seed, step);
    Dense<T> out(node.type.shape.sizes);
    for (std::size_t i = 0; i < out.data.size(); ++i) {
      out.data[i] = feed.element_as<T>(static_cast<std::int64_t>(i));
    }
    return out;
  };
}

template <class T>
Values<T> run_forward(const Graph& graph, const SourceValues<T>& sources) {
  Values<T> values(graph.size());
  for (auto id : graph.ids()) {
    const Node& node = graph.node(id);
    CHECK(node.type.shape.is_undivided(), node.name);
    if (node.op.role() == ops::Role::kSource) {
      values[id.index()] = sources(id);
    } else {
      const auto& s = get_node_signature(graph, id);
      values[id.index()] = make_evaluation(graph, id, s, values).forward(s.map.output);
    }
  }
  return values;
}

template <class T>
Values<T> run_backward(const Graph& graph, const Values<T>& values, Values<T> gradients) {
  for (std::size_t n = graph.size(); n-- > 0;) {
    const NodeId id(n);
    const Node& node = graph.node(id);
    if (node.op.role() == ops::Role::kSource || gradients[n].data.empty()) continue;
    std::vector<Dense<T>*> wanted;
    for (auto i : graph.inputs(id)) {
      auto& g = gradients[i.index()];
      if (is_integer(graph.node(i).type.dtype)) {
        wanted.push_back(nullptr);
        continue;
      }
      if (g.data.empty()) g = Dense<T>(graph.node(i).type.shape.sizes);
      wanted.push_back(&g);
    }
    const auto& s = get_node_signature(graph, id);
    make_evaluation(graph, id, s, values).backward(s.map.output, gradients[n], std::move(wanted));
  }
  return gradients;
}

template <class T>
Values<T> make_loss_gradient(const Graph& graph) {
  Values<T> seeds(graph.size());
  const NodeId loss = graph.outputs()[0];
  CHECK(graph.node(loss).type.shape.rank() == 0, graph.node(loss).name);
  seeds[loss.index()] = Dense<T>(Shape{}, {term::Numbers<T>::from_index(1)});
  return seeds;
}

template <class T>
Trained<T> train(const Graph& graph, const StepValues<T>& sources, std::int64_t steps, T rate,
                 bool delayed) {
  const T factor = term::Numbers<T>::from_index(-1) * rate;
  Trained<T> out;
  out.weights.resize(graph.size());
  for (auto id : graph.ids()) {
    if (is_weight(graph.node(id))) out.weights[id.index()] = sources(id, 0);
  }
  auto before = out.weights;
  for (std::int64_t step = 0; step < steps; ++step) {
    const auto& used = delayed ? before : out.weights;
    out.values = run_forward<T>(graph, [&](NodeId id) {
      return is_weight(graph.node(id)) ? used[id.index()] : sources(id, step);
    });
    out.gradients = run_backward(graph, out.values, make_loss_gradient<T>(graph));
    before = out.weights;
    for (std::size_t n = 0; n < graph.size(); ++n) {
      const auto& gradient = out.gradients[n].data;
      auto& weight = out.weights[n].data;
      if (gradient.empty() || !is_trained(graph.node(NodeId(n)))) continue;
      for (std::size_t i = 0; i < weight.size(); ++i) weight[i] += factor * gradient[i];
    }
  }
  return out;
}

#define TANDEM_INSTANTIATE(T)                                                               \
  template SourceValues<T> make_feed_values<T>(const Graph&, std::uint64_t, std::uint64_t); \
  template Values<T> run_forward<T>(const Graph&, const SourceValues<T>&);                  \
  template Values<T> run_backward<T>(const Graph&, const Values<T>&, Values<T>);            \
  template Values<T> make_loss_gradient<T>(const Graph&);                                   \
  template Trained<T> train<T>(const Graph&, const StepValues<T>&, std::int64_t, T, bool);
TANDEM_INSTANTIATE(double)
TANDEM_INSTANTIATE(term::Field)
#undef TANDEM_INSTANTIATE

}  // namespace tandem::graph
