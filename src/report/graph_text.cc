#include "report/graph_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/text.h"
#include "graph/fold.h"
#include "models/model.h"
#include "strategies/model_figures.h"

namespace tandem::report {

namespace {

using graph::FoldedLine;
using graph::Graph;
using graph::NodeId;

struct GraphTotals {
  double parameters = 0;
  double flops = 0;
};

GraphTotals compute_totals(const Graph& graph, NodeId first, std::size_t nodes) {
  GraphTotals out;
  for (std::size_t i = first.index(); i < first.index() + nodes; ++i) {
    const NodeId id(i);
    const auto& node = graph.node(id);
    if (is_weight(node)) out.parameters += static_cast<double>(node.type.shape.sizes.count());
    if (node.op.role() == ops::Role::kCompute)
      out.flops += get_node_signature(graph, id).flops.value;
  }
  return out;
}

// Returns the comment of a line: the parameters of a weight, the operations of a compute node, or
// both for one iteration of a repeat.
std::string make_comment(const Graph& graph, const FoldedLine& line) {
  const auto totals = compute_totals(graph, line.first, line.nodes);
  if (line.kind == FoldedLine::FoldedLineKind::kRepeat) {
    return fmt::format("{} x ({} parameters, {})", line.count, format_count(totals.parameters),
                       format_flops(totals.flops));
  }
  if (totals.parameters > 0) return fmt::format("{} parameters", format_count(totals.parameters));
  return totals.flops > 0 ? format_flops(totals.flops) : std::string();
}

std::string work_text(Flops flops, Bytes lookups) {
  auto out = format_flops(flops.value);
  if (lookups > Bytes{})
    out += fmt::format(", {} of embedding lookups", format_bytes(lookups.value));
  return out;
}

// Returns the lines that follow the first one: parameters by kind of layer if there are several
// kinds, and the operations and lookups per sample and per token.
std::vector<std::string> figure_lines(const strategies::ModelFigures& figures) {
  std::vector<std::string> out;
  if (figures.parameters.size() > 1) {
    std::vector<std::string> kinds;
    for (const auto& [kind, count] : figures.parameters) {
      kinds.push_back(fmt::format("{} {}", format_count(static_cast<double>(count)), name(kind)));
    }
    out.push_back("parameters: " + join(kinds, ", "));
  }
  const bool says_more = figures.samples > 1 && figures.flops > Flops{};
  if (!says_more && figures.lookups == Bytes{}) return out;
  auto work = "per sample: " + work_text(figures.flops, figures.lookups);
  if (figures.tokens > 0) {
    work += "; per token: " + work_text(figures.flops_per_token(), figures.lookups_per_token());
  }
  out.push_back(work);
  return out;
}

}  // namespace

std::string graph_text(const Graph& graph, const std::string& title, std::int64_t samples) {
  const auto parameters = models::count_parameters(graph);
  graph::FoldedTextOptions options;
  options.header = {fmt::format("{}: {} parameters ({}), {} forward, {} nodes", title,
                                format_count(static_cast<double>(parameters)),
                                format_bytes(models::count_weight_bytes(graph).value),
                                format_flops(models::count_forward_flops(graph).value),
                                graph.size())};
  std::ranges::copy(figure_lines(strategies::compute_figures(graph, samples)),
                    std::back_inserter(options.header));
  options.comment = [&](const FoldedLine& line) { return make_comment(graph, line); };
  return to_folded_text(graph, options);
}

}  // namespace tandem::report
