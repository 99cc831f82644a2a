#include "validate/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "strategies/stages.h"

namespace tandem::validate {

namespace {

using machine::Machine;
using strategies::Family;
using strategies::Recompute;
using strategies::Setting;

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// Software that was run, and how it differs from others.
struct SoftwareTraits {
  std::string_view word;     // in a record's source
  std::string_view section;  // name of its software profile
  bool plain_loss = false;   // computes the loss in fp32, operator by operator
  // Runs operator by operator, with norms and softmax in fp32, unless the record names a kernel.
  // Each device of a tensor-parallel group computes the whole loss.
  bool plain = false;
  bool saves_all = false;       // recomputes nothing, whatever the record assumes
  bool narrow = false;          // bf16/fp16 gradients where the strategy's family has fp32
  bool recomputes = false;      // recomputes everything if not stated
  bool pads_to_divide = false;  // pads the vocabulary only if it is sharded
  bool packs = false;           // computes no padding positions
  bool even_weights = false;    // balances stages by weights of layers, embedding and LM head
  std::string_view stack = {};  // profile from which it differs in one kernel; empty: none
};

constexpr std::array<SoftwareTraits, 14> kSoftware = {{
    {.word = "ground_truth_single",
     .section = "megatron-deepspeed",
     .saves_all = true,
     .narrow = true,
     .pads_to_divide = true},
    {.word = "vTrain", .section = "megatron-deepspeed", .narrow = true},
    {.word = "MT-NLG", .section = "megatron-deepspeed"},
    {.word = "OPT paper", .section = "", .recomputes = true},
    {.word = "_mxnet/resnet", .section = "mxnet"},
    {.word = "_pytorch/bert", .section = "mlperf-bert", .packs = true},
    {.word = "llm-foundry", .section = "llm-foundry", .plain_loss = true},
    {.word = "Aleph-Alpha",
     .section = "aleph-alpha",
     .plain_loss = true,
     .plain = true,
     .narrow = true,
     .even_weights = true},
    {.word = "2311.05610",
     .section = "aleph-alpha",
     .plain_loss = true,
     .plain = true,
     .narrow = true,
     .even_weights = true},
    {.word = "torchtitan", .section = "torchtitan", .plain_loss = true},
    {.word = "Megatron", .section = "megatron", .recomputes = true},
    {.word = "2104.04473", .section = "megatron", .recomputes = true},
    {.word = "SC21", .section = "megatron", .recomputes = true},
    {.word = "2205.05198", .section = "megatron", .recomputes = true},
}};

constexpr SoftwareTraits kDeepspeed = {.word = "", .section = "deepspeed", .recomputes = true};
// fp8 matmuls, all else unchanged.
constexpr SoftwareTraits kFloat8 = {.word = "", .section = "torchtitan-float8", .plain_loss = true};

// Aleph Alpha's code with the attention kernel of 2022.
constexpr SoftwareTraits kFlash1 = {.word = "",
                                    .section = "aleph-alpha-flash1",
                                    .plain_loss = true,
                                    .plain = true,
                                    .narrow = true,
                                    .even_weights = true,
                                    .stack = "aleph-alpha"};

bool has_float8(const Record& record) {
  const auto& text = record.options.dtype;
  return contains(text, "fp8") || contains(text, "float8");
}

SoftwareTraits find_software(const Record& record) {
  for (const auto& software : kSoftware) {
    if (!contains(record.source, software.word)) continue;
    // Megatron's authors compared theirs with ZeRO-3.
    if (software.section == "megatron" && record.parallel.zero == 3) return kDeepspeed;
    if (software.section == "aleph-alpha" && contains(record.options.attention, "attentionv1")) {
      return kFlash1;
    }
    return software.section == "torchtitan" && has_float8(record) ? kFloat8 : software;
  }
  return {};
}

// Returns the attention kernel: fused, or separate scores, softmax and weighted sum. If not stated,
// Megatron's is plain and that of software since 2023 fused.
std::string find_attention_kernel(const Record& record, const SoftwareTraits& software) {
  const auto& kernel = record.options.attention;
  if (contains(kernel, "flash") || contains(kernel, "sdpa") || contains(kernel, "xformers")) {
    return "fused";
  }
  if (kernel == "torch" && software.plain) return "wide";
  if (!kernel.empty()) return "plain";
  if (software.section.starts_with("megatron")) return "plain";
  return record.model.type == "gpt" || record.model.type == "bert" ? "plain" : "fused";
}

std::variant<DType, Skipped> find_dtype(const Record& record) {
  const auto& text = record.options.dtype;
  // With fp8 matmuls, the rest is in bf16.
  if (find_software(record).section == kFloat8.section) return DType::kBf16;
  if (has_float8(record)) {
    return Skipped{fmt::format("the element type {} is not modelled", text)};
  }
  if (contains(text, "bf16")) return DType::kBf16;
  if (contains(text, "fp16")) return DType::kFp16;
  if (contains(text, "fp32") || contains(text, "tf32")) return DType::kFp32;
  if (!text.empty()) return Skipped{fmt::format("the element type '{}' is unknown", text)};
  // Networks of such sizes train in bf16 or fp16.
  return contains(record.system.gpu, "V100") ? DType::kFp16 : DType::kBf16;
}

// Returns the kind of recomputation that the record's run used.
Recompute find_recompute(const Record& record) {
  const auto& text = record.options.recompute;
  if (recomputes_all(record)) return Recompute::kFull;
  if (text.empty() || text == "none" || text == "false") return Recompute::kNone;
  if (find_software(record).saves_all) return Recompute::kNone;
  if (find_software(record).section.starts_with("torchtitan")) return Recompute::kSaveMatmuls;
  return Recompute::kSelective;  // "selective op", "partial (own backward)"
}

// Limits on the cost of one network, whatever a file states.
constexpr std::int64_t kMostLayers = 1000;
constexpr std::int64_t kMostMicroBatches = 1 << 14;

// Returns the rows of Megatron's embedding table: each tensor-parallel device has a multiple of
// 128.
std::int64_t pad_vocab(std::int64_t vocab, std::int64_t tp) {
  const auto multiple = 128 * tp;
  return (vocab + multiple - 1) / multiple * multiple;
}

// Returns the samples over which frameworks compute batch norm statistics; 0 if not stated.
std::int64_t compute_device_batch(const Record& record) {
  const auto batch = record.batch.global.value_or(0);
  const auto devices = record.system.n_gpus.value_or(1);
  return devices > 0 && batch % devices == 0 ? batch / devices : 0;
}

std::variant<std::string, Skipped> make_model_text(const Record& record) {
  const auto& m = record.model;
  if (m.type == "resnet") {
    return fmt::format("resnet50:image={},bn_group={}", m.image.value_or(224),
                       compute_device_batch(record));
  }
  if (m.type == "bert" && m.layers && m.hidden && m.heads && m.ffn && m.vocab && m.seq_len) {
    // Half of the positions in its data are padding (arXiv:2107.02027).
    const bool packs = find_software(record).packs;
    return fmt::format("bert_large:layers={},hidden={},heads={},ffn={},vocab={},seq={}{}",
                       *m.layers, *m.hidden, *m.heads, *m.ffn, *m.vocab,
                       packs ? (*m.seq_len + 1) / 2 : *m.seq_len, packs ? ",attention=fused" : "");
  }
  if (!is_decoder(m)) {
    if (m.type.empty()) return skip_unstated("the model type");
    if (!m.layers || !m.hidden) return skip_unstated("a size of the model");
    return Skipped{fmt::format("models of type {} are not modelled", m.type)};
  }
  const auto sizes = find_decoder_sizes(m);
  if (const auto* skipped = std::get_if<Skipped>(&sizes)) return *skipped;
  const auto& s = std::get<Sizes>(sizes);
  if (s.layers > kMostLayers) return Skipped{fmt::format("{} layers are too many", s.layers)};
  const auto software = find_software(record);
  const bool is_megatron = software.section.starts_with("megatron");
  const bool drops = m.type == "gpt" && is_megatron;
  constexpr std::int64_t kMostDevices = 1 << 20;
  const auto tp = std::clamp<std::int64_t>(record.parallel.tp.value_or(1), 1, kMostDevices);
  const bool pads = is_megatron && (tp > 1 || !software.pads_to_divide);
  auto out = fmt::format(
      "{}:layers={},hidden={},heads={},kv_heads={},ffn={},vocab={},seq={},attention={}",
      s.gated ? "llama_65b" : "gpt2", s.layers, s.hidden, s.heads, s.kv_heads, s.ffn,
      pads ? pad_vocab(s.vocab, tp) : s.vocab, s.seq, find_attention_kernel(record, software));
  if (drops) out += ",dropout=true";
  if (software.plain_loss) out += ",loss=plain";
  const bool has_norm_kernel = contains(record.options.attention, "RMS");
  if (s.gated && software.plain && !has_norm_kernel) out += ",norm=plain";
  return out;
}

struct ParallelDegrees {
  std::int64_t tp, pp, cp, dp;
  std::int64_t zero;  // 3 for FSDP
  [[nodiscard]] bool data_only() const { return tp * pp * cp == 1; }
};

std::variant<ParallelDegrees, Skipped> infer_degrees(const Record& record, std::int64_t devices) {
  const auto& p = record.parallel;
  ParallelDegrees d{p.tp.value_or(1), p.pp.value_or(1), p.cp.value_or(1), 1,
                    p.fsdp ? 3 : p.zero.value_or(0)};
  if (d.zero > 3) return Skipped{fmt::format("ZeRO-{} does not exist", d.zero)};
  if (p.ep.value_or(1) > 1) return Skipped{"expert parallelism is not predicted"};
  constexpr std::int64_t kMany = 1 << 20;
  if (std::max({d.tp, d.pp, d.cp, p.dp.value_or(1)}) > kMany) return Skipped{"too many devices"};
  const auto group =
      static_cast<double>(d.tp) * static_cast<double>(d.pp) * static_cast<double>(d.cp);
  if (group > static_cast<double>(devices) || devices % (d.tp * d.pp * d.cp) != 0) {
    return Skipped{
        fmt::format("tp {} x pp {} x cp {} do not divide {} GPUs", d.tp, d.pp, d.cp, devices)};
  }
  d.dp = devices / (d.tp * d.pp * d.cp);
  if (p.dp.value_or(d.dp) != d.dp) {
    return Skipped{fmt::format("tp {} x pp {} x cp {} x dp {} do not multiply to {} GPUs", d.tp,
                               d.pp, d.cp, *p.dp, devices)};
  }
  return d;
}

// Returns candidate numbers of micro-batches, the smallest first. A stated number is the only one.
// Otherwise a pipeline runs one sequence at a time; without a pipeline as many as fit, so all
// divisors are returned. Fully sharded weights, which are gathered for each micro-batch, get one.
std::variant<std::vector<std::int64_t>, Skipped> list_micro_batches(const Record& record,
                                                                    const ParallelDegrees& d,
                                                                    std::int64_t batch) {
  const auto& b = record.batch;
  if (batch % d.dp != 0) {
    return Skipped{fmt::format("a batch of {} is not divisible by {} replicas", batch, d.dp)};
  }
  const auto local = batch / d.dp;
  auto size = b.micro_size;
  if (!size && b.local) size = b.local;
  if (!size && b.micro_batches && local % *b.micro_batches == 0) size = local / *b.micro_batches;
  if (!size && d.pp > 1) size = 1;
  constexpr std::int64_t kFullySharded = 3;
  if (!size && d.zero == kFullySharded) size = local;
  if (size) {
    if (local % *size != 0) {
      return Skipped{fmt::format(
          "{} sequences per replica are not divisible into micro-batches of {}", local, *size)};
    }
    if (local / *size > kMostMicroBatches) return Skipped{"too many micro-batches"};
    return std::vector{local / *size};
  }
  std::vector<std::int64_t> out;
  for (std::int64_t n = 1; n <= std::min(local, kMostMicroBatches); ++n) {
    if (local % n == 0) out.push_back(n);
  }
  return out;
}

// Counts the embedding and the LM head as the number of layers with as many weights. Returns
// nullopt if there are no weights to compare, or a stage would have no layer.
std::optional<strategies::Ends> balance_by_weights(const Record& record, std::int64_t stages) {
  const auto sizes = find_decoder_sizes(record.model);
  if (!std::holds_alternative<Sizes>(sizes)) return std::nullopt;
  const auto& s = std::get<Sizes>(sizes);
  const auto [layer, head] = count_decoder_parameters(s);
  const auto layers = std::llround(head / layer);
  const strategies::Ends ends{layers, layers};
  if (!strategies::divide_layers(s.layers, stages, ends)) return std::nullopt;
  return ends;
}

Setting make_setting(const Record& record, const ParallelDegrees& d, std::int64_t micro) {
  const auto& p = record.parallel;
  Setting out{.micro = micro, .recompute = find_recompute(record)};
  if (d.data_only() && d.zero == 3) {
    out.family = Family::kFsdp;
    return out;
  }
  if (d.zero > 0) out.zero = d.zero;
  if (d.data_only()) {
    out.family = d.zero > 0 ? Family::kDeepspeed : Family::kDp;
  } else {
    out.family = Family::kMegatron;
    out.tp = {d.tp};
    out.dp = d.dp;
    out.cp = d.cp;
    out.pp = d.pp;
    out.sp = p.sp && d.tp > 1;
    out.whole_loss = find_software(record).plain && d.tp > 1;
    out.interleave = d.pp > 1 ? p.vpp.value_or(1) : 1;
    if (d.pp > 1 && find_software(record).even_weights) {
      out.ends = balance_by_weights(record, d.pp * out.interleave);
    }
  }
  return out;
}

}  // namespace

bool is_decoder(const ModelFacts& model) {
  return model.type == "gpt" || model.type == "mpt" || model.type == "llama";
}

bool recomputes_all(const Record& record) {
  const auto& text = record.options.recompute;
  const auto software = find_software(record);
  if (software.saves_all) return false;
  if (text.empty()) return software.recomputes;
  return text.starts_with("full");
}

std::variant<Sizes, Skipped> find_decoder_sizes(const ModelFacts& m) {
  for (const auto& [name, value] : {std::pair{"layers", m.layers},
                                    {"hidden", m.hidden},
                                    {"heads", m.heads},
                                    {"vocab", m.vocab},
                                    {"seq_len", m.seq_len}}) {
    if (!value) return skip_unstated(fmt::format("the model's '{}'", name));
  }
  constexpr std::int64_t kLargest = 1 << 24;
  Sizes s{.layers = *m.layers,
          .hidden = *m.hidden,
          .heads = *m.heads,
          .kv_heads = m.kv_heads.value_or(*m.heads),
          .ffn = m.ffn.value_or(4 * *m.hidden),
          .vocab = *m.vocab,
          .seq = *m.seq_len,
          .gated = m.type == "llama",
          .tied = m.type != "llama"};
  if (s.gated && !m.ffn) return skip_unstated("the model's 'ffn'");
  if (std::max({s.layers, s.hidden, s.ffn, s.vocab, s.seq}) > kLargest) {
    return Skipped{"a size of the model is above 2^24"};
  }
  return s;
}

Parameters count_decoder_parameters(const Sizes& s) {
  const auto number = [](std::int64_t n) { return static_cast<double>(n); };
  const auto h = number(s.hidden);
  const auto kv = h * number(s.kv_heads) / number(s.heads);
  const double matrices = s.gated ? 3 : 2;
  return {2 * h * h + 2 * h * kv + matrices * h * number(s.ffn), number(s.vocab) * h};
}

std::variant<std::int64_t, Skipped> find_global_batch(const Record& record) {
  const auto& b = record.batch;
  if (b.global) return *b.global;
  const auto replicas = [&]() -> std::int64_t {
    if (record.parallel.dp) return *record.parallel.dp;
    const auto group = static_cast<double>(record.parallel.tp.value_or(1)) *
                       static_cast<double>(record.parallel.pp.value_or(1)) *
                       static_cast<double>(record.parallel.cp.value_or(1));
    const auto devices = static_cast<double>(record.system.n_gpus.value_or(1));
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(devices / group));
  }();
  // Rounds a number of tokens to a multiple of the replicas.
  if (b.tokens && record.model.seq_len) {
    const auto each =
        *b.tokens / static_cast<double>(*record.model.seq_len) / static_cast<double>(replicas);
    return std::max<std::int64_t>(1, std::llround(each)) * replicas;
  }
  if (b.local) return *b.local * replicas;
  if (b.micro_batches && b.micro_size) return *b.micro_batches * *b.micro_size * replicas;
  return skip_unstated("the global batch");
}

std::variant<ValidationJob, Skipped> make_job(const Record& record) {
  if (!record.unreadable.empty()) return Skipped{record.unreadable};
  ValidationJob out;
  const auto software = find_software(record);
  out.software = software.section;
  out.stack = software.stack.empty() ? software.section : software.stack;
  auto model = make_model_text(record);
  if (auto* skipped = std::get_if<Skipped>(&model)) return *skipped;
  out.model = std::get<std::string>(std::move(model));
  out.size = fmt::format("{} {} x {}", record.model.type, record.model.layers.value_or(0),
                         record.model.hidden.value_or(0));
  const auto dtype = find_dtype(record);
  if (const auto* skipped = std::get_if<Skipped>(&dtype)) return *skipped;
  out.dtype = std::get<DType>(dtype);
  auto machine = build_machine(record.system, out.software);
  if (auto* skipped = std::get_if<Skipped>(&machine)) return *skipped;
  out.machine = std::get<Machine>(std::move(machine));
  const auto batch = find_global_batch(record);
  if (const auto* skipped = std::get_if<Skipped>(&batch)) return *skipped;
  out.batch = std::get<std::int64_t>(batch);
  const auto degrees = infer_degrees(record, out.machine.devices());
  if (const auto* skipped = std::get_if<Skipped>(&degrees)) return *skipped;
  const auto& d = std::get<ParallelDegrees>(degrees);
  if (find_software(record).section == kFloat8.section && d.cp > 1) {
    return Skipped{"context parallelism with unbalanced causal attention is not modelled"};
  }
  const auto micro = list_micro_batches(record, d, out.batch);
  if (const auto* skipped = std::get_if<Skipped>(&micro)) return *skipped;
  for (auto n : std::get<std::vector<std::int64_t>>(micro)) {
    out.settings.push_back(make_setting(record, d, n));
  }
  out.precision = strategies::get_usual_precision(out.settings.front().family);
  if (software.narrow) out.precision.wide_gradients = false;
  return out;
}

}  // namespace tandem::validate
