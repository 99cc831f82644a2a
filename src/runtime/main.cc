// tandem_worker: one process of a parallel run. Started by mpirun, one rank a device:
//
//   mpirun -np 2 tandem_worker plan.json --steps 10 --seed 0
//   mpirun -np 2 tandem_worker --profile quick
//
// Rank 0 prints one JSON document: the losses, the times, the memory; or what was measured.
#include <ATen/Parallel.h>
#include <mpi.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/text.h"
#include "cost/profile.h"
#include "lower/lower.h"
#include "machine/machine.h"
#include "plan/json.h"
#include "runtime/aten.h"
#include "runtime/environment.h"
#include "runtime/executor.h"
#include "runtime/profile.h"

namespace tandem::runtime {
namespace {

using Json = nlohmann::json;

constexpr const char* kUsage =
    "usage: mpirun -np DEVICES tandem_worker PLAN.json [--steps K] [--seed S] [--lr X] "
    "[--momentum no] [--deadline SECONDS] [--progress yes|no]\n"
    "       mpirun -np DEVICES tandem_worker --profile full|quick [--deadline SECONDS] [--progress "
    "yes|no]";

struct UsageError {
  std::string message;
};

struct Arguments {
  std::string plan;
  std::string profile;  // "full" or "quick": measure, in place of a plan
  std::int64_t steps = 10;
  std::int64_t seed = 0;
  std::optional<double> rate;   // default: by optimizer
  std::int64_t deadline = 600;  // seconds for loading, and for each step or measurement
  bool progress = false;        // a line on standard error that counts them
};

Arguments parse_arguments(std::span<char*> argv) {
  Arguments out;
  for (std::size_t i = 1; i < argv.size(); ++i) {
    const std::string flag = argv[i];
    if (!flag.starts_with("-")) {
      if (!out.plan.empty()) throw UsageError{fmt::format("a second plan, '{}'", flag)};
      out.plan = flag;
      continue;
    }
    if (i + 1 == argv.size()) throw UsageError{fmt::format("{} needs a value", flag)};
    const std::string value = argv[++i];
    const auto bad = [&](const std::string& wanted) {
      return UsageError{fmt::format("{} cannot be '{}': {}", flag, value, wanted)};
    };
    const auto integer = [&](std::int64_t least) {
      const auto number = parse_int(value);
      if (!number || *number < least) throw bad(fmt::format("it is at least {}", least));
      return *number;
    };
    if (flag == "--steps") {
      out.steps = integer(1);
    } else if (flag == "--seed") {
      out.seed = integer(0);
    } else if (flag == "--deadline") {
      out.deadline = integer(1);
    } else if (flag == "--progress") {
      if (value != "yes" && value != "no") throw bad("say 'yes' or 'no'");
      out.progress = value == "yes";
    } else if (flag == "--profile") {
      if (value != "full" && value != "quick") throw bad("say 'full' or 'quick'");
      out.profile = value;
    } else if (flag == "--lr") {
      out.rate = parse_double(value);
      if (!out.rate || !(*out.rate >= 0)) throw bad("it is a number of at least 0");
    } else if (flag == "--momentum") {
      if (value != "no") throw bad("there is none, say 'no'");
    } else {
      throw UsageError{fmt::format("there is no flag {}", flag)};
    }
  }
  if (out.plan.empty() == out.profile.empty()) throw UsageError{"give a plan or --profile"};
  return out;
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw UserError("file", path, "cannot be read");
  return {std::istreambuf_iterator<char>(in), {}};
}

struct World {
  int rank = 0;
  int size = 1;
};

void print_error(const std::string& kind, const std::string& where, const std::string& message,
                 const std::string& hint) {
  const Json error = {
      {"error", {{"kind", kind}, {"where", where}, {"message", message}, {"hint", hint}}}};
  const auto text = error.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  std::fputs(text.c_str(), stderr);
  std::fflush(stderr);
}

// A process that waits for one that is lost would wait for ever: MPI knows no deadlines. An alarm
// ends this process, and mpirun then the others.
extern "C" void deadline_passed(int) {
  constexpr std::string_view kText =
      R"({"error":{"hint":"give it more time by --deadline","kind":"runtime",)"
      R"("message":"a step did not end in time","where":"tandem_worker"}})"
      "\n";
  if (write(STDERR_FILENO, kText.data(), kText.size()) < 0) _exit(3);
  _exit(1);
}

class Deadline {
 public:
  explicit Deadline(std::int64_t seconds) : seconds_(static_cast<unsigned>(seconds)) {
    std::signal(SIGALRM, deadline_passed);
    renew();
  }
  ~Deadline() { alarm(0); }
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;
  void renew() const { alarm(seconds_); }

 private:
  unsigned seconds_;
};

// Runs `work` on all ranks. True if all succeeded; if not, the first rank that failed has said why.
template <class Work>
bool all_succeed(const World& world, Work&& work) {
  std::optional<UserError> error;
  try {
    work();
  } catch (const UserError& e) {
    error = e;
  } catch (const std::exception& e) {
    error = UserError("runtime", fmt::format("rank {}", world.rank), e.what());
  }
  int mine = error ? world.rank : world.size;
  int first = 0;
  MPI_Allreduce(&mine, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  if (error && first == world.rank) {
    print_error(error->kind, error->where, error->message, error->hint);
  }
  return first == world.size;
}

lower::Program load(const plan::Plan& plan, const World& world) {
  const auto machine = machine::load_machine(plan.machine);
  if (machine.devices() != world.size) {
    throw UserError("plan", "mpirun",
                    fmt::format("the plan is for {} devices ({}) and {} processes run",
                                machine.devices(), plan.machine, world.size),
                    fmt::format("start it with mpirun -np {}", machine.devices()));
  }
  return lower::lower(plan.mapped, digits_of(plan, machine), plan.optimizer);
}

double over_ranks(double value, MPI_Op op) {
  double out = 0;
  MPI_Allreduce(&value, &out, 1, MPI_DOUBLE, op, MPI_COMM_WORLD);
  return out;
}

struct Measurements {
  std::vector<double> step_s;
  std::vector<double> loss;
};

Measurements train(Executor& executor, std::int64_t steps, const Deadline& deadline,
                   bool progress) {
  Measurements out;
  for (std::int64_t step = 0; step < steps; ++step) {
    if (progress) std::cerr << fmt::format("\rstep {} of {} ", step + 1, steps) << std::flush;
    deadline.renew();
    executor.feed(step);
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    executor.run();
    out.step_s.push_back(over_ranks(MPI_Wtime() - start, MPI_MAX));
    out.loss.push_back(over_ranks(executor.loss(), MPI_SUM));
  }
  if (progress) std::cerr << "\r" << std::flush;
  return out;
}

std::vector<std::int64_t> peak_memory(const World& world) {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const std::int64_t mine = usage.ru_maxrss * 1024;
  std::vector<std::int64_t> all(static_cast<std::size_t>(world.size));
  MPI_Gather(&mine, 1, MPI_INT64_T, all.data(), 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
  return all;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const auto n = values.size();
  return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

Json report(const plan::Plan& plan, const World& world, const Measurements& measured,
            const std::vector<std::int64_t>& memory, const std::vector<std::string>& slow) {
  return {{"step_s_median", median(measured.step_s)},
          {"step_s", measured.step_s},
          {"loss", measured.loss},  // printed so that it reads back the same
          {"peak_rss_bytes", memory},
          {"without_kernel", slow},
          {"devices", world.size},
          {"steps", measured.step_s.size()},
          {"dtype", name(plan.dtype)},
          {"optimizer", name(plan.optimizer)},
          {"batch", plan.batch}};
}

int profile(const Arguments& arguments, const World& world) {
  if (world.size < 2) throw UsageError{"--profile needs at least two processes"};
  const Deadline deadline(arguments.deadline);
  const bool progress = arguments.progress && world.rank == 0;
  const auto measured = measure(arguments.profile == "quick", [&](double done) {
    deadline.renew();
    if (progress) std::cerr << fmt::format("\rmeasuring: {:.0f} % ", 100 * done) << std::flush;
  });
  if (progress) std::cerr << "\r" << std::flush;
  if (world.rank == 0) std::cout << cost::to_json(measured).dump(1) << std::endl;
  return 0;
}

int run_plan(const Arguments& arguments, const World& world) {
  const Deadline deadline(arguments.deadline);
  plan::Plan plan;
  std::optional<lower::Program> program;
  const bool loaded = all_succeed(world, [&] {
    plan = plan::parse_plan(read_file(arguments.plan), arguments.plan);
    program = load(plan, world);
  });
  if (!loaded) return 1;

  const double default_rate = plan.optimizer == plan::Optimizer::kSgd ? 0.01 : 0.001;
  const Training training{.seed = static_cast<std::uint64_t>(arguments.seed),
                          .rate = arguments.rate.value_or(default_rate)};
  Executor executor(*program, world.rank, training);
  const auto slow = executor.slow_operators();
  if (!slow.empty() && world.rank == 0) {
    std::cerr << fmt::format("note: without kernels of their own, and slow: {}\n",
                             join(slow, ", "));
  }
  const auto measured =
      train(executor, arguments.steps, deadline, arguments.progress && world.rank == 0);
  const auto memory = peak_memory(world);
  if (world.rank == 0)
    std::cout << report(plan, world, measured, memory, slow).dump(1) << std::endl;
  return 0;
}

int start(std::span<char*> argv) {
  World world;
  MPI_Comm_rank(MPI_COMM_WORLD, &world.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world.size);
  const c10::InferenceMode no_autograd;
  at::set_num_threads(1);
  try {
    const auto arguments = parse_arguments(argv);
    return arguments.profile.empty() ? run_plan(arguments, world) : profile(arguments, world);
  } catch (const UsageError& e) {  // the same on all ranks
    if (world.rank == 0) std::cerr << "tandem_worker: " << e.message << "\n" << kUsage << std::endl;
    return 2;
  } catch (const UserError& e) {  // perhaps on this rank alone: the others may wait for it
    print_error(e.kind, e.where, e.message, e.hint);
  } catch (const c10::Error& e) {
    print_error("runtime", fmt::format("rank {}", world.rank), e.what_without_backtrace(), "");
  } catch (const std::exception& e) {
    print_error("runtime", fmt::format("rank {}", world.rank), e.what(), "");
  }
  MPI_Abort(MPI_COMM_WORLD, 1);
  return 1;
}

}  // namespace
}  // namespace tandem::runtime

int main(int argc, char** argv) {
  tandem::runtime::tune_environment(argv);
  MPI_Init(&argc, &argv);
  const int status = tandem::runtime::start(std::span(argv, static_cast<std::size_t>(argc)));
  MPI_Finalize();
  return status;
}
