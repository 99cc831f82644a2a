#include "predict/kernels.h"

#include <algorithm>
#include <bit>
#include <map>
#include <set>

namespace tandem::predict {

namespace {

using graph::NodeId;
using machine::Fusion;
using machine::Software;

class Analysis {
 public:
  Analysis(const graph::Graph& graph, const Software& software)
      : graph_(graph),
        software_(software),
        consumers_(graph.consumers()),
        roles_(graph.size()),
        apart_(graph.size(), false) {
    for (auto id : graph.outputs()) is_output_.insert(id);
  }

  std::vector<KernelRole> run() {
    for (auto id : graph_.ids()) {
      if (is_compute(id)) set_listed_kernels(id);
    }
    if (software_.fusion != Fusion::kNone) fuse_biases();
    if (software_.fusion == Fusion::kElementwise) fuse_chains();
    if (software_.fused_qkv) fuse_matmuls();
    return std::move(roles_);
  }

 private:
  [[nodiscard]] bool is_compute(NodeId id) const {
    return graph_.node(id).op.role() == ops::Role::kCompute;
  }
  [[nodiscard]] std::int64_t count_elements(NodeId id) const {
    return graph_.node(id).type.shape.sizes.count();
  }
  // Returns whether a single node reads the result of `id`.
  [[nodiscard]] bool is_read_by_one(NodeId id) const {
    return consumers_[id.index()].size() == 1 && !is_output_.contains(id);
  }

  // Returns the number of matrices in one device's shard of the result of `id`.
  [[nodiscard]] std::int64_t count_matrices(NodeId id) const {
    const auto& shape = graph_.node(id).type.shape;
    std::int64_t out = 1;
    for (std::size_t d = 0; d + 2 < shape.sizes.rank(); ++d)
      out *= shape.sizes[d] / shape.degrees[d];
    return out;
  }

  // Sets the kernels of operators that the software lists. An operator of several kernels is not
  // fused with others.
  void set_listed_kernels(NodeId id) {
    const auto listed = software_.kernels.find(graph_.node(id).op.name());
    if (listed == software_.kernels.end()) return;
    const auto unless = static_cast<std::int64_t>(listed->second.unless);
    if (unless > 0 && count_matrices(id) % unless == 0) return;
    auto& role = roles_[id.index()];
    role.forward = role.forward_passes = listed->second.forward;
    role.backward = role.backward_passes = listed->second.backward;
    apart_[id.index()] = true;
  }

  [[nodiscard]] bool is_elementwise(NodeId id) const {
    return is_compute(id) && !apart_[id.index()] && get_node_signature(graph_, id).elementwise;
  }

  // Returns the index of the large operand if node `id` adds smaller operands to a large one.
  [[nodiscard]] std::optional<std::size_t> find_biased_operand(NodeId id) const {
    if (!is_elementwise(id)) return std::nullopt;
    std::optional<std::size_t> large;
    const auto inputs = graph_.inputs(id);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (count_elements(inputs[i]) < count_elements(id)) continue;
      if (large) return std::nullopt;
      large = i;
    }
    const bool adds = large && inputs.size() > 1 &&
                      ((get_node_signature(graph_, id).added_inputs >> *large) & 1U) != 0;
    return adds ? large : std::nullopt;
  }

  // Fuses biases: the matmul adds the bias before it writes. In the backward pass, a separate
  // kernel sums the bias's gradient.
  void fuse_biases() {
    for (auto id : graph_.ids()) {
      const auto operand = find_biased_operand(id);
      if (!operand) continue;
      const auto product = graph_.inputs(id)[*operand];
      if (!is_compute(product) || !is_read_by_one(product) ||
          !get_node_signature(graph_, product).contraction) {
        continue;
      }
      auto& role = roles_[id.index()];
      role.forward = role.forward_passes = 0;
      apart_[id.index()] = true;
    }
  }

  // Fuses an elementwise operator with the only one that reads its result, element by element.
  void fuse_chains() {
    for (auto id : graph_.ids()) {
      if (!is_elementwise(id)) continue;
      const auto inputs = graph_.inputs(id);
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        const auto maker = inputs[i];
        if (!is_elementwise(maker) || !is_read_by_one(maker) ||
            count_elements(maker) != count_elements(id)) {
          continue;
        }
        roles_[id.index()].inside |= ops::InputMask{1} << i;
        auto& role = roles_[maker.index()];
        role.hidden = true;
        role.forward = role.backward = 0;
      }
    }
  }

  // Returns the tensor before the parallelization operators that move it to its reader.
  [[nodiscard]] NodeId find_origin(NodeId id) const {
    while (is_parallel(graph_.node(id))) id = graph_.inputs(id)[0];
    return id;
  }

  [[nodiscard]] double size(NodeId id, term::FactorMask of) const {
    const auto& factors = get_node_signature(graph_, id).map.factors;
    double n = 1;
    for (auto rest = of; rest != 0; rest &= rest - 1) {
      n *= static_cast<double>(factors[static_cast<std::size_t>(std::countr_zero(rest))].size);
    }
    return n;
  }

  // Fuses the matmuls of one tensor with several weights of the same depth.
  void fuse_matmuls() {
    std::map<std::pair<NodeId, double>, std::vector<NodeId>> of;
    for (auto id : graph_.ids()) {
      if (!is_compute(id)) continue;
      const auto& c = get_node_signature(graph_, id).contraction;
      if (!c || c->batch != 0 || c->lhs != 0) continue;
      if (!is_weight(graph_.node(find_origin(graph_.inputs(id)[c->rhs])))) continue;
      of[{find_origin(graph_.inputs(id)[0]), size(id, c->depth)}].push_back(id);
    }
    const auto columns = [&](NodeId id) {
      return size(id, get_node_signature(graph_, id).contraction->columns);
    };
    for (const auto& [tensor, matmuls] : of) {
      if (matmuls.size() < 2) continue;
      double all = 0;
      for (auto id : matmuls) all += columns(id);
      for (auto id : matmuls) {
        auto& role = roles_[id.index()];
        role.joined = all / columns(id);
        role.forward /= static_cast<double>(matmuls.size());
        role.backward /= static_cast<double>(matmuls.size());
        role.gradient_joined = id != matmuls.back();
      }
    }
  }

  const graph::Graph& graph_;
  const Software& software_;
  std::vector<std::vector<NodeId>> consumers_;
  std::set<NodeId> is_output_;
  std::vector<KernelRole> roles_;
  std::vector<bool> apart_;  // by node: not fused into elementwise kernels
};

}  // namespace

std::vector<KernelRole> find_kernel_roles(const graph::Graph& graph, const Software& software) {
  const bool all_apart =
      software.fusion == Fusion::kNone && !software.fused_qkv && software.kernels.empty();
  return all_apart ? std::vector<KernelRole>{} : Analysis(graph, software).run();
}

Hash hash_role(const KernelRole& role) {
  Hash h = hash_combine(role.inside, (role.hidden ? 1U : 0U) | (role.gradient_joined ? 2U : 0U));
  for (double v :
       {role.forward, role.backward, role.forward_passes, role.backward_passes, role.joined}) {
    h = hash_combine(h, std::bit_cast<Hash>(v));
  }
  return h;
}

}  // namespace tandem::predict
