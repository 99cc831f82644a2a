// The effect of other hardware and longer contexts (figures 12 to 15).
#include <fmt/format.h>

#include <algorithm>

#include "evaluators.h"
#include "figure.h"

namespace tandem::figures {

namespace {

using machine::Scale;
using search::MemoryConstraint;

// From an A100 to an H100 (A100+), and with the network of a SuperPOD.
constexpr Scale kNext = {
    .compute = 2.42, .capacity = 2, .bandwidth = 1.29, .intra = 1.5, .inter = 2};
constexpr Scale kNextInter = {
    .compute = 2.42, .capacity = 2, .bandwidth = 1.29, .intra = 1.5, .inter = 9};

const std::vector<std::pair<std::string, Scale>>& get_tenfold_scales() {
  static const std::vector<std::pair<std::string, Scale>> kScales = {
      {"compute", {.compute = 10}},
      {"memory", {.capacity = 10, .bandwidth = 10}},
      {"intra", {.intra = 10}},
      {"inter", {.inter = 10}},
      {"all", {.compute = 10, .capacity = 10, .bandwidth = 10, .intra = 10, .inter = 10}}};
  return kScales;
}

void make_figure_12() {
  Figure figure{.file = "fig12",
                .title = "Figure 12: longer contexts",
                .label = "throughput over FSDP",
                .rows = {},
                .reference = 1};
  Network longer{"LLaMA2, 8K", "llama2_70b:seq=8192", madmax::llama2_70b(8192), 2048};
  const std::vector<Sharing> which = {{.layers = "ddp"}, {.layers = "tp/ddp"}, {.layers = "fsdp"}};
  for (const auto& [name, of] :
       {std::pair{"LLaMA, 2K", find_network("LLaMA")},
        std::pair{"LLaMA2, 4K", find_network("LLaMA2")}, std::pair{"LLaMA2, 8K", longer}}) {
    const auto madmax = ask_madmax({.network = of}, which).without_limit;
    const auto tandem = ask_tandem({.network = of}, which).without_limit;
    for (std::size_t i = 0; i < 2; ++i) {
      figure.rows.push_back({fmt::format("{}, {}", name, to_text(which[i])),
                             {},
                             madmax[i].throughput / madmax.back().throughput,
                             tandem[i].throughput / tandem.back().throughput});
    }
  }
  write(figure);
}

void make_figure_13() {
  Figure figure{.file = "fig13",
                .title = "Figure 13: DLRM-A on other GPUs",
                .label = "throughput over FSDP on A100",
                .rows = {},
                .reference = 1};
  Row inter{.label = "best, A100+ (inter+) over A100+", .paper = 1.82, .madmax = 0, .tandem = 0};
  const auto& a = find_network("DLRM-A");
  const auto all = list_sharings(a);
  const auto madmax_base = find_baseline(ask_madmax({.network = a}, all).without_limit).throughput;
  const auto tandem_base = find_baseline(ask_tandem({.network = a}, all).without_limit).throughput;
  std::optional<std::pair<double, double>> before;
  for (const auto& [name, scale] : {std::pair{"A100", Scale{}}, std::pair{"A100+", kNext},
                                    std::pair{"A100+ (inter+)", kNextInter}}) {
    const Question question{.network = a, .scale = scale};
    const auto madmax = ask_madmax(question, all);
    const auto tandem = ask_tandem(question, all);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto& m = madmax.without_limit[i];
      const auto& t = tandem.without_limit[i];
      figure.rows.push_back({fmt::format("{}, {}", name, to_text(all[i])),
                             {},
                             m.throughput / madmax_base,
                             t.throughput / tandem_base,
                             fmt::format("{}{}", m.fits ? "" : "MAD-Max: does not fit; ",
                                         t.fits ? "" : "Tandem: does not fit")});
    }
    const std::pair now = {find_best(madmax.within_memory, MemoryConstraint::kLimited)->throughput,
                           find_best(tandem.within_memory, MemoryConstraint::kLimited)->throughput};
    if (before) {
      inter.madmax = now.first / before->first;
      inter.tandem = now.second / before->second;
    }
    before = now;
  }
  figure.rows.push_back(inter);
  write(figure);
}

// Writes the throughput of the best strategy that fits, over the best that fits on the unscaled
// machine.
void make_figure_14() {
  for (const auto* name : {"DLRM-A", "GPT-3"}) {
    const auto& of = find_network(name);
    Figure figure{.file = of.is_recommender() ? "fig14_dlrm_a" : "fig14_gpt3",
                  .title = fmt::format("Figure 14: {}, hardware 10 x as fast", name),
                  .label = "throughput over the machine as it is",
                  .rows = {},
                  .reference = 1};
    const auto all = list_sharings(of);
    for (const bool inference : {false, true}) {
      const Question base{.network = of, .inference = inference};
      const auto madmax_base = ask_madmax(base, all).within_memory;
      const auto tandem_base = ask_tandem(base, all).within_memory;
      const auto speedup = [](const std::vector<Answer>& now,
                              const std::vector<Answer>& then) -> std::optional<double> {
        const auto* a = find_best(now, MemoryConstraint::kLimited);
        const auto* b = find_best(then, MemoryConstraint::kLimited);
        if (a == nullptr || b == nullptr) return std::nullopt;
        return a->throughput / b->throughput;
      };
      for (const auto& [what, scale] : get_tenfold_scales()) {
        const Question question{.network = of, .inference = inference, .scale = scale};
        figure.rows.push_back(
            {fmt::format("{}, {}", inference ? "inference" : "pre-training", what),
             {},
             speedup(ask_madmax(question, all).within_memory, madmax_base),
             speedup(ask_tandem(question, all).within_memory, tandem_base),
             what == "all" ? "paper: more than 10"
             : what == "inter" || !of.is_recommender()
                 ? ""
                 : fmt::format("paper: at most {}", inference ? 2.12 : 1.64)});
      }
    }
    write(figure);
  }
}

}  // namespace

void make_figures_12_to_14() {
  make_figure_12();
  make_figure_13();
  make_figure_14();
}

// Writes the serialized kinds of work, and the exposed communication, of the best strategy that
// fits.
void make_figure_15() {
  for (const auto* name : {"DLRM-A", "GPT-3"}) {
    const auto& of = find_network(name);
    Breakdown figure{
        .file = of.is_recommender() ? "fig15_dlrm_a" : "fig15_gpt3",
        .title = fmt::format("Figure 15: {}, pre-training, as if nothing overlapped", name),
        .kinds = {"compute", "embedding", "all_to_all", "all_reduce", "all_gather",
                  "reduce_scatter"},
        .bars = {}};
    Breakdown hidden{.file = figure.file + "_overlap",
                     .title = fmt::format("Figure 15: {}, communication", name),
                     .kinds = {"exposed", "hidden"},
                     .bars = {}};
    auto scales = get_tenfold_scales();
    scales.insert(scales.begin(), {"as it is", {}});
    for (const auto& [what, scale] : scales) {
      const Question question{.network = of, .scale = scale};
      for (const bool of_tandem : {false, true}) {
        const auto all = list_sharings(of);
        const auto answers =
            (of_tandem ? ask_tandem(question, all) : ask_madmax(question, all)).within_memory;
        const auto* fastest = find_best(answers, MemoryConstraint::kLimited);
        if (fastest == nullptr) continue;
        const auto label = fmt::format("{}, {}", what, of_tandem ? "Tandem" : "MAD-Max");
        Breakdown::Bar bar{label, {}};
        double communication = 0;
        for (const auto& kind : figure.kinds) {
          const auto at = fastest->serialized.find(kind);
          bar.seconds.push_back(at == fastest->serialized.end() ? 0 : at->second.value);
          if (bar.seconds.size() > 2) communication += bar.seconds.back();
        }
        figure.bars.push_back(bar);
        const double exposed = fastest->exposed.value;
        hidden.bars.push_back({label, {exposed, std::max(communication - exposed, 0.0)}});
      }
    }
    write(figure);
    write(hidden);
  }
}

}  // namespace tandem::figures
