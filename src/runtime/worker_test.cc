// Tests what tandem_worker refuses, and how a run ends if a process fails or hangs.
#include <sstream>

#include "runtime/train_test_support.h"
#include "runtime/worker_job.h"

namespace tandem::runtime {
namespace {

TEST(Worker, RefusesAWrongNumberOfProcesses) {
  const Scratch scratch;
  std::ofstream(scratch.file("plan.json"))
      << plan::to_json(make_plan(mlp(), "local:2", {}, Optimizer::kSgd));
  const auto run = start(scratch, 1, "--steps 1 --plan " + scratch.file("plan.json"), kTuned);
  EXPECT_EQ(run.status, 1);
  EXPECT_NE(run.out.find(
                R"("message":"the plan is for 2 devices (local:2), but 1 processes are running")"),
            std::string::npos)
      << run.out;
}

TEST(Worker, ReportsAMissingPlanOnce) {
  const auto run = start(Scratch(), 2, "--plan /nowhere/plan.json", kTuned);
  EXPECT_EQ(run.status, 1);
  const auto first = run.out.find(R"({"error":{"hint":"","kind":"file")");
  ASSERT_NE(first, std::string::npos) << run.out;
  EXPECT_EQ(run.out.find(R"({"error")", first + 1), std::string::npos) << run.out;
}

TEST(Worker, RefusesFp16) {
  GraphBuilder b("half");
  const auto x = b.input("x", {4}, DType::kFp16);
  const auto w = b.weight("w", {4}, DType::kFp16);
  const auto model = b.finish({b.add(ops::kMse, {x, w}, "loss")});
  const Scratch scratch;
  std::ofstream(scratch.file("plan.json"))
      << plan::to_json(make_plan(model, "local:2", {}, Optimizer::kSgd, DType::kFp16));
  const auto run = start(scratch, 2, "--plan " + scratch.file("plan.json"));
  EXPECT_EQ(run.status, 1);
  EXPECT_NE(run.out.find("the runtime does not support fp16"), std::string::npos) << run.out;
}

TEST(Worker, StopsAHungRunAfterATimeout) {
  GraphBuilder b("slow");
  const auto x = b.input("x", {4096, 4096}, kType);
  const auto w = b.weight("w", {4096, 4096}, kType);
  const auto y = b.add(ops::kLinear, {x, w}, "y");
  const auto model = b.finish({b.add(ops::kMse, {y, x}, "loss")});
  const Scratch scratch;
  std::ofstream(scratch.file("plan.json"))
      << plan::to_json(make_plan(model, "local:2", {}, Optimizer::kSgd));
  const auto run = start(scratch, 2, "--timeout 1 --plan " + scratch.file("plan.json"), kTuned);
  EXPECT_EQ(run.status, 1);
  EXPECT_NE(
      run.out.find(
          R"("message":"did not finish within 1 s: a process hangs or is lost","where":"step 0")"),
      std::string::npos)
      << run.out;
}

// One process has the sample with an invalid word. The other waits for data that it never sends.
TEST(Worker, StopsAllProcessesAfterAnError) {
  GraphBuilder b("words");
  const auto words = b.input("x", {8, 2}, DType::kInt64, 10);
  const auto table = b.weight("table", {10, 4}, kType);
  const auto h = b.add(ops::kEmbeddingBag, {words, table}, "h");
  const auto y = b.add(ops::kLinear, {h, b.weight("w", {4, 4}, kType)}, "y");
  const auto model = b.finish({b.add(ops::kMse, {y, b.input("target", {8, 4}, kType)}, "loss")});
  const Scratch scratch;
  std::vector<std::int64_t> ids(16);
  ids[0] = 99;
  write_array(scratch, "x", {8, 2}, ids);
  write_array(scratch, "target", {8, 4}, std::vector<double>(32));
  std::ofstream(scratch.file("plan.json"))
      << plan::to_json(make_plan(model, "local:2", kDataParallel, Optimizer::kSgd));
  const auto run = start(
      scratch, 2,
      fmt::format("--plan {} --steps 5 --data {}", scratch.file("plan.json"), scratch.file("")),
      kTuned);
  EXPECT_EQ(run.status, 1);  // A time-out would be 110
  EXPECT_NE(run.out.find("has the value 99 for input %x, which takes 0 to 9"), std::string::npos)
      << run.out;
}

// The second process gets no path of a job.
TEST(Worker, ReadsTheJobInTheFirstProcess) {
  const Scratch scratch("job_test");
  std::ofstream(scratch.file("plan.json"))
      << plan::to_json(make_plan(mlp(), "local:2", kDataParallel, Optimizer::kSgd));
  WorkerJob job;
  job.plan = scratch.file("plan.json");
  job.steps = 2;
  std::ofstream(scratch.file("job.json")) << to_json(job);
  const auto run =
      start(scratch, 2, "", kTuned,
            fmt::format("sh -c 'test $OMPI_COMM_WORLD_RANK = 0 && exec \"$0\" {}; exec "
                        "\"$0\" -'",
                        scratch.file("job.json")));
  ASSERT_EQ(run.status, 0) << run.out << run.err;
  EXPECT_EQ(nlohmann::json::parse(run.out)["loss"].size(), 2U);
}

TEST(Worker, ReportsABadJobOnce) {
  const Scratch scratch("job_test");
  std::ofstream(scratch.file("job.json")) << R"({"plan": "plan.json", "step": 3})";
  const auto run = start(scratch, 2, scratch.file("job.json"), kTuned);
  EXPECT_EQ(run.status, 1);
  const auto said =
      run.out.find(R"_("message":"'step' is not a key of jobs (did you mean steps?)")_");
  ASSERT_NE(said, std::string::npos) << run.out;
  EXPECT_EQ(run.out.find(R"({"error")", said), std::string::npos) << run.out;
}

TEST(Worker, StreamsNotesAndLossesBeforeTheReport) {
  const Scratch scratch("stream_test");
  std::ofstream(scratch.file("plan.json"))
      << plan::to_json(make_plan(mlp(), "local:2", kDataParallel, Optimizer::kSgd));
  const auto flags = fmt::format("--plan {} --checkpoint {} --stream yes ",
                                 scratch.file("plan.json"), scratch.file("checkpoints"));
  ASSERT_EQ(start(scratch, 2, flags + "--steps 1", kTuned).status, 0);
  const auto run = start(scratch, 2, flags + "--steps 3 --resume yes", kTuned);
  ASSERT_EQ(run.status, 0) << run.out << run.err;
  EXPECT_EQ(run.err, "");
  std::istringstream lines(run.out);
  const auto read_line = [&lines] {
    std::string line;
    std::getline(lines, line);
    return nlohmann::json::parse(line, nullptr, false);
  };
  EXPECT_EQ(read_line()["note"], "resumed after 1 steps from a checkpoint of by hand on local:2");
  const auto first = read_line();
  const auto second = read_line();
  const auto report = nlohmann::json::parse(lines);
  EXPECT_EQ(first["step"], 1);
  EXPECT_EQ(second["step"], 2);
  EXPECT_EQ(report["loss"], (nlohmann::json{first["loss"], second["loss"]}));
}

TEST(Worker, PrintsTheUsageForBadFlags) {
  const auto run = start(Scratch(), 1, "--plan plan.json --steps 0");
  EXPECT_EQ(run.status, 2);
  EXPECT_NE(run.err.find("--steps cannot be '0': expected an integer of at least 1"),
            std::string::npos)
      << run.err;
  EXPECT_NE(run.err.find("usage: mpirun"), std::string::npos);
}

}  // namespace
}  // namespace tandem::runtime
