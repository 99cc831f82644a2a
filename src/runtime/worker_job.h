// The job of tandem_worker: what its processes run. `tandem train` writes it as a JSON file, whose
// path is the worker's only argument. Flags are another form of the same keys, for tests:
// `tandem_worker --plan plan.json --checkpoint-every 5` is the job
// {"checkpoint_every": 5, "plan": "plan.json"}.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tandem::runtime {

struct WorkerJob {
  std::string plan;            // Path that the first process reads
  std::string profile;         // "full" or "quick": measures instead of running a plan
  std::int64_t threads = 1;    // Threads of each process with `profile`
  std::string data;            // File or directory; empty: synthetic data
  std::string device = "cpu";  // "cpu" or "cuda"
  std::int64_t steps = 10;
  std::optional<std::uint64_t> seed;  // Default: the checkpoint's, or 0
  std::optional<double> rate;         // Default: the checkpoint's, or the optimizer's
  // Time-out in seconds of each step, measurement or checkpoint; default: see training.cc.
  std::optional<std::int64_t> timeout;
  double seconds = std::numeric_limits<double>::infinity();  // End of steps; two always run
  bool progress = false;                                     // Prints a progress line on stderr
  bool notes = true;                  // Prints notes on stderr about slow operators and resuming
  bool stream = false;                // Prints notes and losses as lines of JSON: see main.cc
  std::string checkpoints;            // Directory; empty: no checkpoints
  std::optional<std::int64_t> every;  // Steps; default: a tenth of the run time goes to checkpoints
  bool resume = false;
  bool measure = false;  // Measures the time of each task

  bool operator==(const WorkerJob&) const = default;
};

// The values that a key of the job takes: numbers from `least`, or one of two texts.
struct LeastNumber {
  int least = 0;
};
struct EitherText {
  std::array<std::string_view, 2> texts;
};

// Calls visit(key, member) or visit(key, member, values) for each member of `job`, with its key in
// the file and the values that it takes.
template <class Job, class Visit>
void visit_members(Job& job, Visit&& visit) {
  visit("plan", job.plan);
  visit("profile", job.profile, EitherText{{"full", "quick"}});
  visit("threads", job.threads, LeastNumber{1});
  visit("data", job.data);
  visit("device", job.device, EitherText{{"cpu", "cuda"}});
  visit("steps", job.steps, LeastNumber{1});
  visit("seed", job.seed, LeastNumber{0});
  visit("lr", job.rate, LeastNumber{0});
  visit("timeout", job.timeout, LeastNumber{1});
  visit("seconds", job.seconds, LeastNumber{0});
  visit("progress", job.progress);
  visit("notes", job.notes);
  visit("stream", job.stream);
  visit("checkpoint", job.checkpoints);
  visit("checkpoint_every", job.every, LeastNumber{1});
  visit("resume", job.resume);
  visit("measure", job.measure);
}

// Returns the value of a member as JSON: null for one that is not given or not finite.
template <class Value>
nlohmann::json to_member_json(const Value& value) {
  return value;
}
template <class Value>
nlohmann::json to_member_json(const std::optional<Value>& value) {
  return value ? nlohmann::json(*value) : nlohmann::json();
}
inline nlohmann::json to_member_json(double value) {
  return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json();
}

// Returns the text of the job file: {"plan": "plan.json", "steps": 20}. Members with their default
// values are omitted. The texts of `job` are UTF-8.
inline std::string to_json(const WorkerJob& job) {
  const auto list_members = [](const WorkerJob& all) {
    auto out = nlohmann::json::object();
    visit_members(all, [&](const char* key, const auto& member, const auto&... /*values*/) {
      out[key] = to_member_json(member);
    });
    return out;
  };
  const auto defaults = list_members(WorkerJob());
  auto out = list_members(job);
  for (const auto& [key, value] : defaults.items()) {
    if (out[key] == value) out.erase(key);
  }
  return out.dump(1) + "\n";
}

// Reads the text of the job file at `path`. Throws UserError for a key that is unknown or given
// twice, for a value of the wrong type or outside its range, and if not exactly one of `plan` and
// `profile` is given.
WorkerJob parse_job(std::string_view text, const std::string& path);

struct UsageError {
  std::string message;
};

extern const char* const kUsage;

// Reads a job from the arguments --KEY VALUE ... that follow argv[0]; a truth value is yes or no.
// Throws UsageError.
WorkerJob parse_flags(std::span<char*> argv);

}  // namespace tandem::runtime
