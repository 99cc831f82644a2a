#include "search/grid/backward_reads.h"

#include <algorithm>

namespace tandem::search {

BackwardReads::BackwardReads(const strategies::Problem& problem,
                             const std::vector<bool>& has_gradient)
    : model_(problem.model), operands_(problem.model.size()), result_(problem.model.size()) {
  for (auto id : model_.ids()) {
    const auto n = id.index();
    if (model_.node(id).op.role() != ops::Role::kCompute || !has_gradient[n]) continue;
    const auto& signature = problem.nodes[n].signature;
    result_[n] = signature.gradient_from_result.has_value();
    if (result_[n]) continue;
    ops::InputMask wanted = 0;
    const auto inputs = model_.inputs(id);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (has_gradient[inputs[i].index()]) wanted |= ops::InputMask{1} << i;
    }
    operands_[n] = term::find_saved_inputs(signature.meaning, wanted);
  }
}

std::vector<bool> BackwardReads::find_recomputed(const strategies::Choices& choices) const {
  std::vector<bool> out(model_.size());
  std::vector<bool> is_read(model_.size());
  for (std::size_t n = model_.size(); n-- > 0;) {
    out[n] = choices[n].recompute && (is_read[n] || result_[n]);
    const auto inputs = model_.inputs(graph::NodeId(n));
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (out[n] || reads(n, i)) is_read[inputs[i].index()] = true;
    }
  }
  return out;
}

namespace {

// Replays the backward pass of one stage, from its last operator to its first.
class BackwardPass {
 public:
  BackwardPass(const BackwardReads& graph, const std::vector<std::uint16_t>& stage_of_node,
               const std::vector<PassBound::UnitResult>& results)
      : graph_(graph),
        stage_of_node_(stage_of_node),
        results_(results),
        begin_(results.size(), kNever),
        end_(results.size()),
        last_read_(results.size(), kNever) {}

  StageActivations run(const std::vector<std::size_t>& nodes) {
    for (now_ = 0; now_ < nodes.size(); ++now_) {
      const auto n = nodes[nodes.size() - 1 - now_];
      if (graph_.reads_result(n)) extend_lifetime(n, n);
      const auto inputs = graph_.model().inputs(graph::NodeId(n));
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (graph_.reads(n, i)) extend_lifetime(inputs[i].index(), n);
      }
    }
    StageActivations out;
    std::vector<double> change(nodes.size() + 1);
    for (auto n : used_) {
      // An operand of a recomputation may be freed before the recomputed tensor is complete.
      const auto end = end_[n] + (last_read_[n] == end_[n] ? 1 : 0);
      const auto bytes = begin_[n] == end ? 0 : results_[n].bytes.value;
      if (begin_[n] == 0 && !is_recomputed_for(n, nodes.front())) out.saved += Bytes{bytes};
      change[begin_[n]] += bytes;
      change[end] -= bytes;
      begin_[n] = kNever;
      last_read_[n] = kNever;
    }
    used_.clear();
    double now = 0;
    for (const auto more : change) out.peak = std::max(out.peak, Bytes{now += more});
    return out;
  }

 private:
  static constexpr std::size_t kNever = static_cast<std::size_t>(-1);

  // Returns whether `reader` recomputes `n`. Results that another stage sent are saved.
  [[nodiscard]] bool is_recomputed_for(std::size_t n, std::size_t reader) const {
    return results_[n].is_recomputed && stage_of_node_[n] == stage_of_node_[reader];
  }

  // Extends the lifetime of `node` to now. Its first use also covers the operands that it is
  // recomputed from.
  void extend_lifetime(std::size_t node, std::size_t reader) {
    last_read_[node] = now_;
    std::vector<std::pair<std::size_t, std::size_t>> open = {{node, reader}};
    while (!open.empty()) {
      const auto [n, of] = open.back();
      open.pop_back();
      end_[n] = now_;
      if (begin_[n] != kNever) continue;
      used_.push_back(n);
      const bool again = is_recomputed_for(n, of);
      begin_[n] = again ? now_ : 0;
      if (!again) continue;
      for (auto i : graph_.model().inputs(graph::NodeId(n))) open.emplace_back(i.index(), n);
    }
  }

  const BackwardReads& graph_;
  const std::vector<std::uint16_t>& stage_of_node_;
  const std::vector<PassBound::UnitResult>& results_;
  std::size_t now_ = 0;                 // operators whose backward pass is over
  std::vector<std::size_t> begin_;      // by node: time from which its result is held
  std::vector<std::size_t> end_;        // by node: time until which it is held
  std::vector<std::size_t> last_read_;  // last read by a backward pass
  std::vector<std::size_t> used_;
};

}  // namespace

std::vector<StageActivations> compute_stage_activations(
    const BackwardReads& graph, const std::vector<std::uint16_t>& stage_of_node, std::size_t stages,
    const std::vector<PassBound::UnitResult>& results) {
  std::vector<std::vector<std::size_t>> nodes(stages);
  for (std::size_t n = 0; n < stage_of_node.size(); ++n) nodes[stage_of_node[n]].push_back(n);
  BackwardPass pass(graph, stage_of_node, results);
  std::vector<StageActivations> out;
  out.reserve(stages);
  for (const auto& of_stage : nodes) {
    out.push_back(of_stage.empty() ? StageActivations{} : pass.run(of_stage));
  }
  return out;
}

}  // namespace tandem::search
