// DeepSpeed's configuration file (deepspeed.ai/docs/config-json).
#include "frameworks/flags.h"
#include "frameworks/refusal.h"

namespace tandem::frameworks {

Flags make_deepspeed_config(const plan::Plan& plan, const Degrees& degrees) {
  const Refusing refuse("deepspeed", degrees);
  const auto& schedule = plan.mapped.schedule;
  const std::string by_code = ", which DeepSpeed's configuration cannot express";
  refuse.when(degrees.tp > 1, "uses tensor parallelism" + by_code, "use `--to megatron`");
  refuse.when(degrees.pp > 1, "uses pipeline parallelism" + by_code, "use `--to megatron`");
  refuse.when(degrees.cp > 1, "uses context parallelism" + by_code, "use `--to megatron`");
  refuse.when(degrees.ep > 1, "uses expert parallelism" + by_code, "use `--to megatron`");
  refuse.when(degrees.setting.recompute != strategies::Recompute::kNone,
              "recomputes activations" + by_code, "plan with recompute=none");
  refuse.when(plan.dtype == DType::kFp64, "DeepSpeed does not train in fp64");

  Flags out;
  auto& config = out.config;
  config["train_batch_size"] = plan.batch;
  config["train_micro_batch_size_per_gpu"] = degrees.samples;
  config["gradient_accumulation_steps"] = degrees.micro_batches;
  auto& zero = config["zero_optimization"];
  zero["stage"] = degrees.zero;
  zero["overlap_comm"] = true;
  const auto gradient = schedule.precision.gradient(plan.dtype);
  if (schedule.bucket > Bytes{}) {
    zero["reduce_bucket_size"] =
        static_cast<std::int64_t>(schedule.bucket / get_element_size(gradient));
  }
  if (is_half(plan.dtype)) {
    config[std::string(name(plan.dtype))]["enabled"] = true;
    config["data_types"]["grad_accum_dtype"] = name(gradient);
    if (!schedule.precision.master) {
      out.notes.emplace_back("DeepSpeed keeps fp32 master weights; the plan does not");
    }
  }
  return out;
}

}  // namespace tandem::frameworks
