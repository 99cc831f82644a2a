// torchtitan's flags (torchtitan/config/job_config.py of v0.2.2).
#include <fmt/format.h>

#include <algorithm>

#include "frameworks/flags.h"
#include "frameworks/refusal.h"

namespace tandem::frameworks {

namespace {

using plan::Plan;

class Torchtitan {
 public:
  Torchtitan(const Plan& plan, const Degrees& degrees)
      : plan_(plan),
        degrees_(degrees),
        setting_(degrees.setting),
        schedule_(plan.mapped.schedule),
        refuse_("torchtitan", degrees) {}

  Flags run() {
    refuse_.when(!degrees_.is_transformer,
                 "torchtitan trains only transformers, and the model is not one");
    refuse_.when(schedule_.is_delayed(), "torchtitan does not support delayed weight updates");
    add_data_flags();
    add_layer_flags();
    add_pipeline_flags();
    add_recompute_flags();
    add_training_flags();
    out_.notes.emplace_back(
        "the flags are for torchtitan v0.2.2; later versions define batch sizes differently");
    return std::move(out_);
  }

 private:
  template <class Value>
  void add(const char* flag, const Value& value) {
    out_.flags.push_back(fmt::format("--{} {}", flag, value));
  }

  void add_data_flags() {
    const bool alone = degrees_.tp * degrees_.cp * degrees_.pp == 1;
    refuse_.when(degrees_.zero == 0 && degrees_.dp > 1 && !alone,
                 "torchtitan replicates weights only in pure data parallelism",
                 "use zero=2 or zero=3 to shard them");
    refuse_.when(degrees_.zero == 1 && degrees_.micro_batches > 1,
                 "torchtitan reduces gradients after every micro-batch, but zero=1 once per step",
                 "use zero=2");
    const bool shares = degrees_.zero > 0;
    add("parallelism.data_parallel_replicate_degree", shares ? 1 : degrees_.dp);
    add("parallelism.data_parallel_shard_degree", shares ? degrees_.dp : 1);
    if (shares) {
      add("parallelism.fsdp_reshard_after_forward", degrees_.zero == 3 ? "always" : "never");
    }
    if (schedule_.bucket > Bytes{}) {
      out_.notes.emplace_back("bucket: torchtitan chooses its own gradient buckets");
    }
  }

  void add_layer_flags() {
    refuse_.when(setting_.tp.size() > 1,
                 "tensor parallelism spans nodes first, but torchtitan uses neighbouring ranks");
    refuse_.when(degrees_.tp > 1 && !setting_.sp,
                 "torchtitan's tensor parallelism requires sequence parallelism", "add sp");
    add("parallelism.tensor_parallel_degree", degrees_.tp);
    if (degrees_.cp > 1) {
      add("parallelism.context_parallel_degree", degrees_.cp);
      add("parallelism.context_parallel_rotate_method", schedule_.ring ? "alltoall" : "allgather");
    }
    if (degrees_.ep > 1) add("parallelism.expert_parallel_degree", degrees_.ep);
  }

  void add_pipeline_flags() {
    add("parallelism.pipeline_parallel_degree", degrees_.pp);
    if (degrees_.pp == 1) return;
    const auto& layers = degrees_.layers;
    refuse_.when(layers.empty(),
                 "a stage begins inside a layer, but torchtitan does not split layers",
                 "`tandem explain plan.json` lists the stages");
    refuse_.when(
        std::ranges::adjacent_find(layers, std::ranges::not_equal_to()) != layers.end(),
        "stages have different numbers of layers",
        "set the modules of each stage with torchtitan's parallelism.module_fqns_per_model_part");
    const char* names[] = {"GPipe", "1F1B", "Interleaved1F1B"};
    add("parallelism.pipeline_parallel_schedule", names[static_cast<std::size_t>(schedule_.order)]);
    add("parallelism.pipeline_parallel_layers_per_stage", layers[0]);
    // Every stage has the same number of layers, as in the plan.
    add("parallelism.pipeline_parallel_first_stage_less_layers", 0);
    add("parallelism.pipeline_parallel_last_stage_less_layers", 0);
    add("parallelism.pipeline_parallel_microbatch_size", degrees_.samples);
  }

  void add_recompute_flags() {
    using strategies::Recompute;
    const auto what = setting_.recompute;
    refuse_.when(what == Recompute::kSelective, "torchtitan does not support recompute=selective",
                 "use recompute=save_matmuls, full or none");
    const bool saves_matmuls = what == Recompute::kSaveMatmuls;  // torchtitan's "selective"
    add("activation_checkpoint.mode", name(saves_matmuls ? Recompute::kSelective : what));
    if (saves_matmuls) add("activation_checkpoint.selective_ac_option", "op");
  }

  void add_training_flags() {
    // The micro-batches of a pipeline are parts of a local batch; others accumulate gradients.
    const auto parts = degrees_.pp > 1 ? degrees_.micro_batches : 1;
    add("training.local_batch_size", degrees_.samples * parts);
    add("training.global_batch_size", plan_.batch);
    refuse_.when(plan_.dtype != DType::kBf16 && plan_.dtype != DType::kFp32,
                 fmt::format("torchtitan trains in bf16 or fp32, not in {}", name(plan_.dtype)));
    const bool half = plan_.dtype == DType::kBf16;
    const bool all_half = half && !schedule_.precision.master;
    add("training.dtype", all_half ? "bfloat16" : "float32");
    add("training.mixed_precision_param", half ? "bfloat16" : "float32");
    if (half && schedule_.precision.gradient(plan_.dtype) != DType::kFp32 && !all_half) {
      out_.notes.emplace_back("torchtitan reduces gradients in fp32; the plan uses bf16");
    }
    refuse_.when(plan_.optimizer != plan::Optimizer::kAdam,
                 fmt::format("torchtitan supports Adam and AdamW, not {}", name(plan_.optimizer)),
                 "use --optimizer adam");
    add("optimizer.name", "Adam");
  }

  const Plan& plan_;
  const Degrees& degrees_;
  const strategies::Setting& setting_;
  const plan::Schedule& schedule_;
  Refusing refuse_;
  Flags out_;
};

}  // namespace

Flags make_torchtitan_flags(const Plan& plan, const Degrees& degrees) {
  return Torchtitan(plan, degrees).run();
}

}  // namespace tandem::frameworks
