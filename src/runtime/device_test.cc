// Training on devices with memory of their own: on guarded devices (see
// guarded_device_test_support.h), and on GPUs if there are any. The results must be those of
// processes that compute in host memory.
#include "runtime/device.h"

#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "lower/lower.h"
#include "models/model.h"
#include "models/small_models_test_support.h"
#include "runtime/aten.h"
#include "runtime/executor.h"
#include "runtime/gpu_test_support.h"
#include "runtime/guarded_device_test_support.h"
#include "runtime/train_test_support.h"
#include "runtime/worker_test_support.h"
#include "strategies/grid.h"

namespace tandem::runtime {
namespace {

constexpr std::uint64_t kSteps = 4;

struct Job {
  std::string name;
  plan::Plan plan;
};

Graph layers(DType dtype = kType) {
  return models::parse_model("mlp:layers=4,hidden=8,inputs=6,outputs=4").build(8, dtype);
}

// Returns jobs that use sums, scatters, gathers, roots, all-to-all, messages and buckets.
std::vector<Job> jobs(int devices) {
  std::vector<Job> out;
  const auto add = [&](const std::string& strategy, const Graph& model, Optimizer optimizer) {
    out.push_back({strategy, plan_by_name(strategy, model, devices, optimizer)});
  };
  const auto by_hand = [&](const std::string& name, const Spread& spread) {
    out.push_back({name, make_plan(mlp(), "local:2", spread, Optimizer::kSgd)});
  };
  if (devices == 2) {
    add("dp", mlp(), Optimizer::kMomentum);
    by_hand("megatron", kMegatron);
    by_hand("all to all", {{"x", {"0"}}, {"h", {"d0"}}, {"y", {"k"}}, {"w2", {"1"}}});
    by_hand("idle",
            {{"x", {"0"}}, {"h", {"d0"}}, {"y", {"idle"}}, {"loss", {"idle"}}, {"w2", {"."}}});
    by_hand("idle then spread", {{"x", {"."}},
                                 {"w1", {"."}},
                                 {"b1", {"."}},
                                 {"h", {"idle"}},
                                 {"y", {"d0"}},
                                 {"loss", {"d0"}}});
    add("dp:bucket=500B,micro=2", mlp(), Optimizer::kSgd);
    add("megatron:tp=1,pp=2,interleave=2,micro=4", layers(), Optimizer::kAdam);
    add("expert", built_in("mixtral_8x7b"), Optimizer::kAdam);
  } else {
    add("fsdp:bucket=1GB", mlp(), Optimizer::kAdam);
    add("megatron:tp=2,pp=2,micro=2,recompute=full", mlp(), Optimizer::kAdam);
    add("megatron:tp=2,sp", built_in("llama2_70b"), Optimizer::kAdam);
  }
  return out;
}

// The losses, of which this device has a share, and every weight.
struct Result {
  std::vector<double> losses;
  std::vector<at::Tensor> weights;
};

Result train_here(const lower::Program& program, int rank, ExecutionDevice place) {
  Executor executor(program, rank, {.seed = 3, .rate = 0.05}, std::move(place));
  Result out;
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    executor.feed(static_cast<std::int64_t>(step));
    executor.run();
    out.losses.push_back(executor.loss());
  }
  for (std::size_t b = 0; b < program.buffers.size(); ++b) {
    const lower::BufferId id(b);
    if (program.buffer(id).kind != lower::BufferKind::kWeight || !executor.holds(id)) continue;
    out.weights.push_back(executor.get_newest_version(id).to(at::kCPU));
  }
  return out;
}

// Adam divides by 1e-8 plus the gradient's size. If a gradient is only rounding errors of 1e-17 (as
// of a bias of keys), the difference is large.
void expect_same(const Result& got, const Result& want, Optimizer optimizer) {
  constexpr double kRounding = 1e-11;
  const double of_weights = optimizer == Optimizer::kAdam ? 1e-9 : kRounding;
  ASSERT_EQ(got.losses.size(), want.losses.size());
  for (std::size_t i = 0; i < want.losses.size(); ++i) {
    EXPECT_NEAR(got.losses[i], want.losses[i], kRounding * (1 + std::abs(want.losses[i])));
  }
  ASSERT_EQ(got.weights.size(), want.weights.size());
  for (std::size_t i = 0; i < want.weights.size(); ++i) {
    EXPECT_LE((got.weights[i] - want.weights[i]).abs().max().item<double>(), of_weights);
  }
}

lower::Program lower_plan(const plan::Plan& plan) {
  const auto machine = machine::load_machine(plan.machine);
  return lower::lower(plan.mapped, make_digits(plan, machine), machine.device.software,
                      plan.optimizer);
}

// These networks have the kernels that loop over elements themselves on CPUs.
TEST(Device, TrainsWithoutAccessFromTheCpu) {
  const c10::InferenceMode no_autograd;
  // Convolutions sum in another order there. Before a normalization, the gradient of a kernel's
  // scale is only rounding errors, by which Adam would divide.
  const std::vector<std::pair<std::string, Optimizer>> jobs = {{"bert_large", Optimizer::kAdam},
                                                               {"dlrm", Optimizer::kAdam},
                                                               {"llama2_70b", Optimizer::kAdam},
                                                               {"mixtral_8x7b", Optimizer::kAdam},
                                                               {"resnext50", Optimizer::kSgd}};
  for (const auto& [name, optimizer] : jobs) {
    SCOPED_TRACE(name);
    const auto plan = make_plan(built_in(name), "local:1", {}, optimizer);
    const auto program = lower_plan(plan);
    const auto expected = train_here(program, 0, {});
    expect_same(train_here(program, 0, {.device = guarded_device()}), expected, plan.optimizer);
  }
}

// --- Several processes ---------------------------------------------------------------------------

TEST(DeviceRanks, ConnectTwoDevicesThroughANetwork) {
  run_ranks(2, "DeviceRanks.DISABLED_EveryJob");
}
TEST(DeviceRanks, ConnectFourDevicesThroughANetwork) {
  run_ranks(4, "DeviceRanks.DISABLED_EveryJob");
}

// Runs in every process of the two tests above: on CPUs, on guarded devices with a network, and on
// guarded devices without one.
TEST(DeviceRanks, DISABLED_EveryJob) {
  MPI_Init(nullptr, nullptr);
  const c10::InferenceMode no_autograd;
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (const auto& job : jobs(size)) {
    SCOPED_TRACE(job.name);
    const auto program = lower_plan(job.plan);
    const auto expected = train_here(program, rank, {});
    expect_same(
        train_here(program, rank, {.device = guarded_device(), .network = make_guarded_network()}),
        expected, job.plan.optimizer);
    expect_same(train_here(program, rank, {.device = guarded_device()}), expected,
                job.plan.optimizer);
  }
  MPI_Finalize();
}

// --- GPUs ----------------------------------------------------------------------------------------

TEST(Device, ReportsWhyThereIsNone) {
  try {
    const auto count = count_visible_devices("cuda");
    GTEST_SKIP() << count << " CUDA devices are visible";
  } catch (const UserError& e) {
#ifdef TANDEM_HAS_CUDA
    EXPECT_EQ(e.message, "no CUDA device is visible");
#else
    EXPECT_EQ(e.message, "this program was built without CUDA");
#endif
    EXPECT_EQ(e.where, "--device cuda");
    EXPECT_NE(e.hint, "");
  }
}

// NCCL takes each process to be on a computer of its own, so that processes may share a GPU.
constexpr const char* kApart =
    "env NCCL_SOCKET_IFNAME=lo NCCL_IB_DISABLE=1 sh -c "
    "'NCCL_HOSTID=$OMPI_COMM_WORLD_RANK exec \"$0\" \"$@\"'";

std::vector<double> worker_losses(const plan::Plan& plan, int processes, const std::string& more,
                                  const std::string& under = "") {
  const Scratch scratch("device_test");
  std::ofstream(scratch.file("plan.json")) << plan::to_json(plan);
  const auto run = start(
      scratch, processes,
      fmt::format("--plan {} --steps 10 --seed 3 --lr 0.05 {}", scratch.file("plan.json"), more),
      kTuned, under);
  EXPECT_EQ(run.status, 0) << run.err << run.out;
  const bool by_memory = run.err.find("through the computer's memory") != std::string::npos;
  EXPECT_FALSE(by_memory && !under.empty()) << run.err;
  const auto json = nlohmann::json::parse(run.out, nullptr, false);
  return json.is_object() && json.contains("loss") ? json["loss"].get<std::vector<double>>()
                                                   : std::vector<double>();
}

// Compares the first `steps` losses. The tolerance is relative, because a GPU sums in another
// order.
void expect_processors_losses(const plan::Plan& plan, int processes, double tolerance,
                              const std::string& under = "", std::uint64_t steps = 10) {
  const auto expected = worker_losses(plan, processes, "");
  const auto got = worker_losses(plan, processes, "--device cuda", under);
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < std::min(got.size(), std::size_t{steps}); ++i) {
    EXPECT_NEAR(got[i], expected[i], tolerance * std::abs(expected[i])) << "step " << i;
  }
}

void expect_cpu_losses(int devices, const std::string& under = "") {
  if (const auto why = why_no_gpu()) GTEST_SKIP() << *why;
  for (const auto& job : jobs(devices)) {
    SCOPED_TRACE(job.name);
    expect_processors_losses(job.plan, devices, 1e-9, under);
  }
}

TEST(Cuda, MatchesCpuLossesOnTwo) { expect_cpu_losses(2); }
TEST(Cuda, MatchesCpuLossesOnFour) { expect_cpu_losses(4); }
TEST(Cuda, MatchesCpuLossesOnTwoWithNccl) { expect_cpu_losses(2, kApart); }
TEST(Cuda, MatchesCpuLossesOnFourWithNccl) { expect_cpu_losses(4, kApart); }

class CudaNetwork : public testing::TestWithParam<const char*> {};

TEST_P(CudaNetwork, MatchesCpuLosses) {
  if (const auto why = why_no_gpu()) GTEST_SKIP() << *why;
  const std::string name = GetParam();
  const auto steps = count_steps(name);
  const auto expect_near = [&](Optimizer optimizer, DType dtype, double tolerance) {
    const auto plan = plan_by_name("dp", built_in(name, dtype), 2, optimizer, dtype);
    expect_processors_losses(plan, 2, tolerance, "", steps);
  };
  expect_near(Optimizer::kSgd, DType::kFp64, 1e-7);
  if (models::small_models().at(name).others.contains("bn_group")) return;
  expect_near(Optimizer::kAdam, DType::kFp64, 1e-7);
  expect_near(Optimizer::kSgd, DType::kFp32, 1e-3);
}
INSTANTIATE_TEST_SUITE_P(Each, CudaNetwork,
                         testing::Values("bert_large", "candle_uno", "dlrm", "gpt2", "inception_v3",
                                         "llama2_70b", "mixtral_8x7b", "nasnet_a", "resnext50",
                                         "xdl"),
                         [](const auto& info) { return info.param; });

TEST(Cuda, MovesCheckpointsBetweenGpusAndCpus) {
  if (const auto why = why_no_gpu()) GTEST_SKIP() << *why;
  const auto plan = plan_by_name("fsdp", mlp(), 2, Optimizer::kAdam);
  const auto whole = worker_losses(plan, 2, "");
  const Scratch scratch("device_checkpoint");
  const auto checkpoint_flag = fmt::format("--checkpoint {} ", scratch.file("kept"));
  worker_losses(plan, 2, checkpoint_flag + "--device cuda --steps 3");
  worker_losses(plan, 2, checkpoint_flag + "--resume yes --steps 6");
  const auto last =
      worker_losses(plan, 2, checkpoint_flag + "--resume yes --device cuda --steps 10");
  ASSERT_EQ(last.size(), 4U);
  for (std::size_t i = 0; i < last.size(); ++i) EXPECT_NEAR(last[i], whole[6 + i], 1e-9);
}

}  // namespace
}  // namespace tandem::runtime
