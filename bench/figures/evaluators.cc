#include "evaluators.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "base/check.h"
#include "base/text.h"
#include "models/inference.h"
#include "models/model.h"

namespace tandem::figures {

namespace {

using madmax::Method;
using search::MemoryConstraint;
using strategies::LayerKind;

Method parse_method(std::string_view text) {
  if (text == "ddp") return Method::kReplicate;
  if (text == "fsdp") return Method::kShard;
  CHECK(text == "tp", std::string(text));
  return Method::kTensor;
}

madmax::LayerStrategy parse_madmax_strategy(const std::string& text, const madmax::System& system) {
  const auto levels = split(text, '/');
  if (levels.size() == 1) return madmax::flat(parse_method(levels[0]), system);
  return madmax::nested(parse_method(levels[0]), parse_method(levels[1]), system);
}

// Returns the system of the paper's table 3, scaled.
madmax::System make_madmax_system(const Question& question) {
  const bool recommender = question.network.is_recommender();
  const int nodes = question.nodes > 0 ? question.nodes : recommender ? 16 : 256;
  auto out = madmax::a100_system(8 * nodes);
  if (!recommender) {
    out.memory = Bytes{80e9};
    out.memory_bandwidth = BytesPerSecond{1.93e12};
  }
  const auto& scale = question.scale;
  for (auto& peak : out.peak) peak = peak * scale.compute;
  out.memory = out.memory * scale.capacity;
  out.memory_bandwidth = out.memory_bandwidth * scale.bandwidth;
  out.intra_bandwidth = out.intra_bandwidth * scale.intra;
  out.inter_bandwidth = out.inter_bandwidth * scale.inter;
  return out;
}

Answer evaluate_by_madmax(const Question& question, const Sharing& sharing) {
  const auto system = make_madmax_system(question);
  const auto& network = question.network;
  const auto layers = parse_madmax_strategy(sharing.layers, system);
  const auto purpose =
      question.inference ? madmax::Purpose::kInference : madmax::Purpose::kPretrain;
  madmax::TaskDescription task;
  if (network.is_recommender()) {
    const bool has_transformer = network.madmax.transformer.blocks > 0;
    const auto& text = sharing.transformer.empty() ? sharing.layers : sharing.transformer;
    task = recommendation_task(
        purpose, layers, network.batch, system,
        has_transformer ? parse_madmax_strategy(text, system) : madmax::LayerStrategy{});
  } else {
    task = language_task(network.madmax, layers, network.batch, system);
    task.purpose = purpose;
  }
  const auto r = madmax::evaluate(network.madmax, system, task);
  constexpr double kCopiesInTraining = 3;  // weights, gradients, optimizer state
  const double memory = r.weights.value * (question.inference ? 1 : kCopiesInTraining);
  const auto& t = r.totals;
  return {.sharing = sharing,
          .throughput = r.throughput(),
          .iteration = r.iteration,
          .memory = memory,
          .fits = memory <= system.memory.value,
          .exposed_share = r.exposed_share(),
          .serialized = {{"compute", t.get_time(madmax::Compute::kGemm)},
                         {"embedding", t.get_time(madmax::Compute::kEmbedding)},
                         {"all_to_all", t.get_time(madmax::Collective::kAllToAll)},
                         {"all_reduce", t.get_time(madmax::Collective::kAllReduce)},
                         {"all_gather", t.get_time(madmax::Collective::kAllGather)},
                         {"reduce_scatter", t.get_time(madmax::Collective::kReduceScatter)}},
          .exposed = r.exposed()};
}

// A model on a machine, for which tandem evaluates points.
struct Situation {
  machine::Machine machine;
  machine::Digits digits;
  graph::Graph model;
  strategies::Problem problem;

  explicit Situation(const Question& q)
      : machine(make_machine(q)), digits(machine), model(build_model(q)), problem(model, digits) {}

  static graph::Graph build_model(const Question& q) {
    const auto model = models::parse_model(q.network.tandem)
                           .build(static_cast<std::int64_t>(q.network.batch),
                                  q.network.is_recommender() ? DType::kFp32 : DType::kBf16);
    return q.inference ? models::convert_to_inference(model) : model;
  }
  static machine::Machine make_machine(const Question& q) {
    const bool recommender = q.network.is_recommender();
    const int nodes = q.nodes > 0 ? q.nodes : recommender ? 16 : 256;
    return scale_machine(
        machine::load_machine(fmt::format("{}:{}{}", recommender ? "zionex" : "dgx_a100", nodes,
                                          recommender ? ",software=neo" : "")),
        q.scale);
  }
};

std::string make_strategy_text(const Sharing& sharing, const strategies::Problem& problem,
                               const std::string& recompute) {
  const auto& transformer = sharing.transformer.empty() ? sharing.layers : sharing.transformer;
  std::string out;
  const auto add = [&](LayerKind kind, const std::string& how) {
    if (problem.has(kind)) {
      out += fmt::format("{}{}={}", out.empty() ? "madmax:" : ",", name(kind), how);
    }
  };
  add(LayerKind::kDense, sharing.layers);
  add(LayerKind::kTransformer, transformer);
  add(LayerKind::kExperts, sharing.layers);
  add(LayerKind::kWordEmbedding, "ddp");
  // DDP and FSDP use buckets: over 256 nodes every collective waits for hundreds of steps' latency.
  if (problem.has(LayerKind::kWordEmbedding)) out += ",bucket=1GB";
  return recompute == "none" ? out : out + ",recompute=" + recompute;
}

Answer to_answer(const Sharing& sharing, const search::Evaluated& point) {
  const auto& s = point.simulation;
  return {.sharing = sharing,
          .throughput = point.throughput,
          .iteration = s.iteration,
          .memory = s.memory.value,
          .fits = point.feasible,
          .exposed_share = point.exposed_share(),
          .serialized = s.serialized,
          .exposed = s.exposed_comm};
}

}  // namespace

std::string to_text(const Sharing& sharing) {
  const auto one = [](const std::string& text) {
    const auto slash = text.find('/');
    if (slash == std::string::npos) return text;
    return fmt::format("({}, {})", text.substr(0, slash), text.substr(slash + 1));
  };
  if (sharing.transformer.empty()) return one(sharing.layers);
  return fmt::format("{}, transformer {}", one(sharing.layers), one(sharing.transformer));
}

const std::vector<Network>& get_networks() {
  using madmax::with_experts;
  using madmax::with_transformer;
  constexpr double kA = 65536;
  constexpr double kB = 262144;
  constexpr double kSequences = 2048;
  static const std::vector<Network> kNetworks = {
      {"DLRM-A", "dlrm_a", madmax::dlrm_a(), kA},
      {"DLRM-A-Transformer", "dlrm_a_transformer", with_transformer(madmax::dlrm_a()), kA},
      {"DLRM-A-MoE", "dlrm_a_moe", with_experts(madmax::dlrm_a()), kA},
      {"DLRM-B", "dlrm_b", madmax::dlrm_b(), kB},
      {"DLRM-B-Transformer", "dlrm_b_transformer", with_transformer(madmax::dlrm_b()), kB},
      {"DLRM-B-MoE", "dlrm_b_moe", with_experts(madmax::dlrm_b()), kB},
      {"GPT-3", "gpt3_175b", madmax::gpt3(), kSequences},
      {"LLaMA", "llama_65b", madmax::llama_65b(), kSequences},
      {"LLaMA2", "llama2_70b", madmax::llama2_70b(), kSequences},
      {"LLM-MoE", "llm_moe_1.8t", madmax::llm_moe(), kSequences},
  };
  return kNetworks;
}

const Network& find_network(const std::string& name) {
  const auto at = std::ranges::find(get_networks(), name, &Network::name);
  CHECK(at != get_networks().end(), name);
  return *at;
}

std::vector<Sharing> list_sharings(const Network& network) {
  const std::vector<std::string> all = {"fsdp",   "ddp",      "tp",     "tp/ddp",
                                        "ddp/tp", "fsdp/ddp", "fsdp/tp"};
  std::vector<Sharing> out;
  for (const auto& layers : all) {
    if (network.madmax.family != madmax::ModelFamily::kDlrmTransformer) {
      out.push_back({.layers = layers});
      continue;
    }
    for (const auto& transformer : all) {
      out.push_back({.layers = layers, .transformer = transformer});
    }
  }
  return out;
}

Answers ask_madmax(const Question& question, const std::vector<Sharing>& sharings) {
  std::vector<Answer> out;
  out.reserve(sharings.size());
  for (const auto& sharing : sharings) out.push_back(evaluate_by_madmax(question, sharing));
  return {out, out};
}

Answers ask_tandem(const Question& question, const std::vector<Sharing>& sharings) {
  const Situation on(question);
  std::vector<std::string> recompute = {"none"};
  if (!question.network.is_recommender() && !question.inference) {
    recompute = {"none", "selective", "full"};
  }
  std::vector<strategies::Setting> settings;
  for (const auto& sharing : sharings) {
    for (const auto& how : recompute) {
      settings.push_back(strategies::parse_setting(make_strategy_text(sharing, on.problem, how)));
    }
  }
  const search::Case here{
      .values = {},
      .problem = &on.problem,
      .machine = &on.machine,
      .batch = static_cast<std::int64_t>(question.network.batch),
      .optimizer =
          question.network.is_recommender() ? plan::Optimizer::kSgd : plan::Optimizer::kAdam,
      .mode = question.inference ? lower::Mode::kInference : lower::Mode::kTraining,
      .limits = search::compute_memory_limits(on.machine, {})};
  const auto found =
      search::explore({here}, {settings}, {.threads = std::thread::hardware_concurrency()});
  CHECK(found.refused.empty(), found.refused.empty() ? "" : found.refused[0].why);
  Answers out;
  for (std::size_t i = 0; i < sharings.size(); ++i) {
    std::vector<Answer> ways;
    for (std::size_t k = 0; k < recompute.size(); ++k) {
      ways.push_back(to_answer(sharings[i], found.points[i * recompute.size() + k]));
    }
    const auto* fitting = find_best(ways, MemoryConstraint::kLimited);
    const auto* fastest = find_best(ways, MemoryConstraint::kUnlimited);
    out.within_memory.push_back(fitting != nullptr ? *fitting : *fastest);
    out.without_limit.push_back(*fastest);
  }
  return out;
}

const Answer* find_best(const std::vector<Answer>& answers, MemoryConstraint memory) {
  const Answer* out = nullptr;
  for (const auto& answer : answers) {
    if (memory == MemoryConstraint::kLimited && !answer.fits) continue;
    if (out == nullptr || answer.throughput > out->throughput) out = &answer;
  }
  return out;
}

const Answer& find_answer(const std::vector<Answer>& answers, const Sharing& sharing) {
  const auto at = std::ranges::find(answers, sharing, &Answer::sharing);
  CHECK(at != answers.end(), to_text(sharing));
  return *at;
}

const Answer& find_baseline(const std::vector<Answer>& answers) {
  const auto at = std::ranges::find_if(answers, [](const Answer& a) {
    const auto& s = a.sharing;
    return s.layers == "fsdp" && (s.transformer.empty() || s.transformer == "fsdp");
  });
  CHECK(at != answers.end(), answers.size());
  return *at;
}

}  // namespace tandem::figures
