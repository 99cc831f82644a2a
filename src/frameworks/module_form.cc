#include "frameworks/module_form.h"

#include <algorithm>
#include <string_view>

#include "base/text.h"
#include "ops/attributes.h"
#include "ops/registry.h"

namespace tandem::frameworks {

namespace {

using graph::Graph;
using graph::NodeId;
using Words = std::vector<std::string_view>;

DimMap make_identity_dims(std::size_t rank) {
  DimMap out;
  for (std::size_t d = 0; d < rank; ++d) out.emplace_back(static_cast<int>(d));
  return out;
}

// Returns the dimensions of an activation: features count from the end.
DimMap make_activation_dims(std::size_t rank) {
  auto out = make_identity_dims(rank);
  if (rank > 0) out.back() = -1;
  return out;
}

bool has_word(const Words& words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

// Form of a contraction as nn.Linear. In "b s i, h d i -> b h s d" the weight is [h d, i], the
// input [b s i] and the output [b s (h d)].
class MatmulForm {
 public:
  MatmulForm(const Shape& weight_sizes, Words x, Words w, Words out)
      : weight_sizes_(weight_sizes), x_(std::move(x)), w_(std::move(w)), out_(std::move(out)) {
    for (auto word : w_) {
      const bool in_x = has_word(x_, word);
      const bool in_out = has_word(out_, word);
      is_matmul_ = is_matmul_ && in_x != in_out;
      (in_x ? contracted_ : output_features_).push_back(word);
    }
    // One of the two activations is written in PyTorch's order.
    for (auto word : contracted_.size() == 1 ? x_ : out_) {
      if (!has_word(w_, word)) leading_.push_back(word);
    }
    is_matmul_ = is_matmul_ && !contracted_.empty() && !output_features_.empty();
  }

  [[nodiscard]] std::optional<ModuleForm> form() const {
    if (!is_matmul_) return std::nullopt;
    ModuleForm out{.weight = {1, 1}, .weight_dims = {}, .input_dims = {}, .output_dims = {}};
    for (std::size_t d = 0; d < w_.size(); ++d) {
      const auto& group = has_word(output_features_, w_[d]) ? output_features_ : contracted_;
      const std::size_t dim = &group == &output_features_ ? 0 : 1;
      out.weight[dim] *= weight_sizes_[d];
      out.weight_dims.push_back(w_[d] == group.front() ? std::optional(static_cast<int>(dim))
                                                       : std::nullopt);
    }
    for (auto word : x_) out.input_dims.push_back(find_activation_dim(word, contracted_));
    for (auto word : out_) out.output_dims.push_back(find_activation_dim(word, output_features_));
    return out;
  }

 private:
  [[nodiscard]] std::optional<int> find_activation_dim(std::string_view word,
                                                       const Words& features) const {
    if (has_word(leading_, word)) {
      return static_cast<int>(std::ranges::find(leading_, word) - leading_.begin());
    }
    return word == features.front() ? std::optional(-1) : std::nullopt;
  }

  const Shape& weight_sizes_;
  Words x_, w_, out_;
  Words contracted_, output_features_, leading_;
  bool is_matmul_ = true;
};

std::optional<ModuleForm> make_contraction_form(const Graph& graph, NodeId id,
                                                std::size_t operand) {
  const auto& op = graph.node(id).op;
  const auto inputs = graph.inputs(id);
  const auto& index = op.get<ops::Contract>().index;
  if (inputs.size() != 2 || index.find('(') != std::string::npos) return std::nullopt;
  const auto arrow = index.find("->");
  const auto sides = split(std::string_view(index).substr(0, arrow), ',');
  return MatmulForm(graph.node(inputs[operand]).type.shape.sizes, split_words(sides[1 - operand]),
                    split_words(sides[operand]),
                    split_words(std::string_view(index).substr(arrow + 2)))
      .form();
}

// Merges the bias of a matmul with heads, [h 1 d], to the one dimension of PyTorch.
ModuleForm merge_bias_dims(ModuleForm form) {
  Shape merged = {1};
  bool is_first = true;
  for (std::size_t d = 0; d < form.weight.rank(); ++d) {
    merged[0] *= form.weight[d];
    form.weight_dims[d] = std::nullopt;
    if (form.weight[d] == 1) continue;
    if (is_first) form.weight_dims[d] = 0;
    is_first = false;
  }
  form.weight = merged;
  return form;
}

}  // namespace

ModuleForm make_module_form(const Graph& graph, NodeId id, std::size_t operand) {
  const auto inputs = graph.inputs(id);
  const auto& op = graph.node(id).op;
  if (op.is(ops::kContract)) {
    if (auto form = make_contraction_form(graph, id, operand)) return *std::move(form);
  }
  const auto& weight = graph.node(inputs[operand]).type.shape.sizes;
  ModuleForm out{.weight = weight,
                 .weight_dims = make_identity_dims(weight.rank()),
                 .input_dims = make_activation_dims(graph.node(inputs[0]).type.shape.rank()),
                 .output_dims = make_activation_dims(graph.node(id).type.shape.rank())};
  if (op.is(ops::kEmbedding)) out.input_dims = make_identity_dims(out.input_dims.size());
  const bool has_ones = std::ranges::find(weight, 1) != weight.end();
  return op.is(ops::kAdd) && weight.rank() > 1 && has_ones ? merge_bias_dims(std::move(out)) : out;
}

}  // namespace tandem::frameworks
