// tandem_worker: one process of a parallel run. mpirun starts one rank per device:
//
//   mpirun -np 2 tandem_worker plan.json --steps 10 --seed 0
//   mpirun -np 2 tandem_worker --profile quick
//
// Rank 0 prints one JSON document: losses, times and memory, or the measured profile. If a run
// fails, a rank prints one line of JSON instead, {"error": {...}}.
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
#include "runtime/arguments.h"
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

// Returns the plan's text. The first process reads it, because the others may be on other
// computers.
std::string read_plan(const std::string& path, const World& world) {
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
  return lower::lower(plan.mapped, make_digits(plan, machine), plan.optimizer);
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

// Returns, by task, the time on the slowest process. Only the first process gets it.
std::vector<double> reduce_to_slowest(const std::vector<double>& own) {
  std::vector<double> out(own.size());
  MPI_Reduce(own.data(), out.data(), static_cast<int>(own.size()), MPI_DOUBLE, MPI_MAX, 0,
             MPI_COMM_WORLD);
  return out;
}

// Returns null if `get_values` is empty.
Json compute_median(std::vector<double> values) {
  if (values.empty()) return nullptr;
  std::ranges::sort(values);
  const auto n = values.size();
  return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

Json make_report(const plan::Plan& plan, const Arguments& arguments, const World& world,
                 std::int64_t first, const Measurements& measured, const MemoryUse& memory,
                 const std::vector<std::string>& slow) {
  return {{"step_s_median", compute_median(measured.step_s)},
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
          {"first_step", first},
          {"checkpoints", measured.checkpoints},
          {"peak_rss_bytes", memory.resident},
          {"baseline_rss_bytes", memory.baseline},
          {"arena_bytes", memory.arena},
          {"predicted_arena_bytes", memory.predicted},
          {"without_kernel", slow},
          {"devices", world.size},
          {"device", arguments.device},
          {"threads", get_thread_count()},
          {"steps", measured.step_s.size()},
          {"dtype", name(plan.dtype)},
          {"optimizer", name(plan.optimizer)},
          {"batch", plan.batch}};
}

int run_profile(const Arguments& arguments, const World& world, const Deadline& deadline) {
  if (world.size < 2 && arguments.threads < 2) {
    throw UsageError{"--profile requires at least two processes, or --threads"};
  }
  use_threads(arguments.threads);
  const auto renew = [&] { deadline.renew(arguments.timeout.value_or(kLoading), "measuring"); };
  renew();
  const bool progress = arguments.progress && world.rank == 0;
  const auto measured =
      measure_profile(arguments.profile == "quick", arguments.threads, [&](double done) {
        renew();
        if (progress) std::cerr << fmt::format("\rmeasuring: {:.0f} % ", 100 * done) << std::flush;
      });
  if (progress) std::cerr << "\r" << std::flush;
  if (world.rank == 0) std::cout << predict::to_json(measured).dump(1) << std::endl;
  return 0;
}

void print_note(const Arguments& arguments, const World& world, const std::string& text) {
  if (world.rank == 0 && arguments.notes) std::cerr << fmt::format("note: {}\n", text);
}

// Returns the seed and the learning rate. Those of a checkpoint continue: the seed must, the rate
// may be changed.
TrainingOptions choose_training_options(const plan::Plan& plan, const Arguments& arguments,
                                        const std::optional<Manifest>& from, const World& world) {
  run_on_first_rank(world, [&] {
    if (!from || !arguments.seed || *arguments.seed == from->seed) return;
    throw UserError(
        "checkpoint", arguments.checkpoints,
        fmt::format("is a checkpoint of a run with seed {}, not {}", from->seed, *arguments.seed),
        "omit --seed to use the seed of the checkpoint");
  });
  const double usual = plan.optimizer == plan::Optimizer::kSgd ? 0.01 : 0.001;
  return {.seed = from ? from->seed : arguments.seed.value_or(0),
          .rate = arguments.rate.value_or(from ? from->rate : usual)};
}

int run_plan(const Arguments& arguments, const World& world, const Deadline& deadline) {
  // --profile does not count: outside of steps each tensor gets new memory, and it would measure
  // page faults.
  count_tensor_memory();
  const auto patience = std::max(kLoading, arguments.timeout.value_or(0));
  deadline.renew(patience, "loading the plan");
  plan::Plan plan;
  std::optional<lower::Program> program;
  const auto text = read_plan(arguments.plan, world);
  run_together(world, [&] {
    plan = plan::parse_plan(text, arguments.plan);
    program = lower_plan(plan, world);
  });

  std::optional<Checkpoints> checkpoints;
  std::optional<Manifest> from;
  if (!arguments.checkpoints.empty()) {
    checkpoints.emplace(arguments.checkpoints, arguments.resume, world, plan, *program);
    if (arguments.resume) from = checkpoints->find_newest();
  }
  auto training = choose_training_options(plan, arguments, from, world);
  if (!arguments.data.empty()) {
    run_together(world, [&] {
      training.data =
          std::make_shared<const data::Dataset>(arguments.data, program->pcg, training.seed);
    });
  }
  if (from) checkpoints->check_data(*from, training.data ? training.data->identity() : "");
  deadline.renew(patience, "setting up the run");
  const auto baseline = read_resident_memory();
  ExecutionDevice place;
  run_together(world, [&] { place.device = choose_device(arguments.device, world); });
  place.network = make_network(place.device, world);
  if (!place.device.is_cpu() && place.network == nullptr) {
    print_note(
        arguments, world,
        "several processes share a GPU, which NCCL does not support: messages go through host "
        "memory");
  }
  const auto device = place.device;
  Executor executor(*program, world.rank, training, std::move(place));
  if (from) checkpoints->load(*from, executor);
  const auto first = from ? from->step : 0;
  if (arguments.resume) {
    print_note(
        arguments, world,
        from ? fmt::format("resumed after {} steps from a checkpoint of {}", first, from->plan)
             : fmt::format("{} has no checkpoint yet: training starts from the beginning",
                           arguments.checkpoints));
  }
  const auto slow = executor.list_slow_operators();
  if (!slow.empty()) {
    print_note(arguments, world,
               fmt::format("these operators have no kernel of their own and are slow: {}",
                           join(slow, ", ")));
  }
  const auto measured = train(executor, training, checkpoints ? &*checkpoints : nullptr, first,
                              arguments, world, deadline);
  deadline.renew(patience, "ending");
  const MemoryUse memory{
      .baseline = gather_from_all(baseline, world),
      .arena = gather_from_all(get_peak_memory(device), world),
      .predicted = gather_from_all(predict::compute_memory(*program, world.rank).peak, world),
      .resident = gather_from_all(get_peak_resident(), world)};
  const auto tasks = arguments.measure ? reduce_to_slowest(executor.compute_task_seconds())
                                       : std::vector<double>();
  if (world.rank == 0) {
    auto out = make_report(plan, arguments, world, first, measured, memory, slow);
    if (arguments.measure) out["task_s"] = tasks;
    if (training.data) {
      out["data"] = {{"path", arguments.data}, {"samples", training.data->samples()}};
    }
    std::cout << out.dump(1) << std::endl;
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
    const auto arguments = parse_arguments(argv);
    return arguments.profile.empty() ? run_plan(arguments, world, deadline)
                                     : run_profile(arguments, world, deadline);
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
