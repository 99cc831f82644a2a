// The job file of tandem_worker, and its flags.
#include "runtime/worker_job.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/error_test_support.h"

namespace tandem::runtime {
namespace {

std::string job_error(const std::string& text) {
  return get_error([&] { (void)parse_job(text, "job.json"); });
}

WorkerJob parse_words(std::vector<std::string> words) {
  words.insert(words.begin(), "tandem_worker");
  std::vector<char*> argv;
  argv.reserve(words.size());
  for (auto& word : words) argv.push_back(word.data());
  return parse_flags(argv);
}

std::string flags_error(const std::vector<std::string>& words) {
  try {
    (void)parse_words(words);
  } catch (const UsageError& error) {
    return error.message;
  }
  return "no error";
}

// Returns a job in which no member has its default value, except `profile` and `threads`.
WorkerJob make_full_job() {
  WorkerJob job;
  job.plan = "plans/\"a\" b.json";
  job.data = "tokens.bin";
  job.device = "cuda";
  job.steps = 20;
  job.seed = 18'446'744'073'709'551'615U;
  job.rate = 0.1;
  job.timeout = 30;
  job.seconds = 2.5;
  job.progress = true;
  job.notes = false;
  job.stream = true;
  job.checkpoints = "kept";
  job.every = 5;
  job.resume = true;
  job.measure = true;
  return job;
}

TEST(WorkerJob, RoundTripsJson) {
  EXPECT_EQ(parse_job(to_json(make_full_job()), "job.json"), make_full_job());
  WorkerJob profile;
  profile.profile = "quick";
  profile.threads = 2;
  EXPECT_EQ(parse_job(to_json(profile), "job.json"), profile);
}

TEST(WorkerJob, OmitsDefaults) {
  WorkerJob job;
  job.plan = "plan.json";
  EXPECT_EQ(to_json(job), "{\n \"plan\": \"plan.json\"\n}\n");
  EXPECT_EQ(parse_job(to_json(job), "job.json"), job);
}

TEST(WorkerJob, RefusesUnknownKeys) {
  EXPECT_EQ(job_error(R"({"plan": "p", "step": 3})"),
            "job.json: 'step' is not a key of jobs (did you mean steps?)");
  EXPECT_EQ(job_error(R"({"plan": "p", "momentum": 0.9})"),
            "job.json: 'momentum' is not a key of jobs");
  EXPECT_NE(job_error(R"({"plan": "p", "steps": 3, "steps": 4})"), "no error");
}

TEST(WorkerJob, RefusesWrongTypesAndValues) {
  const auto get_member_error = [](const std::string& member) {
    return job_error(R"({"plan": "p", )" + member + "}");
  };
  EXPECT_EQ(get_member_error(R"("steps": "3")"),
            R"(job.json: steps cannot be "3": expected an integer of at least 1)");
  EXPECT_EQ(get_member_error(R"("steps": 2.5)"),
            "job.json: steps cannot be 2.5: expected an integer of at least 1");
  EXPECT_EQ(get_member_error(R"("steps": 0)"),
            "job.json: steps cannot be 0: expected an integer of at least 1");
  EXPECT_EQ(get_member_error(R"("steps": 18446744073709551615)"),
            "job.json: steps cannot be 18446744073709551615: expected an integer of at least 1");
  EXPECT_EQ(get_member_error(R"("seed": -1)"),
            "job.json: seed cannot be -1: expected an integer of at least 0");
  EXPECT_EQ(get_member_error(R"("lr": null)"),
            "job.json: lr cannot be null: expected a number of at least 0");
  EXPECT_EQ(get_member_error(R"("resume": "yes")"),
            R"(job.json: resume cannot be "yes": expected true or false)");
  EXPECT_EQ(get_member_error(R"("device": "tpu")"),
            R"(job.json: device cannot be "tpu": expected 'cpu' or 'cuda')");
  EXPECT_EQ(get_member_error(R"("data": ["a"])"),
            "job.json: data cannot be a list: expected a text");
}

TEST(WorkerJob, RefusesOtherJson) {
  EXPECT_EQ(job_error("[]"), "job.json: is not a JSON object");
  EXPECT_NE(job_error("{").find("is not JSON"), std::string::npos);
  EXPECT_EQ(job_error("{}"), "job.json: expected exactly one of the keys plan and profile");
  EXPECT_EQ(job_error(R"({"plan": "p", "profile": "full"})"),
            "job.json: expected exactly one of the keys plan and profile");
  EXPECT_EQ(job_error(R"({"plan": "p", "resume": true})"), "job.json: resume requires checkpoint");
}

TEST(WorkerJob, AcceptsKeysAsFlags) {
  auto expected = make_full_job();
  expected.seed = 7;
  EXPECT_EQ(
      parse_words({"--plan",   expected.plan, "--data",       "tokens.bin", "--device",
                   "cuda",     "--steps",     "20",           "--seed",     "7",
                   "--lr",     "0.1",         "--timeout",    "30",         "--seconds",
                   "2.5",      "--progress",  "yes",          "--notes",    "no",
                   "--stream", "yes",         "--checkpoint", "kept",       "--checkpoint-every",
                   "5",        "--resume",    "yes",          "--measure",  "yes"}),
      expected);
  EXPECT_EQ(flags_error({"--plan", "p", "--stesp", "3"}),
            "unknown flag --stesp (did you mean steps?)");
  EXPECT_EQ(flags_error({"--plan", "p", "--steps"}), "--steps requires a value");
  EXPECT_EQ(flags_error({"--plan", "p", "--notes", "true"}),
            "--notes cannot be 'true': expected 'yes' or 'no'");
  EXPECT_EQ(flags_error({"--plan", "p", "q"}), "expected a flag, but 'q' is none");
  EXPECT_EQ(flags_error({}), "expected exactly one of the keys plan and profile");
}

}  // namespace
}  // namespace tandem::runtime
