// Megatron-LM's arguments (megatron/training/arguments.py of core 0.20).
#include <fmt/format.h>

#include <algorithm>

#include "frameworks/flags.h"
#include "frameworks/refusal.h"

namespace tandem::frameworks {

namespace {

using plan::Plan;

class Megatron {
 public:
  Megatron(const Plan& plan, const Degrees& degrees)
      : plan_(plan),
        degrees_(degrees),
        setting_(degrees.setting),
        schedule_(plan.mapped.schedule),
        refuse_("megatron", degrees) {}

  Flags run() {
    refuse_.when(!degrees_.is_transformer,
                 "Megatron-LM trains only transformers, and the model is not one");
    refuse_.when(schedule_.is_delayed(), "Megatron-LM does not support delayed weight updates");
    add_layer_flags();
    add_pipeline_flags();
    add_data_flags();
    add_recompute_flags();
    add_training_flags();
    return std::move(out_);
  }

 private:
  template <class Value>
  void add(const char* flag, const Value& value) {
    out_.flags.push_back(fmt::format("{} {}", flag, value));
  }
  void add(const char* flag) { out_.flags.emplace_back(flag); }

  void add_layer_flags() {
    refuse_.when(setting_.tp.size() > 1,
                 "tensor parallelism spans nodes first, but Megatron-LM uses neighbouring ranks");
    add("--tensor-model-parallel-size", degrees_.tp);
    if (setting_.sp && degrees_.tp > 1) add("--sequence-parallel");
    if (degrees_.cp > 1) {
      add("--context-parallel-size", degrees_.cp);
      add("--cp-comm-type", schedule_.ring ? "p2p" : "all_gather");
    }
    if (degrees_.ep > 1) add("--expert-model-parallel-size", degrees_.ep);
    if (setting_.whole_loss && degrees_.tp > 1) {
      out_.notes.emplace_back("whole_loss: Megatron-LM shards the loss over tensor-parallel ranks");
    }
  }

  void add_pipeline_flags() {
    add("--pipeline-model-parallel-size", degrees_.pp);
    if (degrees_.pp == 1) return;
    refuse_.when(schedule_.order == plan::Order::kGpipe,
                 "Megatron-LM does not support GPipe schedules", "use schedule=1f1b");
    const auto& layers = degrees_.layers;
    refuse_.when(layers.empty(),
                 "a stage begins inside a layer, but Megatron-LM does not split layers",
                 "`tandem explain plan.json` lists the stages");
    if (std::ranges::adjacent_find(layers, std::ranges::not_equal_to()) == layers.end()) {
      if (setting_.interleave > 1) {
        add("--num-virtual-stages-per-pipeline-rank", setting_.interleave);
      }
      return;
    }
    refuse_.when(std::ranges::find(layers.begin(), layers.end() - 1, 0) != layers.end() - 1,
                 "a stage before the last has no layers");
    // E: embedding; t: layer; L: loss.
    std::string layout;
    for (std::size_t s = 0; s < layers.size(); ++s) {
      if (s > 0) layout += '|';
      if (s == 0) layout += 'E';
      if (layers[s] > 0) layout += fmt::format("t*{}", layers[s]);
      if (s + 1 == layers.size()) layout += 'L';
    }
    add("--pipeline-model-parallel-layout", fmt::format("\"{}\"", layout));
  }

  void add_data_flags() {
    if (degrees_.dp == 1) return;
    switch (degrees_.zero) {
      case 0:
        break;
      case 1:
        add("--use-distributed-optimizer");
        break;
      default:
        refuse_.when(degrees_.pp > 1,
                     "the export cannot combine Megatron-LM's FSDP with a pipeline", "use zero=1");
        add("--use-megatron-fsdp");
        add("--data-parallel-sharding-strategy",
            degrees_.zero == 2 ? "optim_grads" : "optim_grads_params");
        add("--ckpt-format", "fsdp_dtensor");  // the only format that it supports
    }
    add("--overlap-grad-reduce");
    if (schedule_.bucket > Bytes{}) {
      const auto elements =
          schedule_.bucket / get_element_size(schedule_.precision.gradient(plan_.dtype));
      add("--ddp-bucket-size", static_cast<std::int64_t>(elements));
    }
  }

  void add_recompute_flags() {
    using strategies::Recompute;
    const auto what = setting_.recompute;
    refuse_.when(what == Recompute::kSaveMatmuls,
                 "Megatron-LM does not support recompute=save_matmuls",
                 "use recompute=selective or recompute=full");
    if (what == Recompute::kSelective) add("--recompute-granularity", "selective");
    if (what != Recompute::kFull) return;
    add("--recompute-granularity", "full");
    add("--recompute-method", "uniform");
    add("--recompute-num-layers", 1);
  }

  void add_training_flags() {
    add("--micro-batch-size", degrees_.samples);
    add("--global-batch-size", plan_.batch);
    refuse_.when(plan_.dtype == DType::kFp64, "Megatron-LM does not train in fp64");
    if (is_half(plan_.dtype)) {
      add(plan_.dtype == DType::kBf16 ? "--bf16" : "--fp16");
      const auto gradient = schedule_.precision.gradient(plan_.dtype);
      if (gradient == DType::kBf16) {
        add("--grad-reduce-in-bf16");
      } else if (gradient == DType::kFp32) {
        add("--accumulate-allreduce-grads-in-fp32");
      }
      if (!schedule_.precision.master) {
        out_.notes.emplace_back("Megatron-LM keeps fp32 master weights; the plan does not");
      }
    }
    add("--optimizer", plan_.optimizer == plan::Optimizer::kAdam ? "adam" : "sgd");
    if (plan_.optimizer != plan::Optimizer::kAdam) {
      add("--sgd-momentum",
          plan_.optimizer == plan::Optimizer::kMomentum ? plan::kVelocityDecay : 0.0);
    }
  }

  const Plan& plan_;
  const Degrees& degrees_;
  const strategies::Setting& setting_;
  const plan::Schedule& schedule_;
  Refusing refuse_;
  Flags out_;
};

}  // namespace

Flags make_megatron_flags(const Plan& plan, const Degrees& degrees) {
  return Megatron(plan, degrees).run();
}

}  // namespace tandem::frameworks
