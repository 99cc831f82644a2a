// Conversion of records to jobs: networks, machines, settings, and reasons to skip a record.
#include "validate/job.h"

#include <gtest/gtest.h>

#include "validate/record_test_support.h"

namespace tandem::validate {
namespace {

ValidationJob expect_job(const Record& record) {
  auto out = make_job(record);
  EXPECT_TRUE(std::holds_alternative<ValidationJob>(out)) << std::get<Skipped>(out).reason;
  return std::get<ValidationJob>(std::move(out));
}

std::string reason(const Record& record) {
  const auto out = make_job(record);
  return std::holds_alternative<Skipped>(out) ? std::get<Skipped>(out).reason : "";
}

std::string first_setting(const Record& record) {
  return to_text(expect_job(record).settings.at(0));
}

TEST(Jobs, DescribeAGpt) {
  const auto job = expect_job(small_gpt());
  EXPECT_EQ(job.model,
            "gpt2:layers=4,hidden=1024,heads=16,kv_heads=16,ffn=4096,vocab=51200,seq=1024,"
            "attention=plain,dropout=true");
  EXPECT_EQ(job.machine.name, "dgx_a100:1");
  EXPECT_EQ(job.machine.devices(), 8);
  EXPECT_EQ(job.software, "megatron");
  EXPECT_EQ(job.batch, 32);
  EXPECT_EQ(job.dtype, DType::kFp16);
  ASSERT_EQ(job.settings.size(), 1U);
  EXPECT_EQ(to_text(job.settings[0]), "megatron:tp=2,dp=2,pp=2,micro=4,recompute=full");
}

// Megatron pads the vocabulary so that tensor-parallel devices can shard it.
TEST(Jobs, PadTheVocabularyForMegatron) {
  auto r = small_gpt();
  r.model.vocab = 50257;
  r.parallel.tp = 4;
  EXPECT_NE(expect_job(r).model.find(",vocab=50688,"), std::string::npos) << expect_job(r).model;
  r.source = "torchtitan";
  EXPECT_NE(expect_job(r).model.find(",vocab=50257,"), std::string::npos) << expect_job(r).model;
}

// Batch norm statistics are over the samples of one device.
TEST(Jobs, DescribeAResNet) {
  auto r = small_gpt();
  r.model = {};
  r.model.type = "resnet";
  r.batch = {};
  r.batch.global = 3264;
  r.system.n_gpus = 64;
  r.parallel = {};
  EXPECT_EQ(expect_job(r).model, "resnet50:image=224,bn_group=51");
}

TEST(Jobs, IdentifySoftwareByItsPaper) {
  auto r = small_gpt();
  r.source = "Narayanan et al., SC'21 (arXiv:2104.04473), table 1";
  EXPECT_EQ(expect_job(r).software, "megatron");
  r.source = "SC21 Table 2";
  EXPECT_EQ(expect_job(r).software, "megatron");
  r.parallel = {};
  r.parallel.zero = 3;
  EXPECT_EQ(expect_job(r).software, "deepspeed");
  r.source = "Hagemann et al. (arXiv:2311.05610)";
  EXPECT_EQ(expect_job(r).software, "aleph-alpha");
}

TEST(Jobs, DescribeOtherStrategies) {
  auto r = small_gpt();
  r.parallel.vpp = 2;
  r.parallel.sp = true;
  r.options.recompute = "selective op";
  EXPECT_EQ(first_setting(r),
            "megatron:tp=2,dp=2,sp,pp=2,interleave=2,micro=4,recompute=selective");
  r = small_gpt();
  r.parallel.zero = 1;
  EXPECT_EQ(first_setting(r), "megatron:tp=2,dp=2,zero=1,pp=2,micro=4,recompute=full");
  r.parallel.fsdp = true;
  EXPECT_EQ(first_setting(r), "megatron:tp=2,dp=2,zero=3,pp=2,micro=4,recompute=full");
  r = small_gpt();
  r.parallel = {};
  EXPECT_EQ(first_setting(r), "dp:micro=1,recompute=full");
  r.parallel.zero = 2;
  EXPECT_EQ(first_setting(r), "deepspeed:zero=2,micro=1,recompute=full");
  r.parallel.zero = 3;
  EXPECT_EQ(first_setting(r), "fsdp:micro=1,recompute=full");
  r.parallel = {};
  r.parallel.fsdp = true;
  r.batch.micro_size.reset();
  r.batch.micro_batches = 2;
  EXPECT_EQ(first_setting(r), "fsdp:micro=2,recompute=full");
}

// A pipeline runs one sequence at a time; without one, as many as fit.
TEST(Jobs, ChooseMicroBatches) {
  auto r = small_gpt();
  r.batch.micro_size.reset();
  EXPECT_EQ(first_setting(r), "megatron:tp=2,dp=2,pp=2,micro=16,recompute=full");
  r.parallel = {};
  const auto job = expect_job(r);
  ASSERT_EQ(job.settings.size(), 3U);  // of 4 sequences: 1, 2, 4
  EXPECT_EQ(job.settings[0].micro, 1);
  EXPECT_EQ(job.settings[2].micro, 4);
}

TEST(Jobs, ChooseKernelsAndRecomputation) {
  auto r = small_gpt();
  r.model.type = "llama";
  r.model.ffn = 2816;
  EXPECT_TRUE(expect_job(r).model.ends_with("attention=plain"));  // Megatron's
  r.source = "torchtitan";
  EXPECT_TRUE(expect_job(r).model.starts_with("llama_65b:"));
  EXPECT_TRUE(expect_job(r).model.ends_with("attention=fused,loss=plain"));
  r.options.attention = "torch";
  EXPECT_TRUE(expect_job(r).model.ends_with("attention=plain,loss=plain"));
  r.options.recompute = "selective op";
  EXPECT_EQ(expect_job(r).settings.at(0).recompute, strategies::Recompute::kSaveMatmuls);
  r.source = "Aleph-Alpha";
  EXPECT_TRUE(expect_job(r).model.ends_with("attention=wide,loss=plain,norm=plain"));
  EXPECT_TRUE(expect_job(r).settings.at(0).whole_loss);
  EXPECT_FALSE(expect_job(r).precision.wide_gradients);
  r.options.attention = "flash + RMS kernel";
  EXPECT_TRUE(expect_job(r).model.ends_with("attention=fused,loss=plain"));
  r = small_gpt();
  r.options.recompute = "";
  EXPECT_TRUE(recomputes_all(r));  // like Megatron's tables
  EXPECT_TRUE(expect_job(r).precision.wide_gradients);
  r.source = "vTrain";
  EXPECT_FALSE(recomputes_all(r));
  EXPECT_FALSE(expect_job(r).precision.wide_gradients);
}

// LLaMA-13B's embedding table of 128,000 tokens has the weights of two layers, so four stages have
// 9, 11, 11 and 9 layers. Stages divide evenly if one would have no layer otherwise.
TEST(Jobs, BalanceStages) {
  auto r = small_gpt();
  r.source = "Aleph-Alpha";
  r.model.type = "llama";
  r.model.layers = 40;
  r.model.hidden = 5120;
  r.model.heads = 40;
  r.model.ffn = 13824;
  r.model.vocab = 128000;
  const strategies::Ends two{2, 2};
  EXPECT_EQ(expect_job(r).settings.at(0).ends, two);
  r.model.layers = 4;
  r.parallel.pp = 4;
  EXPECT_EQ(expect_job(r).settings.at(0).ends, std::nullopt);
  r.model.layers = 40;
  EXPECT_EQ(expect_job(r).settings.at(0).ends, two);
  r.source = "torchtitan";
  EXPECT_EQ(expect_job(r).settings.at(0).ends, std::nullopt);
}

TEST(Jobs, DescribeSingleNodesOfVTrain) {
  auto r = small_gpt();
  r.source = "VIA-Research/vTrain data/ground_truth_single.csv";
  r.model.vocab = 50257;
  EXPECT_FALSE(recomputes_all(r));
  EXPECT_EQ(expect_job(r).software, "megatron-deepspeed");
  EXPECT_EQ(expect_job(r).settings.at(0).recompute, strategies::Recompute::kNone);
  EXPECT_FALSE(expect_job(r).precision.wide_gradients);
  EXPECT_NE(expect_job(r).model.find("vocab=50432,"), std::string::npos);
  r.parallel.tp = 1;
  EXPECT_NE(expect_job(r).model.find("vocab=50257,"), std::string::npos);
}

TEST(Jobs, DescribeFp8Matmuls) {
  auto r = small_gpt();
  r.source = "pytorch/torchtitan";
  r.options.dtype = "float8";
  EXPECT_EQ(expect_job(r).software, "torchtitan-float8");
  EXPECT_EQ(expect_job(r).dtype, DType::kBf16);
  r.parallel = {};
  r.parallel.cp = 2;
  r.parallel.fsdp = true;
  EXPECT_EQ(reason(r), "context parallelism with unbalanced causal attention is not modelled");
}

TEST(Jobs, DescribePackedSequences) {
  auto r = small_gpt();
  r.source = "mlcommons/training_results_v3.0 NVIDIA/results/dgxa100_ngc23.04_pytorch/bert";
  r.model.type = "bert";
  r.model.ffn = 4096;
  EXPECT_TRUE(expect_job(r).model.ends_with("seq=512,attention=fused"));
}

TEST(Jobs, GatherWeightsOncePerStep) {
  auto r = small_gpt();
  r.parallel = {};
  r.parallel.fsdp = true;
  r.batch.micro_size.reset();
  EXPECT_EQ(expect_job(r).settings.size(), 1U);
  EXPECT_EQ(expect_job(r).settings[0].micro, 1);
}

TEST(Jobs, FindMachines) {
  EXPECT_EQ(find_machine_family("A100-80GB-SXM"), "dgx_a100");
  EXPECT_EQ(find_machine_family("a100_40gb"), "dgx_a100_40gb");
  EXPECT_EQ(find_machine_family("h100_80gb"), "dgx_h100");
  EXPECT_EQ(find_machine_family("H100-96GB-HBM2e(500W)"), "grand_teton");
  EXPECT_EQ(find_machine_family("V100-32GB-DGX2"), "dgx2_v100");
  EXPECT_EQ(find_machine_family("B200-SXM"), "dgx_b200");
  EXPECT_FALSE(find_machine_family("A100-80GB-PCIe"));
  EXPECT_FALSE(find_machine_family("TPUv4"));

  auto r = small_gpt();
  r.system.n_gpus = 3360;
  r.system.inter = 12.5;
  r.parallel.tp = 8;
  r.parallel.pp = 35;
  r.model.layers = 35;
  r.batch.global = 1920;
  const auto job = expect_job(r);
  EXPECT_EQ(job.machine.levels[0].count, 420);
  EXPECT_EQ(job.machine.levels[0].bandwidth, BytesPerSecond{12.5e9});
  EXPECT_EQ(to_text(job.settings[0]), "megatron:tp=8,dp=12,pp=35,micro=40,recompute=full");

  r = small_gpt();
  r.system.n_gpus = 5;  // of 8 in a node
  r.parallel = {};
  r.batch.global = 5;
  r.batch.micro_size = 1;
  EXPECT_EQ(expect_job(r).machine.levels[1].count, 5);
  r.system.gpu = "V100";
  EXPECT_EQ(expect_job(r).machine.levels[1].count, 5);
  EXPECT_NE(expect_job(r).machine.levels[1].network, nullptr);
}

TEST(Jobs, RefuseIncompleteOrImpossibleRecords) {
  const auto with = [](auto&& change) {
    auto r = small_gpt();
    change(r);
    return reason(r);
  };
  EXPECT_EQ(with([](Record& r) { r.model.layers.reset(); }), "the model's 'layers' is not stated");
  EXPECT_EQ(with([](Record& r) { r.model.type = "rwkv"; }), "models of type rwkv are not modelled");
  EXPECT_EQ(with([](Record& r) { r.system.gpu = "TPUv4"; }),
            "no built-in machine has the GPU 'TPUv4'");
  EXPECT_EQ(with([](Record& r) { r.system.n_gpus.reset(); }), "the number of GPUs is not stated");
  EXPECT_EQ(with([](Record& r) { r.system.n_gpus = 12; }), "12 GPUs do not fill nodes of 8");
  EXPECT_EQ(with([](Record& r) { r.parallel.dp = 3; }),
            "tp 2 x pp 2 x cp 1 x dp 3 do not multiply to 8 GPUs");
  EXPECT_EQ(with([](Record& r) { r.parallel.tp = 16; }),
            "tp 16 x pp 2 x cp 1 do not divide 8 GPUs");
  EXPECT_EQ(with([](Record& r) { r.parallel.zero = 4; }), "ZeRO-4 does not exist");
  EXPECT_EQ(with([](Record& r) { r.batch = {}; }), "the global batch is not stated");
  EXPECT_EQ(with([](Record& r) { r.batch.global = 33; }),
            "a batch of 33 is not divisible by 2 replicas");
  EXPECT_EQ(with([](Record& r) { r.batch.micro_size = 5; }),
            "16 sequences per replica are not divisible into micro-batches of 5");
  EXPECT_EQ(with([](Record& r) { r.options.dtype = "float8"; }),
            "the element type float8 is not modelled");
  EXPECT_EQ(with([](Record& r) { r.model.layers = 1'000'000; }), "1000000 layers are too many");
}

TEST(Jobs, ConvertBatchesOfTokens) {
  auto r = small_gpt();
  r.batch = {};
  r.batch.tokens = 1024 * 31;  // 15.5 sequences for each of 2 replicas
  EXPECT_EQ(std::get<std::int64_t>(find_global_batch(r)), 32);
}

}  // namespace
}  // namespace tandem::validate
