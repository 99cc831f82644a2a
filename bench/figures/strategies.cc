// Strategies compared (figures 8 to 11).
#include <fmt/format.h>

#include <algorithm>

#include "evaluators.h"
#include "figure.h"
#include "report/plot.h"

namespace tandem::figures {

namespace {

using search::MemoryConstraint;

// Returns the best sharing's throughput over FSDP's; nullopt if FSDP or everything does not fit.
std::optional<double> compute_gain(const Answers& answers, MemoryConstraint memory) {
  const auto& of = answers.get_answers(memory);
  const auto* fastest = find_best(of, memory);
  const auto& fsdp = find_baseline(of);
  if (fastest == nullptr || (memory == MemoryConstraint::kLimited && !fsdp.fits))
    return std::nullopt;
  return fastest->throughput / fsdp.throughput;
}

std::string format_best(const Answers& answers, MemoryConstraint memory) {
  const auto* fastest = find_best(answers.get_answers(memory), memory);
  return fastest == nullptr ? "nothing fits" : to_text(fastest->sharing);
}

struct Published {
  double limited, unlimited;  // the largest gain
};

void make_figure_8(bool inference, const Published& published) {
  const std::string task = inference ? "inference" : "pre-training";
  Figure figure{.file = inference ? "fig8_inference" : "fig8_pretrain",
                .title = "Figure 8: the best strategy, " + task,
                .label = "throughput over FSDP",
                .rows = {},
                .reference = 1};
  for (const auto memory : {MemoryConstraint::kLimited, MemoryConstraint::kUnlimited}) {
    Row most{
        .label = memory == MemoryConstraint::kLimited ? "largest of these" : "largest, no limit",
        .paper = memory == MemoryConstraint::kLimited ? published.limited : published.unlimited,
        .madmax = 0,
        .tandem = 0};
    for (const auto& network : get_networks()) {
      const Question question{.network = network, .inference = inference};
      const auto all = list_sharings(network);
      const auto madmax = ask_madmax(question, all);
      const auto tandem = ask_tandem(question, all);
      const Row row{
          .label = network.name + (memory == MemoryConstraint::kLimited ? "" : ", no limit"),
          .paper = {},
          .madmax = compute_gain(madmax, memory),
          .tandem = compute_gain(tandem, memory),
          .note = fmt::format("MAD-Max {}; Tandem {}", format_best(madmax, memory),
                              format_best(tandem, memory))};
      most.madmax = std::max(most.madmax, row.madmax);
      most.tandem = std::max(most.tandem, row.tandem);
      figure.rows.push_back(row);
    }
    figure.rows.push_back(most);
  }
  write(figure);
}

// Writes every sharing over FSDP, whether it fits or not.
void make_figure_over_fsdp(const std::string& file, const std::string& title,
                           const Network& network, const std::vector<Sharing>& which,
                           const std::vector<std::pair<Sharing, double>>& published) {
  Figure figure{
      .file = file, .title = title, .label = "throughput over FSDP", .rows = {}, .reference = 1};
  const Question question{.network = network};
  auto asked = which;
  const auto all = list_sharings(network);
  asked.push_back(all[0]);  // fsdp, to compare with
  const auto madmax = ask_madmax(question, asked).without_limit;
  const auto tandem = ask_tandem(question, asked).without_limit;
  for (std::size_t i = 0; i < which.size(); ++i) {
    Row row{.label = to_text(which[i]),
            .paper = {},
            .madmax = madmax[i].throughput / madmax.back().throughput,
            .tandem = tandem[i].throughput / tandem.back().throughput};
    for (const auto& [sharing, value] : published) {
      if (sharing == which[i]) row.paper = value;
    }
    if (!madmax[i].fits) row.note += "MAD-Max: does not fit; ";
    if (!tandem[i].fits) row.note += "Tandem: does not fit; ";
    figure.rows.push_back(row);
  }
  write(figure);
}

}  // namespace

void make_figures_8_to_10() {
  make_figure_8(false, {.limited = 2.24, .unlimited = 2.43});
  make_figure_8(true, {.limited = 5.27, .unlimited = 12.13});
  const auto& a = find_network("DLRM-A");
  make_figure_over_fsdp("fig9", "Figure 9: DLRM-A, dense layers", a, list_sharings(a),
                        {{{.layers = "tp"}, 0.19}, {{.layers = "tp/ddp"}, 1.14}});
  const auto& gpt3 = find_network("GPT-3");
  make_figure_over_fsdp(
      "gpt3", "GPT-3 (section 5)", gpt3, list_sharings(gpt3),
      {{{.layers = "tp/ddp"}, 1.34}, {{.layers = "ddp/tp"}, 0.18}, {{.layers = "ddp"}, 1.68}});
  const auto& moe = find_network("DLRM-A-MoE");
  make_figure_over_fsdp("fig10_moe", "Figure 10: DLRM-A-MoE", moe, list_sharings(moe), {});
  const auto& transformer = find_network("DLRM-A-Transformer");
  std::vector<Sharing> varied;
  for (const auto& sharing : list_sharings(transformer)) {
    if (sharing.layers == "tp/ddp") varied.push_back(sharing);
  }
  make_figure_over_fsdp("fig10_transformer", "Figure 10: DLRM-A-Transformer, dense (tp, ddp)",
                        transformer, varied, {});
}

void make_figure_11() {
  constexpr double kGiga = 1e9;
  for (const bool inference : {false, true}) {
    std::string csv = "evaluator,network,strategy,memory_bytes,samples_per_s,fits,pareto\n";
    for (const bool of_tandem : {false, true}) {
      report::Scatter plot{
          .title = fmt::format("Figure 11: {}, {}", inference ? "inference" : "pre-training",
                               of_tandem ? "Tandem" : "MAD-Max's formulas"),
          .x_label = of_tandem   ? "memory of the fullest device, GB"
                     : inference ? "weights of a device, GB"
                                 : "3 x weights of a device, GB",
          .y_label = "samples a second",
          .series = {},
          .x_limit = {{40, "40 GB"}}};
      for (const auto* name : {"DLRM-A", "DLRM-A-Transformer", "DLRM-A-MoE"}) {
        const Question question{.network = find_network(name), .inference = inference};
        const auto all = list_sharings(question.network);
        const auto answers =
            (of_tandem ? ask_tandem(question, all) : ask_madmax(question, all)).without_limit;
        search::Exploration found;
        for (const auto& a : answers) {
          search::Evaluated point{.name = to_text(a.sharing), .throughput = a.throughput};
          point.simulation.memory = Bytes{a.memory};
          point.feasible = a.fits;
          found.points.push_back(point);
        }
        auto front = find_pareto_front(found.points, list_points(found));
        std::ranges::sort(front, {}, [&](auto i) { return found.points[i].simulation.memory; });
        report::Scatter::Series series{.name = name, .dots = {}, .joined = true};
        for (std::size_t i = 0; i < answers.size(); ++i) {
          const auto& p = found.points[i];
          csv += fmt::format("{},{},\"{}\",{:.0f},{:.5g},{},{}\n", of_tandem ? "tandem" : "madmax",
                             name, p.name, p.simulation.memory.value, p.throughput, p.feasible,
                             std::ranges::find(front, i) != front.end());
        }
        for (auto i : front) {
          const auto& p = found.points[i];
          series.dots.push_back({p.simulation.memory.value / kGiga, p.throughput, p.name});
        }
        plot.series.push_back(series);
      }
      write_file(fmt::format("fig11_{}_{}.svg", inference ? "inference" : "pretrain",
                             of_tandem ? "tandem" : "madmax"),
                 report::to_svg(plot));
    }
    write_file(fmt::format("fig11_{}.csv", inference ? "inference" : "pretrain"), csv);
  }
}

}  // namespace tandem::figures
