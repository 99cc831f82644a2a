// tandem_worker: one process of a parallel run. mpirun starts one rank per device, for a job that
// rank 0 reads (worker_job.h). The other ranks get the job from rank 0; their path may be "-".
//
//   mpirun -np 2 tandem_worker job.json
//
// Rank 0 prints one JSON document: losses, times and memory, or the measured profile. If a run
// fails, a rank prints one line of JSON instead, {"error": {...}}. If the job streams, rank 0 first
// prints lines such as {"note": "resumed after 2 steps"} and {"loss": 0.5, "step": 3}. They arrive
// in order, which mpirun does not guarantee for lines of stdout and stderr.
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>
#include <mpi.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/text.h"
#include "lower/lower.h"
#include "machine/machine.h"
#include "plan/json.h"
#include "predict/memory.h"
#include "predict/profile.h"
#include "runtime/checkpoint.h"
#include "runtime/device.h"
#include "runtime/device_network.h"
#include "runtime/environment.h"
#include "runtime/executor.h"
#include "runtime/matmul.h"
#include "runtime/profile.h"
#include "runtime/tensor_memory.h"
#include "runtime/threads.h"
#include "runtime/training.h"
#include "runtime/worker_job.h"
#include "runtime/world.h"

namespace tandem::runtime {
namespace {

using Json = nlohmann::json;

// Time-out in seconds for starting, for loading and for a measurement.
constexpr std::int64_t kLoading = 600;

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw UserError("file", path, "cannot be read");
  return {std::istreambuf_iterator<char>(in), {}};
}

// Returns the text of a file. The first process reads it, because the others may be on other
// computers.
std::string read_on_first_rank(const std::string& path, const World& world) {
  std::string text;
  run_on_first_rank(world, [&] { text = read_file(path); });
  auto size = static_cast<std::int64_t>(text.size());
  MPI_Bcast(&size, 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
  text.resize(static_cast<std::size_t>(size));
  constexpr std::int64_t kMost = 1 << 30;
  for (std::int64_t at = 0; at < size; at += kMost) {
    MPI_Bcast(text.data() + at, static_cast<int>(std::min(kMost, size - at)), MPI_CHAR, 0,
              MPI_COMM_WORLD);
  }
  return text;
}

// Reads the job from flags, or from the job file that is the only argument. Throws UsageError or
// Failed on all ranks.
WorkerJob read_job(std::span<char*> argv, const World& world) {
  const bool is_file = argv.size() == 2 && !std::string_view(argv[1]).starts_with("--");
  if (!is_file) return parse_flags(argv);
  const std::string path = argv[1];
  const auto text = read_on_first_rank(path, world);
  WorkerJob out;
  run_together(world, [&] { out = parse_job(text, path); });
  return out;
}

lower::Program lower_plan(const plan::Plan& plan, const World& world) {
  auto machine = machine::load_machine(plan.machine);
  // This runtime can do these, whatever the machine file says about its software.
  machine.device.software.stores_zeros = true;
  machine.device.software.sums_rows = true;
  machine.device.software.updates_in_matmuls = true;
  if (machine.devices() != world.size) {
    throw UserError("plan", "mpirun",
                    fmt::format("the plan is for {} devices ({}), but {} processes are running",
                                machine.devices(), plan.machine, world.size),
                    fmt::format("start it with mpirun -np {}", machine.devices()));
  }
  use_threads(static_cast<std::int64_t>(machine.device.threads));
  return lower::lower(plan.mapped, make_digits(plan, machine), machine.device.software,
                      plan.optimizer);
}

Bytes get_peak_resident() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return Bytes{static_cast<double>(usage.ru_maxrss) * 1024};
}

// Returns the values of all processes, by process, on the first one.
std::vector<std::int64_t> gather_from_all(Bytes own, const World& world) {
  const auto mine = static_cast<std::int64_t>(own.value);
  std::vector<std::int64_t> all(static_cast<std::size_t>(world.size));
  MPI_Gather(&mine, 1, MPI_INT64_T, all.data(), 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
  return all;
}

// Bytes by process: before training, peak of tensors, the plan's prediction of that peak, and peak
// of the process.
struct MemoryUse {
  std::vector<std::int64_t> baseline, arena, predicted, resident;
};

// Returns the memory of all processes on the first one.
MemoryUse gather_memory_use(Bytes baseline, at::Device device, const lower::Program& program,
                            const World& world) {
  return {.baseline = gather_from_all(baseline, world),
          .arena = gather_from_all(get_peak_memory(device), world),
          .predicted = gather_from_all(predict::compute_memory(program, world.rank).peak, world),
          .resident = gather_from_all(get_peak_resident(), world)};
}

// Returns, by task, the time on the slowest process. Only the first process gets it.
std::vector<double> reduce_to_slowest(const std::vector<double>& own) {
  std::vector<double> out(own.size());
  MPI_Reduce(own.data(), out.data(), static_cast<int>(own.size()), MPI_DOUBLE, MPI_MAX, 0,
             MPI_COMM_WORLD);
  return out;
}

// Returns null if `values` is empty.
Json compute_median(std::vector<double> values) {
  if (values.empty()) return nullptr;
  std::ranges::sort(values);
  const auto n = values.size();
  return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

// A finished training, on the first process.
struct TrainingResult {
  std::int64_t first = 0;  // First step
  Measurements measured;
  MemoryUse memory;
  std::vector<std::string> slow;  // Operators without a kernel of their own
  std::vector<double> task_s;     // Seconds by task; empty: not measured
};

Json make_report(const plan::Plan& plan, const WorkerJob& job, const World& world,
                 const TrainingOptions& training, const TrainingResult& result) {
  const auto& measured = result.measured;
  Json out = {{"step_s_median", compute_median(measured.step_s)},
              {"step_s", measured.step_s},
              {"data_s", compute_median(measured.data_s)},
              {"data_s_of_steps", measured.data_s},
              {"exposed_comm_s", compute_median(measured.exposed_s)},
              {"exposed_comm_s_of_steps", measured.exposed_s},
              {"gradient_collectives", measured.overlap.started},
              {"gradient_collectives_beside_backward", measured.overlap.overlapped_with_backward},
              {"first_gradient_collective_s_of_steps", measured.first_start_s},
              {"backward_end_s_of_steps", measured.backward_end_s},
              {"loss", measured.loss},  // Printed so that it reads back unchanged
              {"first_step", result.first},
              {"checkpoints", measured.checkpoints},
              {"peak_rss_bytes", result.memory.resident},
              {"baseline_rss_bytes", result.memory.baseline},
              {"arena_bytes", result.memory.arena},
              {"predicted_arena_bytes", result.memory.predicted},
              {"without_kernel", result.slow},
              {"devices", world.size},
              {"device", job.device},
              {"threads", get_thread_count()},
              {"steps", measured.step_s.size()},
              {"dtype", name(plan.dtype)},
              {"optimizer", name(plan.optimizer)},
              {"batch", plan.batch}};
  if (job.measure) out["task_s"] = result.task_s;
  if (training.data) out["data"] = {{"path", job.data}, {"samples", training.data->samples()}};
  return out;
}

int run_profile(const WorkerJob& job, const World& world, const Deadline& deadline) {
  if (world.size < 2 && job.threads < 2) {
    throw UsageError{"--profile requires at least two processes, or --threads"};
  }
  use_threads(job.threads);
  const auto renew = [&] { deadline.renew(job.timeout.value_or(kLoading), "measuring"); };
  renew();
  const bool progress = job.progress && world.rank == 0;
  const auto measured = measure_profile(job.profile == "quick", job.threads, [&](double done) {
    renew();
    if (progress) std::cerr << fmt::format("\rmeasuring: {:.0f} % ", 100 * done) << std::flush;
  });
  if (progress) std::cerr << "\r" << std::flush;
  if (world.rank == 0) std::cout << predict::to_json(measured).dump(1) << std::endl;
  return 0;
}

void print_note(const WorkerJob& job, const World& world, const std::string& text) {
  if (world.rank != 0 || !job.notes) return;
  if (job.stream) {
    const Json line = {{"note", text}};
    std::cout << line.dump(-1, ' ', false, Json::error_handler_t::replace) << std::endl;
  } else {
    std::cerr << fmt::format("note: {}\n", text);
  }
}

// A plan and its program.
struct LoadedPlan {
  plan::Plan plan;
  std::optional<lower::Program> program;
};

LoadedPlan load_plan(const WorkerJob& job, const World& world) {
  LoadedPlan out;
  const auto text = read_on_first_rank(job.plan, world);
  run_together(world, [&] {
    out.plan = plan::parse_plan(text, job.plan);
    out.program = lower_plan(out.plan, world);
  });
  return out;
}

// Returns the seed, the learning rate and the data. Seed and rate of a checkpoint continue: the
// seed must, the rate may be changed.
TrainingOptions choose_training_options(const LoadedPlan& loaded, const WorkerJob& job,
                                        const std::optional<Manifest>& from, const World& world) {
  run_on_first_rank(world, [&] {
    if (!from || !job.seed || *job.seed == from->seed) return;
    throw UserError(
        "checkpoint", job.checkpoints,
        fmt::format("is a checkpoint of a run with seed {}, not {}", from->seed, *job.seed),
        "omit --seed to use the seed of the checkpoint");
  });
  const double usual = loaded.plan.optimizer == plan::Optimizer::kSgd ? 0.01 : 0.001;
  TrainingOptions out{.seed = from ? from->seed : job.seed.value_or(0),
                      .rate = job.rate.value_or(from ? from->rate : usual)};
  if (!job.data.empty()) {
    run_together(world, [&] {
      out.data = std::make_shared<const data::Dataset>(job.data, loaded.program->pcg, out.seed);
    });
  }
  return out;
}

// Returns where this process computes and how it communicates.
ExecutionDevice choose_execution_device(const WorkerJob& job, const World& world) {
  ExecutionDevice out;
  run_together(world, [&] { out.device = choose_device(job.device, world); });
  out.network = make_network(out.device, world);
  if (!out.device.is_cpu() && out.network == nullptr) {
    print_note(job, world,
               "several processes share a GPU, which NCCL does not support: messages go through "
               "host memory");
  }
  return out;
}

// Prints from which step a resumed run continues, and which operators are slow.
void print_notes_before_training(const WorkerJob& job, const World& world,
                                 const std::optional<Manifest>& from,
                                 const std::vector<std::string>& slow) {
  if (job.resume) {
    print_note(
        job, world,
        from ? fmt::format("resumed after {} steps from a checkpoint of {}", from->step, from->plan)
             : fmt::format("{} has no checkpoint yet: training starts from the beginning",
                           job.checkpoints));
  }
  if (!slow.empty()) {
    print_note(job, world,
               fmt::format("these operators have no kernel of their own and are slow: {}",
                           join(slow, ", ")));
  }
}

int run_plan(const WorkerJob& job, const World& world, const Deadline& deadline) {
  // --profile does not count: outside of steps each tensor gets new memory, and it would measure
  // page faults.
  count_tensor_memory();
  const auto patience = std::max(kLoading, job.timeout.value_or(0));
  deadline.renew(patience, "loading the plan");
  const auto loaded = load_plan(job, world);
  const auto& program = *loaded.program;

  std::optional<Checkpoints> checkpoints;
  std::optional<Manifest> from;
  if (!job.checkpoints.empty()) {
    checkpoints.emplace(job.checkpoints, job.resume, world, loaded.plan, program);
    if (job.resume) from = checkpoints->find_newest();
  }
  const auto training = choose_training_options(loaded, job, from, world);
  if (from) checkpoints->check_data(*from, training.data ? training.data->identity() : "");
  deadline.renew(patience, "setting up the run");
  const auto baseline = read_resident_memory();
  auto place = choose_execution_device(job, world);
  const auto device = place.device;
  Executor executor(program, world.rank, training, std::move(place));
  if (from) checkpoints->load(*from, executor);

  TrainingResult result;
  result.first = from ? from->step : 0;
  result.slow = executor.list_slow_operators();
  print_notes_before_training(job, world, from, result.slow);
  result.measured = train(executor, training, checkpoints ? &*checkpoints : nullptr, result.first,
                          job, world, deadline);
  deadline.renew(patience, "ending");
  result.memory = gather_memory_use(baseline, device, program, world);
  if (job.measure) result.task_s = reduce_to_slowest(executor.compute_task_seconds());
  if (world.rank == 0) {
    std::cout << make_report(loaded.plan, job, world, training, result).dump(1) << std::endl;
  }
  return 0;
}

// Prints how many devices of a kind this computer has, as JSON, for the program that starts
// processes.
int print_visible_devices(const std::string& kind) {
  try {
    std::cout << Json{{"devices", count_visible_devices(kind)}} << std::endl;
    return 0;
  } catch (const UserError& e) {
    print_error(e);
  }
  return 1;
}

int run_worker(std::span<char*> argv, const Deadline& deadline) {
  const auto world = World::from_mpi();
  const c10::InferenceMode no_autograd;
  use_threads(1);
  warm_up_matmuls();
  try {
    const auto job = read_job(argv, world);
    return job.profile.empty() ? run_plan(job, world, deadline) : run_profile(job, world, deadline);
  } catch (const UsageError& e) {  // Thrown on all ranks
    if (world.rank == 0) std::cerr << "tandem_worker: " << e.message << "\n" << kUsage << std::endl;
    return 2;
  } catch (const Failed&) {  // On all ranks, after the message
    return 1;
  } catch (const UserError& e) {  // Maybe on this rank alone, while others wait for it
    print_error(e);
  } catch (const c10::Error& e) {
    print_error(
        UserError("runtime", fmt::format("rank {}", world.rank), e.what_without_backtrace()));
  } catch (const std::exception& e) {
    print_error(UserError("runtime", fmt::format("rank {}", world.rank), e.what()));
  }
  MPI_Abort(MPI_COMM_WORLD, 1);
  return 1;
}

}  // namespace
}  // namespace tandem::runtime

int main(int argc, char** argv) {
  namespace runtime = tandem::runtime;
  if (argc == 3 && std::string_view(argv[1]) == "--visible")
    return runtime::print_visible_devices(argv[2]);
  runtime::tune_environment(argv);
  std::signal(SIGXFSZ, SIG_IGN);     // Makes the file size limit an error like a full disk
  const runtime::Deadline deadline;  // Covers MPI_Init and the end as well
  deadline.renew(runtime::kLoading, "starting");
  int threads = 0;  // Other threads compute or read, without MPI
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &threads);
  runtime::report_lost_files();
  const int status = runtime::run_worker(std::span(argv, static_cast<std::size_t>(argc)), deadline);
  MPI_Finalize();
  return status;
}
