// tandem profile: measures operators and collectives on this computer and writes the fitted machine
// `local`. Given a network, it adds the network's operators.
#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "base/error.h"
#include "base/table.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/launch.h"
#include "cli/new_file.h"
#include "cli/profile_model.h"
#include "cli/progress.h"
#include "predict/fit.h"

namespace tandem::cli {

namespace {

namespace fs = std::filesystem;

struct ProfileFlags {
  bool json = false;
  bool quick = false;
  std::string output;  // empty: the file that `local` reads
  std::int64_t devices = 0;
  std::int64_t threads = 1;  // per process
  Job job;                   // a network; without a model the machine is measured
};

std::string prepare_output_path(const ProfileFlags& flags) {
  if (!flags.output.empty()) return flags.output;
  auto path = machine::measured_local_path();
  if (path.empty()) {
    throw UserError("flag", "-o",
                    "is required: there is no cache directory for the machine file of `local`",
                    "give -o FILE, or set XDG_CACHE_HOME or HOME and unset TANDEM_NO_CACHE");
  }
  const auto directory = fs::path(path).parent_path();
  std::error_code failed;
  fs::create_directories(directory, failed);
  if (failed) {
    throw UserError("file", directory.string(),
                    fmt::format("directory cannot be created: {}", failed.message()),
                    "give another path with -o FILE");
  }
  return path;
}

// Returns date and processor: "2025-03-01, Intel(R) Xeon(R) Processor".
std::string read_date_and_processor() {
  std::ifstream in("/proc/cpuinfo");
  std::string processor = "unknown processor";
  for (std::string line; std::getline(in, line);) {
    const auto colon = line.find(':');
    if (!line.starts_with("model name") || colon == std::string::npos) continue;
    processor = trim(std::string_view(line).substr(colon + 1));
    break;
  }
  const std::chrono::year_month_day day{
      std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now())};
  return fmt::format("{:04}-{:02}-{:02}, {}", static_cast<int>(day.year()),
                     static_cast<unsigned>(day.month()), static_cast<unsigned>(day.day()),
                     processor);
}

predict::Profile measure(const ProfileFlags& flags, std::int64_t devices) {
  auto job = make_worker_job(false);
  job.profile = flags.quick ? "quick" : "full";
  job.threads = flags.threads;
  const auto text = run_worker(devices, job, RunDirectory());
  try {
    return predict::parse_profile(text);
  } catch (const std::exception&) {
    throw UserError("runtime", "tandem_worker", "printed no measurements to stdout");
  }
}

// Predictions of the machine file just written, for the measurements that it was fitted to.
class Predictions {
 public:
  Predictions(const std::string& text, const std::string& path, std::int64_t devices)
      : machine_(machine::parse_machine(text, path, devices)), digits_(machine_) {}

  [[nodiscard]] Seconds predict_time(const predict::MeasuredCollective& c) const {
    return predict::collective_time(machine_, digits_, c.kind, digits_.all(), c.bytes);
  }
  [[nodiscard]] Seconds predict_time(const predict::MeasuredOperator& o) const {
    return predict::task_time(machine_.device, o.work(), o.dtype);
  }

 private:
  machine::Machine machine_;
  machine::Digits digits_;
};

Json profile_json(const predict::Profile& profile, const Predictions& predictions,
                  const std::string& path) {
  Json out = predict::to_json(profile);
  for (std::size_t i = 0; i < profile.operators.size(); ++i) {
    out["operators"][i]["predicted_s"] = predictions.predict_time(profile.operators[i]).value;
  }
  for (std::size_t i = 0; i < profile.collectives.size(); ++i) {
    out["collectives"][i]["predicted_s"] = predictions.predict_time(profile.collectives[i]).value;
  }
  out["file"] = path;
  return out;
}

// A table of measured and predicted times, with "operator" or "collective" as its first title.
class MeasurementTable {
 public:
  explicit MeasurementTable(const std::string& what)
      : table_({{what},
                {"measured", Align::kRight},
                {"predicted", Align::kRight},
                {"ratio", Align::kRight},
                {"rate", Align::kRight}}) {}

  void add(const std::string& what, Seconds measured, Seconds predicted, const std::string& rate) {
    table_.add({what, format_seconds(measured.value), format_seconds(predicted.value),
                fmt::format("{:.2f}", predicted / measured), rate + "/s"});
  }
  [[nodiscard]] std::string to_text() const { return table_.to_text(); }

 private:
  TextTable table_;
};

void print(const predict::Profile& profile, const Predictions& predictions) {
  std::cout << (profile.devices == 1 ? "1 process" : fmt::format("{} processes", profile.devices))
            << "\n\n";
  MeasurementTable operators("operator");
  for (const auto& o : profile.operators) {
    const bool adds = o.name == "add";
    const auto rate = adds ? format_bytes(o.work().bytes.value / o.time.value)
                           : format_flops(o.work().flops.value / o.time.value);
    operators.add(fmt::format("{} {} {}{}", o.name, name(o.dtype), fmt::join(o.shape, " x "),
                              o.devices == 1 ? ", one process" : ""),
                  o.time, predictions.predict_time(o), rate);
  }
  std::cout << operators.to_text();
  if (profile.collectives.empty()) return;
  MeasurementTable collectives("collective");
  for (const auto& c : profile.collectives) {
    collectives.add(fmt::format("{} {}", machine::name(c.kind), format_bytes(c.bytes.value)),
                    c.time, predictions.predict_time(c),
                    format_bytes(c.bytes.value / c.time.value));
  }
  std::cout << "\n" << collectives.to_text();
}

Json profile_json(const std::vector<TrainedPlan>& trained) {
  Json plans = Json::array();
  for (const auto& t : trained) {
    plans.push_back({{"model", t.model},
                     {"strategy", t.strategy},
                     {"step_s", t.measured.value},
                     {"predicted_s", t.predicted.value},
                     {"predicted_now_s", t.now.value}});
  }
  return plans;
}

void print(const std::vector<TrainedPlan>& trained) {
  if (trained.empty()) return;
  TextTable table({{"step of"},
                   {"measured", Align::kRight},
                   {"predicted before", Align::kRight},
                   {"ratio", Align::kRight},
                   {"predicted now", Align::kRight},
                   {"ratio", Align::kRight}});
  for (const auto& t : trained) {
    table.add({fmt::format("{} {}", t.model.substr(0, t.model.find(':')), t.strategy),
               format_seconds(t.measured.value), format_seconds(t.predicted.value),
               fmt::format("{:.2f}", t.predicted / t.measured), format_seconds(t.now.value),
               fmt::format("{:.2f}", t.now / t.measured)});
  }
  std::cout << table.to_text();
}

// Returns the job of `flags` on the machine of the file at `path`.
Job make_job(const ProfileFlags& flags, std::int64_t devices, const std::string& path) {
  Job out = flags.job;
  // The text of a machine counts as a path if it contains a '/'.
  const auto file = flags.output.empty() ? std::string("local") : fs::absolute(path).string();
  out.machine_text = fmt::format("{}:{}", file, devices);
  return out;
}

// Measures the machine and writes the file. Prints the result unless a network is profiled next.
void profile_machine(const ProfileFlags& flags, std::int64_t devices, const std::string& path) {
  NewFile file(path);
  check_worker_is_built("profile");
  const auto profile = measure(flags, devices);
  const auto text = predict::format_machine(profile, read_date_and_processor());
  file.write(text);
  file.finish();
  std::vector<TrainedPlan> samples;
  if (!flags.quick) samples = profile_samples(make_job(flags, devices, path), path);
  if (!flags.job.model_text.empty()) return;
  const Predictions predictions(text, path, devices);
  if (flags.json) {
    auto out = profile_json(profile, predictions, path);
    out["plans"] = profile_json(samples);
    print_json(out);
    return;
  }
  print(profile, predictions);
  if (!samples.empty()) std::cout << "\n";
  print(samples);
  std::cout << fmt::format("\nWrote {}\n", path);
}

void profile_network(const ProfileFlags& flags, std::int64_t devices, const std::string& path) {
  if (!fs::exists(path)) profile_machine(flags, devices, path);
  const auto trained = profile_model(make_job(flags, devices, path), path);
  if (flags.json) {
    print_json({{"model", flags.job.model_text}, {"plans", profile_json(trained)}, {"file", path}});
  } else {
    print(trained);
    std::cout << fmt::format("\nWrote {}\n", path);
  }
}

void run(const ProfileFlags& flags) {
  const auto devices =
      flags.devices > 0 ? flags.devices : std::max<std::int64_t>(2, count_default_processes());
  if (devices < 2 && flags.threads < 2) {
    throw UserError("flag", "--devices", "is 1, and one process has no collectives to measure",
                    "use --devices 2 or more, or --threads for one device with several cores");
  }
  check_starts_here("--devices", devices * flags.threads, "use fewer --devices or --threads");
  if (flags.threads > 1 && flags.output.empty()) {
    throw UserError("flag", "--threads",
                    "cannot be used for `local`, whose processes have one thread each",
                    "write another machine file with -o FILE");
  }
  const auto path = prepare_output_path(flags);
  if (flags.job.model_text.empty()) return profile_machine(flags, devices, path);
  check_worker_is_built("profile");
  profile_network(flags, devices, path);
}

}  // namespace

void add_profile(CLI::App& app, int& /*exit_code*/) {
  auto flags = std::make_shared<ProfileFlags>();
  auto* command = add_command(app, "profile", "measure this computer as the machine `local`",
                              "profile --quick -o my.machine", flags->json);
  command->add_option("model", flags->job.model_text,
                      "add the operators of this network to the file, measured while training it");
  command->add_option("--batch", flags->job.batch, "global batch size; default: a small one")
      ->check(kPositive);
  command->add_option("--optimizer", flags->job.optimizer, "optimizer; default: the model's own")
      ->check(CLI::IsMember({"sgd", "momentum", "adam"}));
  command->add_option("--dtype", flags->job.dtype, "element type")
      ->check(CLI::IsMember({"fp64", "fp32", "bf16"}))
      ->capture_default_str();
  command
      ->add_option("-o", flags->output,
                   "write the machine to this file; default: the file that `local` reads")
      ->check(kFile);
  command
      ->add_option("--devices", flags->devices,
                   "number of processes; default: one per core, at least 2")
      ->check(kPositive);
  command
      ->add_option("--threads", flags->threads,
                   "threads per process, for devices with several cores; requires -o")
      ->check(kPositive)
      ->capture_default_str();
  command->add_flag("--quick", flags->quick,
                    "measure fewer sizes, fewer times, and no networks; takes seconds");
  add_quiet_flag(*command);
  command->callback([flags] { run(*flags); });
}

}  // namespace tandem::cli
