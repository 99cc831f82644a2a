// The networks and their costs (tables 1 and 2, figures 1, 3 and 7).
#include <fmt/format.h>

#include "evaluators.h"
#include "figure.h"
#include "models/model.h"
#include "strategies/model_figures.h"

namespace tandem::figures {

namespace {

using search::MemoryConstraint;

struct Published {
  std::string name, tandem;
  std::optional<double> parameters, flops, lookups;  // of a sample, or of a token
  std::string note = {};
};

// Table 2. Lookups in 32-bit numbers.
const std::vector<Published>& get_table_2() {
  static const std::vector<Published> kTable = {
      {"DLRM-A", "dlrm_a", 793e9, 638e6, 22.61e6,
       "93 wide as its parameters ask; the lookups are those of 92"},
      {"DLRM-A-Transformer", "dlrm_a_transformer", {}, 2.6e9, 22.61e6},
      {"DLRM-A-MoE", "dlrm_a_moe", 795e9, 957e6, 22.61e6},
      {"DLRM-B", "dlrm_b", 332e9, 60e6, 13.19e6},
      {"DLRM-B-Transformer", "dlrm_b_transformer", {}, 2.1e9, 13.19e6},
      {"DLRM-B-MoE", "dlrm_b_moe", 333e9, 90e6, 13.19e6},
      {"GPT-3, a token", "gpt3_175b", 175e9, 350e9, 49.2e3, "attention's scores count here"},
      {"LLaMA, a token", "llama_65b", 65.2e9, 130.4e9, 32.8e3, "attention's scores count here"},
      {"LLaMA2, a token", "llama2_70b", 70e9, 140e9, 32.8e3, "attention's scores count here"},
      {"LLM-MoE, a token", "llm_moe_1.8t", 1.8e12, 550e9, 42.8e3, "attention's scores count here"},
  };
  return kTable;
}

strategies::ModelFigures compute_model_figures(const std::string& text) {
  constexpr std::int64_t kSamples = 2;
  return strategies::compute_figures(models::parse_model(text).build(kSamples, DType::kFp32),
                                     kSamples);
}

double count_parameters(const strategies::ModelFigures& figures) {
  double sum = 0;
  for (const auto& [kind, count] : figures.parameters) sum += static_cast<double>(count);
  return sum;
}

void make_figure_3() {
  Figure capacity{.file = "fig3_capacity",
                  .title = "Figure 3: capacity",
                  .label = "bytes of parameters, 32 bit",
                  .rows = {},
                  .log = true};
  Figure flops{.file = "fig3_flops",
               .title = "Figure 3: compute",
               .label = "FLOP of a sample, forward",
               .rows = {},
               .log = true};
  Figure lookups{.file = "fig3_lookups",
                 .title = "Figure 3: bandwidth",
                 .label = "bytes looked up for a sample, 32 bit",
                 .rows = {},
                 .log = true};
  const std::vector<std::pair<std::string, std::string>> models = {
      {"DLRM-A", "dlrm_a"},
      {"DLRM-B", "dlrm_b"},
      {"DLRM-C",  // 12 T parameters
       "dlrm_a:tables=64,rows=732000000,dim=256,bag=20,bottom=4x560,top=4x560,dense=560"},
      {"GPT-3", "gpt3_175b"},
      {"LLaMA", "llama_65b"},
      {"LLaMA2", "llama2_70b"}};
  for (const auto& [name, text] : models) {
    const auto own = compute_model_figures(text);
    capacity.rows.push_back({name, {}, {}, 4 * count_parameters(own)});
    flops.rows.push_back({name, {}, {}, own.flops.value});
    lookups.rows.push_back({name, {}, {}, own.lookups.value});
  }
  for (const auto& figure : {capacity, flops, lookups}) write(figure);
}

Answer ask_evaluator(const Question& question, const std::string& layers, bool of_tandem) {
  const std::vector<Sharing> one = {{.layers = layers}};
  return (of_tandem ? ask_tandem(question, one) : ask_madmax(question, one)).within_memory[0];
}

double sum_times(const std::map<std::string, Seconds>& times) {
  double sum = 0;
  for (const auto& [kind, time] : times) sum += time.value;
  return sum;
}

void make_table_1() {
  Figure table{.file = "table1", .title = "Table 1: predictions", .label = "as each row says"};
  const auto add = [&](const std::string& label, double paper, const auto& value,
                       const std::string& network, const std::string& layers,
                       const std::string& note) {
    const Question question{.network = figures::find_network(network)};
    table.rows.push_back({label, paper, value(ask_evaluator(question, layers, false)),
                          value(ask_evaluator(question, layers, true)), note});
  };
  const auto serialized = [](const Answer& a) { return 1e3 * sum_times(a.serialized); };
  const auto exposed = [](const Answer& a) { return 100 * a.exposed_share; };
  const auto mqps = [](const Answer& a) { return a.throughput / 1e6; };
  const auto gpu_hours = [](const Answer& a) { return 306e3 * a.iteration.value * 2048 / 3600; };
  const auto days = [](const Answer& a) {
    return 1.4e12 / (2048.0 * 2048) * a.iteration.value / 86400;
  };
  add("DLRM-A, serialized ms", 65.3, serialized, "DLRM-A", "ddp", "measured 67.40");
  add("DLRM-A, exposed %", 75.46, exposed, "DLRM-A", "ddp", "measured 82.37");
  add("DLRM-A, million samples/s", 1.21, mqps, "DLRM-A", "ddp", "measured 1.2");
  add("DLRM-B, million samples/s", 3.06, mqps, "DLRM-B", "fsdp", "measured 3.4");
  add("LLaMA, GPU hours of 306 k steps", 863397, gpu_hours, "LLaMA", "fsdp/ddp",
      "measured 1022361");
  add("LLaMA, days for 1.4 T tokens", 19.21, days, "LLaMA", "fsdp/ddp", "measured 20.83");
  write_table(table);
}

// Writes the optimum over FSDP; the paper has 34 % for a DLRM and for a language model.
void make_figure_1() {
  Figure figure{.file = "fig1",
                .title = "Figure 1: the best strategy",
                .label = "throughput over FSDP",
                .rows = {},
                .reference = 1};
  for (const auto& [name, memory] : {std::pair{"DLRM-A", MemoryConstraint::kUnlimited},
                                     std::pair{"LLaMA", MemoryConstraint::kLimited}}) {
    const Question question{.network = find_network(name)};
    const auto all = list_sharings(question.network);
    const auto speedup = [&, memory = memory](const Answers& answers) {
      const auto& of = answers.get_answers(memory);
      return find_best(of, memory)->throughput / find_baseline(of).throughput;
    };
    figure.rows.push_back(
        {fmt::format("{}{}", name,
                     memory == MemoryConstraint::kUnlimited ? ", no memory limit" : ""),
         1.34, speedup(ask_madmax(question, all)), speedup(ask_tandem(question, all))});
  }
  write(figure);
}

void make_figure_7() {
  Breakdown figure{
      .file = "fig7",
      .title = "Figure 7: DLRM-A, data parallel, as if nothing overlapped",
      .kinds = {"compute", "embedding", "all_to_all", "all_reduce", "all_gather", "reduce_scatter"},
      .bars = {}};
  Breakdown exposed{.file = "fig7_overlapped",
                    .title = "Figure 7: DLRM-A, data parallel, overlapped",
                    .kinds = {"compute", "exposed communication"},
                    .bars = {}};
  for (const int nodes : {1, 16}) {
    Question question{.network = find_network("DLRM-A"), .nodes = nodes};
    question.network.batch = 4096.0 * nodes;
    for (const bool of_tandem : {false, true}) {
      const auto a = ask_evaluator(question, "ddp", of_tandem);
      const auto label = fmt::format("{} GPUs, {}", 8 * nodes, of_tandem ? "Tandem" : "MAD-Max");
      Breakdown::Bar bar{label, {}};
      for (const auto& kind : figure.kinds) {
        const auto at = a.serialized.find(kind);
        bar.seconds.push_back(at == a.serialized.end() ? 0 : at->second.value);
      }
      figure.bars.push_back(bar);
      exposed.bars.push_back({label, {a.iteration.value - a.exposed.value, a.exposed.value}});
    }
  }
  write(figure);
  write(exposed);
}

}  // namespace

void make_table_1_and_figures_1_and_7() {
  make_table_1();
  make_figure_1();
  make_figure_7();
}

void make_table_2_and_figure_3() {
  Figure parameters{.file = "table2_parameters",
                    .title = "Table 2",
                    .label = "parameters",
                    .rows = {},
                    .log = true};
  Figure flops{.file = "table2_flops",
               .title = "Table 2",
               .label = "FLOP, forward",
               .rows = {},
               .log = true};
  Figure lookups{.file = "table2_lookups",
                 .title = "Table 2",
                 .label = "bytes looked up",
                 .rows = {},
                 .log = true};
  for (const auto& row : get_table_2()) {
    const auto own = compute_model_figures(row.tandem);
    const bool per_token = own.tokens > 0;
    parameters.rows.push_back({row.name, row.parameters, {}, count_parameters(own)});
    flops.rows.push_back({row.name,
                          row.flops,
                          {},
                          per_token ? own.flops_per_token().value : own.flops.value,
                          per_token ? row.note : ""});
    lookups.rows.push_back({row.name,
                            row.lookups,
                            {},
                            per_token ? own.lookups_per_token().value : own.lookups.value,
                            per_token ? "" : row.note});
  }
  for (const auto& figure : {parameters, flops, lookups}) write(figure);
  make_figure_3();
}

}  // namespace tandem::figures
