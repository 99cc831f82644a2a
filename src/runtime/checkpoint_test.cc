// Runs that stop and resume. The losses must be those of a run that never stopped, whatever plan
// each part of it has. Errors must not damage what is on disk.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <nlohmann/json.hpp>
#include <thread>

#include "runtime/checkpoint_file.h"
#include "runtime/worker_test_support.h"
#include "strategies/grid.h"

namespace tandem::runtime {
namespace {

using Json = nlohmann::json;

// Column-parallel w1 and row-parallel w2, with one all-reduce. Each weight is stored where it is
// used.
const Spread kColumnsThenRows = {
    {"w1", {"0"}}, {"b1", {"0"}}, {"w2", {"1"}}, {"h", {"n"}}, {"y", {"k"}}};

plan::Plan make_spread_plan(const Spread& spread, int processes = 2,
                            Optimizer optimizer = Optimizer::kAdam) {
  return make_plan(mlp(), fmt::format("local:{}", processes), spread, optimizer);
}

plan::Plan make_pipeline(const std::string& strategy, int processes,
                         plan::Semantics semantics = plan::Semantics::kSynchronous) {
  auto plan = make_spread_plan({}, processes);
  const auto machine = machine::load_machine(plan.machine);
  const auto made =
      strategies::make_named_strategies(strategy, mlp(), machine::Digits(machine), semantics)
          .front();
  const machine::Digits digits(machine, made.schedule.micro_batches);
  plan.mapped = plan::parallelize(mlp(), digits, made.choices, made.schedule);
  return plan;
}

class Trainer {
 public:
  Output run(const plan::Plan& plan, const std::string& flags, const std::string& environment = "",
             const std::string& under = "") {
    std::ofstream(scratch_.file("plan.json")) << plan::to_json(plan);
    const auto processes = static_cast<int>(machine::load_machine(plan.machine).devices());
    return start(scratch_, processes,
                 fmt::format("--plan {} {}", scratch_.file("plan.json"), flags),
                 environment + kTuned, under);
  }
  std::vector<double> losses(const plan::Plan& plan, const std::string& flags) {
    const auto done = run(plan, flags);
    EXPECT_EQ(done.status, 0) << done.out << done.err;
    const auto json = Json::parse(done.out, nullptr, false);
    return json.is_object() ? json["loss"].get<std::vector<double>>() : std::vector<double>();
  }
  [[nodiscard]] std::string directory() const { return scratch_.file("checkpoints"); }
  [[nodiscard]] fs::path newest(int step) const {
    return fs::path(directory()) / fmt::format("step-{}", step);
  }
  [[nodiscard]] std::string flags(int steps, const std::string& more = "") const {
    return fmt::format("--steps {} --lr 0.05 --checkpoint {} {}", steps, directory(), more);
  }

 private:
  Scratch scratch_;
};

void expect_tail(const std::vector<double>& whole, const std::vector<double>& tail,
                 std::size_t steps) {
  ASSERT_EQ(tail.size(), steps);
  for (std::size_t i = 0; i < steps; ++i) {
    const auto right = whole[whole.size() - steps + i];
    EXPECT_LE(std::abs(tail[i] - right), 1e-9 * std::abs(right)) << i;
  }
}

// Each part of the run has another plan and another number of devices.
TEST(Checkpoint, ResumesUnderAnyPlan) {
  Trainer trainer;
  const auto whole = trainer.losses(make_spread_plan(kDataParallel), "--steps 16 --lr 0.05");
  ASSERT_EQ(whole.size(), 16U);
  trainer.losses(make_spread_plan(kDataParallel), trainer.flags(4, "--checkpoint-every 2"));
  const std::vector<double> first(whole.begin(), whole.begin() + 8);
  expect_tail(first,
              trainer.losses(make_spread_plan(kColumnsThenRows), trainer.flags(8, "--resume yes")),
              4);
  const std::vector<double> second(whole.begin(), whole.begin() + 12);
  expect_tail(second, trainer.losses(make_spread_plan({}, 1), trainer.flags(12, "--resume yes")),
              4);
  const auto last = make_pipeline("megatron:tp=2,pp=2,micro=2", 4);
  expect_tail(whole, trainer.losses(last, trainer.flags(16, "--resume yes")), 4);
}

// The weights are bf16, and Adam's moments are fp32.
TEST(Checkpoint, ResumesBf16Weights) {
  Trainer trainer;
  const auto plan =
      make_plan(mlp(DType::kBf16), "local:2", kDataParallel, Optimizer::kAdam, DType::kBf16);
  const auto whole = trainer.losses(plan, "--steps 6 --lr 0.05");
  ASSERT_EQ(whole.size(), 6U);
  trainer.losses(plan, trainer.flags(4));
  expect_tail(whole, trainer.losses(plan, trainer.flags(6, "--resume yes")), 2);
}

// With delayed updates a checkpoint has both versions of the weights. A checkpoint of an ordinary
// run has only one.
TEST(Checkpoint, ResumesDelayedUpdates) {
  Trainer trainer;
  const auto plan =
      make_pipeline("megatron:tp=1,pp=2,micro=2,stale", 2, plan::Semantics::kDelayed1);
  const auto whole = trainer.losses(plan, "--steps 9 --lr 0.05");
  ASSERT_EQ(whole.size(), 9U);
  trainer.losses(plan, trainer.flags(5));
  expect_tail(whole, trainer.losses(plan, trainer.flags(9, "--resume yes")), 4);
}

// The weights, and with them Adam's moments, are sharded.
TEST(Checkpoint, ReshardsTensors) {
  auto sharded = kDataParallel;
  sharded["w1"] = {"0"};
  sharded["w2"] = {"1"};
  sharded["b1"] = {"0"};
  Trainer trainer;
  const auto whole = trainer.losses(make_spread_plan(sharded), "--steps 8 --lr 0.05");
  trainer.losses(make_spread_plan(sharded), trainer.flags(4));
  expect_tail(
      whole, trainer.losses(make_pipeline("fsdp:micro=2", 4), trainer.flags(8, "--resume yes")), 4);
}

TEST(Checkpoint, RetainsTheTwoNewest) {
  Trainer trainer;
  trainer.losses(make_spread_plan({}, 1), trainer.flags(7, "--checkpoint-every 2"));
  EXPECT_EQ(list_complete_steps(trainer.directory()), (std::vector<std::int64_t>{6, 7}));
}

void expect_error(const Output& run, const std::string& message) {
  EXPECT_EQ(run.status, 1);
  EXPECT_NE(run.out.find(message), std::string::npos) << run.out << run.err;
}

// Killed runs may leave checkpoints half written or half deleted.
TEST(Checkpoint, RemovesLeftovers) {
  Trainer trainer;
  trainer.losses(make_spread_plan(kDataParallel), trainer.flags(2, "--checkpoint-every 1"));
  const fs::path directory = trainer.directory();
  for (const auto* name : {"step-1.old", "step-7.new", "step-2.mine"}) {
    fs::create_directories(directory / name);
    std::ofstream(directory / name / "rank-0") << "half";
  }
  trainer.losses(make_spread_plan(kDataParallel),
                 trainer.flags(4, "--checkpoint-every 1 --resume yes"));
  EXPECT_FALSE(fs::exists(directory / "step-1.old"));
  EXPECT_FALSE(fs::exists(directory / "step-7.new"));
  EXPECT_TRUE(fs::exists(directory / "step-2.mine"));
  EXPECT_EQ(list_complete_steps(directory), (std::vector<std::int64_t>{3, 4}));
}

TEST(Checkpoint, RefusesToOverwriteCheckpoints) {
  Trainer trainer;
  trainer.losses(make_spread_plan({}, 1), trainer.flags(2));
  expect_error(trainer.run(make_spread_plan({}, 1), trainer.flags(4)),
               "already holds checkpoints, which are not overwritten");
  EXPECT_EQ(list_complete_steps(trainer.directory()).back(), 2);
}

TEST(Checkpoint, RefusesAnotherModelOptimizerOrSeed) {
  Trainer trainer;
  trainer.losses(make_spread_plan({}, 1), trainer.flags(2));
  expect_error(
      trainer.run(make_spread_plan({}, 1, Optimizer::kSgd), trainer.flags(4, "--resume yes")),
      "is a checkpoint of another model (mlp, batch 8, adam, fp64); this run trains mlp, "
      "batch 8, sgd, fp64");
  expect_error(
      trainer.run(make_plan(mlp(DType::kFp32), "local:1", {}, Optimizer::kAdam, DType::kFp32),
                  trainer.flags(4, "--resume yes")),
      "mlp, batch 8, adam, fp64); this run trains mlp, batch 8, adam, fp32");
  GraphBuilder b("wide");
  const auto x = b.input("x", {8, 12}, kType);
  const auto w = b.weight("w1", {12, 12}, kType);
  const auto y = b.add(ops::kLinear, {x, w}, "y");
  const auto wide = b.finish({b.add(ops::kMse, {y, x}, "loss")});
  expect_error(trainer.run(make_plan(wide, "local:1", {}, Optimizer::kAdam),
                           trainer.flags(4, "--resume yes")),
               "is a checkpoint of another model (mlp, batch 8, adam, fp64); this run trains wide, "
               "batch 8, adam, fp64");
  expect_error(trainer.run(make_spread_plan({}, 1), trainer.flags(4, "--resume yes --seed 5")),
               "is a checkpoint of a run with seed 0, not 5");
}

TEST(Checkpoint, RefusesADirectoryInUse) {
  Trainer trainer;
  fs::create_directories(trainer.directory());
  const DirectoryLock other(trainer.directory());
  for (const char* resume : {"", "--resume yes"}) {
    const auto run = trainer.run(make_spread_plan(kDataParallel), trainer.flags(2, resume));
    EXPECT_EQ(run.status, 1);
    EXPECT_NE(run.out.find("is in use by another run"), std::string::npos) << run.out;
  }
}

// Data are the same if they are moved to another path.
TEST(Checkpoint, RefusesOtherData) {
  Trainer trainer;
  const auto save = [&](const std::string& name, double first) {
    const auto directory = fs::path(trainer.directory() + name);
    fs::create_directories(directory);
    for (const auto& [input, size] : {std::pair("x", 12), std::pair("target", 4)}) {
      auto header =
          fmt::format("{{'descr': '<f8', 'fortran_order': False, 'shape': (8, {}), }}", size);
      header.resize(117, ' ');
      std::vector<double> elements(static_cast<std::size_t>(8 * size), 0.25);
      elements[0] = first;
      std::ofstream out(directory / fmt::format("{}.npy", input), std::ios::binary);
      out << std::string("\x93NUMPY\x01\x00\x76\x00", 10) << header << '\n';
      out.write(reinterpret_cast<const char*>(elements.data()),
                static_cast<std::streamsize>(elements.size() * sizeof(double)));
    }
    return fmt::format("--data {}", directory.string());
  };
  const auto plan = make_spread_plan(kDataParallel);
  const auto data = save("data", 1);
  trainer.losses(plan, trainer.flags(2, data));
  for (const auto& other : {save("other", 2), std::string()}) {
    const auto run = trainer.run(plan, trainer.flags(4, "--resume yes " + other));
    EXPECT_EQ(run.status, 1);
    EXPECT_NE(run.out.find("is a checkpoint of a run on arrays, 8 samples, "), std::string::npos)
        << run.out;
  }
  EXPECT_EQ(trainer.losses(plan, trainer.flags(4, "--resume yes " + save("moved", 1))).size(), 2);
}

TEST(Checkpoint, NeedsADirectoryToResumeFrom) {
  Trainer trainer;
  expect_error(trainer.run(make_spread_plan({}), trainer.flags(2, "--resume yes")),
               "does not exist, so training cannot resume from it");
  fs::create_directories(trainer.directory());
  EXPECT_EQ(trainer.losses(make_spread_plan({}, 1), trainer.flags(2, "--resume yes")).size(), 2U);
  EXPECT_TRUE(trainer.losses(make_spread_plan({}, 1), trainer.flags(2, "--resume yes")).empty());
}

TEST(Checkpoint, DetectsDamage) {
  Trainer trainer;
  trainer.losses(make_spread_plan(kColumnsThenRows), trainer.flags(2));
  const auto file = trainer.newest(2) / "rank-1";
  const auto right = read(file);
  ASSERT_GT(right.size(), 100U);
  const auto resume = [&] {
    return trainer.run(make_spread_plan(kDataParallel), trainer.flags(4, "--resume yes"));
  };
  auto wrong = right;
  wrong[right.size() / 2] = static_cast<char>(wrong[right.size() / 2] ^ 16);
  std::ofstream(file, std::ios::binary) << wrong;
  expect_error(resume(), "is damaged: the checksum of ");
  std::ofstream(file, std::ios::binary) << right.substr(0, right.size() - 1);
  expect_error(resume(), fmt::format("is truncated after {} bytes", right.size() - 1));
  std::ofstream(file, std::ios::binary) << right << "x";
  expect_error(resume(),
               fmt::format("is longer than the {} bytes that were written", right.size()));
  fs::remove(file);
  expect_error(resume(), "No such file or directory");
  std::ofstream(file, std::ios::binary) << right;
  std::ofstream(trainer.newest(2) / "manifest", std::ios::app) << "x";
  expect_error(resume(), "is truncated");
  EXPECT_EQ(list_complete_steps(trainer.directory()).back(), 2);
}

// Files cannot grow beyond 2 KiB: a write fails half way, as on a full disk.
TEST(Checkpoint, RetainsTheLastOnAFullDisk) {
  Trainer trainer;
  trainer.losses(make_spread_plan({}, 1), trainer.flags(2));
  const auto before = read(trainer.newest(2) / "rank-0");
  expect_error(trainer.run(make_spread_plan({}, 1), trainer.flags(4, "--resume yes"), "",
                           "prlimit --fsize=2048"),
               "cannot be written: File too large");
  EXPECT_EQ(list_complete_steps(trainer.directory()).back(), 2);
  EXPECT_FALSE(fs::exists(trainer.newest(4).string() + ".new"));
  EXPECT_EQ(read(trainer.newest(2) / "rank-0"), before);
}

TEST(Worker, StopsOnANonFiniteLoss) {
  Trainer trainer;
  expect_error(
      trainer.run(make_spread_plan(kDataParallel, 2, Optimizer::kSgd), "--steps 400 --lr 1e30"),
      ", so training stops");
}

// Adam divides this rate by 0.1 in its first step.
TEST(Checkpoint, RejectsNonFiniteWeights) {
  Trainer trainer;
  expect_error(trainer.run(make_spread_plan(kDataParallel),
                           "--lr 1e308 --checkpoint " + trainer.directory()),
               "is not finite, so no checkpoint is written");
  EXPECT_TRUE(list_complete_steps(trainer.directory()).empty());
}

// Returns the processes that mpirun has started for this test.
std::vector<int> workers() {
  std::vector<int> out;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const auto name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    if (!read(entry.path() / "comm").starts_with("tandem_worker")) continue;
    if (read(entry.path() / "environ").find(fmt::format("TANDEM_TEST={}", getpid())) !=
        std::string::npos) {
      out.push_back(std::stoi(name));
    }
  }
  return out;
}

// Sends a signal to a process of the current run, once it has a checkpoint.
std::thread signal_later(const Trainer& trainer, int signal) {
  return std::thread([&trainer, signal] {
    for (int i = 0; i < 3000 && list_complete_steps(trainer.directory()).empty(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    const auto found = workers();
    EXPECT_EQ(found.size(), 2U);
    if (!found.empty()) kill(found.back(), signal);
  });
}

TEST(Checkpoint, ResumesAKilledRun) {
  Trainer trainer;
  auto killer = signal_later(trainer, SIGKILL);
  const auto killed =
      trainer.run(make_spread_plan(kDataParallel), trainer.flags(1'000'000, "--checkpoint-every 5"),
                  fmt::format("TANDEM_TEST={} ", getpid()));
  killer.join();
  EXPECT_EQ(killed.status, 128 + SIGKILL) << killed.out << killed.err;
  const auto step = static_cast<int>(list_complete_steps(trainer.directory()).back());
  const auto tail =
      trainer.losses(make_spread_plan(kColumnsThenRows), trainer.flags(step + 5, "--resume yes"));
  Trainer other;
  expect_tail(other.losses(make_spread_plan({}, 1), fmt::format("--steps {} --lr 0.05", step + 5)),
              tail, 5);
}

// A stopped process does not answer, and the other one notices.
TEST(Checkpoint, DetectsAHungProcess) {
  Trainer trainer;
  auto stopper = signal_later(trainer, SIGSTOP);
  const auto hung = trainer.run(make_spread_plan(kDataParallel),
                                trainer.flags(1'000'000, "--checkpoint-every 5 --timeout 5"),
                                fmt::format("TANDEM_TEST={} ", getpid()));
  stopper.join();
  expect_error(hung, "did not finish within 5 s: a process hangs or is lost");
}

}  // namespace
}  // namespace tandem::runtime
