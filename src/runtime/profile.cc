#include "runtime/profile.h"

#include <mpi.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <thread>

#include "ops/attributes.h"
#include "ops/registry.h"
#include "runtime/aten.h"
#include "runtime/collectives.h"
#include "runtime/half.h"
#include "runtime/kernels.h"

namespace tandem::runtime {

namespace {

using machine::DigitRole;
using machine::Layout;
using machine::Step;
using predict::MeasuredCollective;
using predict::MeasuredOperator;

constexpr std::array kTypes = {DType::kFp32, DType::kFp64, DType::kBf16};
constexpr std::int64_t kBeyondCaches = 32 << 20;  // Elements of 4 bytes

// Returns a machine of processes that share one level, like local:N.
machine::Machine make_flat_machine(std::int64_t devices) {
  machine::Machine out;
  out.levels.emplace_back().count = devices;
  return out;
}

// The extent of a profile, and the time for one measurement.
struct ProfileExtent {
  std::vector<std::int64_t> message_bytes;
  std::vector<std::vector<std::int64_t>> matmuls;  // Matmuls: rows, outputs, inputs
  Seconds budget;
};

ProfileExtent make_profile_extent(bool quick) {
  constexpr std::int64_t kKiB = 1024;
  if (quick) {
    return {.message_bytes = {4 * kKiB, 64 * kKiB, 1024 * kKiB, 16384 * kKiB, 65536 * kKiB},
            .matmuls = {{512, 512, 512}, {1024, 1024, 1024}, {64, 1024, 1024}},
            .budget = Seconds{0.05}};
  }
  ProfileExtent out{.message_bytes = {},
                    .matmuls = {{512, 512, 512},
                                {1024, 1024, 1024},
                                {2048, 2048, 2048},
                                {64, 1024, 1024},
                                {64, 4096, 1024}},
                    .budget = Seconds{0.3}};
  for (std::int64_t b = 4 * kKiB; b <= 65536 * kKiB; b *= 4) out.message_bytes.push_back(b);
  return out;
}

double reduce_to_largest(double mine) {
  double out = 0;
  MPI_Allreduce(&mine, &out, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return out;
}

double read_wall_clock() { return MPI_Wtime(); }

// Returns the CPU time of this process, which excludes what other programs take of the core.
double read_cpu_clock() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Returns the time of one call on the slowest process. It is the minimum of several measurements,
// because other programs only add time. Short calls are timed many at a time, by their mean. All
// processes make equally many calls, because they decide by the same numbers.
template <class Work>
Seconds measure_time(Seconds budget, double (*clock)(), Work&& work) {
  double spent = 0;
  const auto once = [&](double calls) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double since = read_wall_clock();
    const double start = clock();
    for (double i = 0; i < calls; ++i) work();
    const double taken = clock() - start;
    spent += reduce_to_largest(read_wall_clock() - since);
    return reduce_to_largest(taken) / calls;
  };
  constexpr double kLongEnough = 1e-3;
  constexpr double kMostCalls = 1000;
  constexpr int kFewest = 5;
  constexpr int kMost = 100;
  once(1);  // Warm-up: allocates memory
  double least = once(1);
  const double calls = std::clamp(std::ceil(kLongEnough / least), 1.0, kMostCalls);
  for (int i = 0; i < kMost && (spent < budget.value || i < kFewest); ++i) {
    if (spent > 2 * budget.value) break;
    const double time = once(calls);
    least = i == 0 ? time : std::min(least, time);
  }
  return Seconds{least};
}

class Measurement {
 public:
  Measurement(bool quick, std::int64_t threads, const std::function<void(double)>& renew)
      : extent_(make_profile_extent(quick)),
        renew_(renew),
        threads_(threads),
        rank_(get_mpi_number(MPI_Comm_rank)),
        devices_(get_mpi_number(MPI_Comm_size)),
        machine_(make_flat_machine(devices_)),
        digits_(machine_),
        collectives_(digits_, rank_) {
    if (is_alone()) extent_.message_bytes.clear();
    if (!is_alone()) {
      collectives_.prepare(digits_.all());
      collectives_.prepare(get_last_digit());
    }
    constexpr std::size_t kCollectives = 9;
    constexpr std::size_t kOthers = 4;
    steps_ = kTypes.size() * extent_.matmuls.size() + kOthers +
             kCollectives * extent_.message_bytes.size();
  }

  predict::Profile run() {
    out_.devices = devices_;
    out_.threads = threads_;
    out_.resident = get_largest_resident();
    operators();
    for (const auto bytes : extent_.message_bytes) measure_collectives(bytes);
    return std::move(out_);
  }

 private:
  [[nodiscard]] bool is_alone() const { return devices_ == 1; }

  static std::int64_t get_mpi_number(int (*of)(MPI_Comm, int*)) {
    int out = 0;
    of(MPI_COMM_WORLD, &out);
    return out;
  }

  static Bytes get_largest_resident() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return Bytes{reduce_to_largest(static_cast<double>(usage.ru_maxrss) * 1024)};
  }

  void report_progress() { renew_(static_cast<double>(++done_) / static_cast<double>(steps_)); }

  // --- Operators -------------------------------------------------------------------------------

  void operators() {
    for (const auto dtype : kTypes) {
      for (const auto& shape : extent_.matmuls) measure_linear(dtype, shape);
    }
    for (const auto dtype : {DType::kFp32, DType::kFp64}) measure_linear(dtype, {1, 1, 1});
    measure_add(kBeyondCaches, 1);
    measure_add(kBeyondCaches, devices_);
  }

  void measure_linear(DType dtype, const std::vector<std::int64_t>& shape) {
    const Shape x = {shape[0], shape[2]};
    const Shape w = {shape[1], shape[2]};
    measure_forward(
        ops::make_op(ops::kLinear, ops::LinearAttributes{}), {x, w},
        {.name = "linear", .dtype = dtype, .shape = shape, .devices = devices_, .time = {}});
  }

  void measure_add(std::int64_t elements, std::int64_t devices) {
    const Shape whole = {elements};
    measure_forward(ops::make_op(ops::kAdd, ops::NoAttributes{}), {whole, whole},
                    {.name = "add",
                     .dtype = DType::kFp32,
                     .shape = {elements},
                     .devices = devices,
                     .time = {}});
  }

  // Measures the operator on the first `devices` processes at the same time.
  void measure_forward(const ops::Op& op, const std::vector<Shape>& shapes,
                       MeasuredOperator measured) {
    Call call{.op = op, .operands = {}};
    std::vector<at::Tensor> operands;
    for (const auto& shape : shapes) {
      call.operands.push_back({.sizes = shape, .local = shape, .offset = shape});
      std::ranges::fill(call.operands.back().offset, 0);
      operands.push_back(at::full(to_aten(shape), 0.5, to_aten(measured.dtype)));
    }
    const auto& kernel = find_kernel(call);
    // Widens operands as a training step does (Executor::forward).
    const auto type = to_aten(measured.dtype);
    const bool widens =
        type == at::kBFloat16 && !takes_half(kernel) && !multiplies_half(kernel, at::kCPU);
    // Processes with one core each are timed by CPU time. With several threads, a process may wait
    // for its own threads, so wall time counts.
    const bool own_core = threads_ == 1 && devices_ <= std::thread::hardware_concurrency();
    const auto clock = own_core ? read_cpu_clock : read_wall_clock;
    measured.time = measure_time(extent_.budget, clock, [&] {
      if (rank_ >= measured.devices) return;
      if (widens) {
        convert_to_type(kernel.forward(call, widen(operands)), type);
      } else {
        kernel.forward(call, operands);
      }
    });
    out_.operators.push_back(std::move(measured));
    report_progress();
  }

  // --- Collectives -----------------------------------------------------------------------------

  [[nodiscard]] machine::DigitMask get_last_digit() const {
    return machine::bit(digits_.count() - 1);
  }

  [[nodiscard]] Layout make_uniform_layout(DigitRole role) const { return {digits_.count(), role}; }

  // Returns a nearly square matrix of about `elements` elements. All devices can split its rows and
  // its columns.
  [[nodiscard]] Shape choose_matrix_shape(double elements) const {
    const auto n = static_cast<double>(devices_);
    const auto rows = n * std::exp2(std::max(0.0, std::floor(std::log2(std::sqrt(elements) / n))));
    const auto columns = n * std::max(1.0, std::round(elements / rows / n));
    return {static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns)};
  }

  void measure_collectives(std::int64_t bytes) {
    const auto n = static_cast<double>(devices_);
    const auto elements = static_cast<double>(bytes) / get_element_size(DType::kFp32).value;
    const auto partial = make_uniform_layout(DigitRole::kPartial);
    const auto replica = make_uniform_layout(DigitRole::kReplica);
    const auto rows = make_uniform_layout(DigitRole::dim(0));
    const auto columns = make_uniform_layout(DigitRole::dim(1));
    const auto sizes = choose_matrix_shape(elements);
    measure_movements({make_movement(partial, replica, sizes)});
    measure_movements({make_movement(rows, replica, sizes)});
    measure_movements({make_movement(partial, rows, sizes)});
    measure_movements({make_movement(rows, columns, choose_matrix_shape(elements * n))});
    // The first and the last device are the root alternately, so that no process runs ahead of the
    // others.
    const auto first = make_uniform_layout(DigitRole::idle(0));
    auto last = first;
    for (std::size_t i = 0; i < digits_.count(); ++i)
      last.set(i, DigitRole::idle(digits_[i].size - 1));
    for (const auto& role : {replica, rows}) {
      measure_movements({make_movement(first, role, sizes), make_movement(last, role, sizes)});
    }
    for (const auto& role : {partial, rows}) {
      measure_movements({make_movement(role, first, sizes), make_movement(role, last, sizes)});
    }
    measure_sends(sizes);
  }

  // One collective that can be repeated. It uses one tensor after another, which together exceed
  // the caches, as the tensors of a training step do.
  struct Movement {
    machine::ReshardStep step;
    std::vector<at::Tensor> in;  // Undefined if the step begins with nothing
    Shape after;
    std::int64_t elements;  // Maximum over devices, before and after
    std::size_t next = 0;
  };

  // Returns tensors of zeros, so that repeated sums stay zero. They are written to, because memory
  // that was never written is one page of zeros.
  static std::vector<at::Tensor> make_tensors(const Shape& shape) {
    constexpr std::int64_t kMost = 256;
    std::vector<at::Tensor> out;
    const auto count = std::clamp(kBeyondCaches / shape.count(), std::int64_t{1}, kMost);
    for (std::int64_t i = 0; i < count; ++i)
      out.push_back(at::full(to_aten(shape), 0.0, at::kFloat));
    return out;
  }

  [[nodiscard]] Shape compute_shard_shape(const Layout& layout, const Shape& sizes) const {
    const auto shape = compute_parallel_shape(layout, sizes, digits_);
    CHECK(shape.has_value(), to_text(layout));
    return shape->shard_shape();
  }

  [[nodiscard]] Movement make_movement(const Layout& from, const Layout& to,
                                       const Shape& sizes) const {
    const auto steps = machine::reshard(from, to);
    CHECK(steps.size() == 1, to_text(from), to_text(to));
    const auto before = compute_shard_shape(from, sizes);
    const auto after = compute_shard_shape(to, sizes);
    const bool here = machine::holds_shard(from, digits_, rank_);
    return {.step = steps[0],
            .in = here ? make_tensors(before) : std::vector<at::Tensor>(1),
            .after = after,
            .elements = std::max(before.count(), after.count())};
  }

  void move(Movement& m) {
    // An all-reduce sums a gradient in place, as in a program, because nobody else reads it.
    const bool in_place = m.step.kind == Step::kAllReduce;
    auto& in = m.in[m.next++ % m.in.size()];
    auto out = collectives_.move(m.step, in_place ? std::move(in) : in, m.after, at::kFloat);
    if (in_place) in = std::move(out);
  }

  // Records the mean time of movements of one kind.
  void measure_movements(std::vector<Movement> movements) {
    measure_step(movements[0].step.kind, movements[0].elements,
                 static_cast<double>(movements.size()), [&] {
                   for (auto& m : movements) move(m);
                 });
  }

  // Measures sends there and back between neighbors, for all pairs at the same time.
  void measure_sends(const Shape& sizes) {
    auto here = make_uniform_layout(DigitRole::kReplica);
    auto there = here;
    here.set(digits_.count() - 1, DigitRole::idle(0));
    there.set(digits_.count() - 1, DigitRole::idle(1));
    const auto to = machine::reshard(here, there);
    const auto back = machine::reshard(there, here);
    CHECK(to.size() == 1 && back.size() == 1, to.size(), back.size());
    const auto in = make_tensors(sizes);
    std::size_t next = 0;
    const bool first = machine::holds_shard(here, digits_, rank_);
    const bool second = machine::holds_shard(there, digits_, rank_);
    measure_step(Step::kSend, sizes.count(), 2, [&] {
      const auto& tensor = in[next++ % in.size()];
      if (first) collectives_.send(to[0], tensor, 0);
      if (second) collectives_.receive(to[0], sizes, at::kFloat, 0);
      if (second) collectives_.send(back[0], tensor, 1);
      if (first) collectives_.receive(back[0], sizes, at::kFloat, 1);
      collectives_.finish();
    });
  }

  template <class Work>
  void measure_step(Step kind, std::int64_t elements, double moves, Work&& work) {
    const auto time = measure_time(extent_.budget, read_wall_clock, work) / moves;
    out_.collectives.push_back(
        {kind, static_cast<double>(elements) * get_element_size(DType::kFp32), time});
    report_progress();
  }

  ProfileExtent extent_;
  const std::function<void(double)>& renew_;
  std::int64_t threads_;
  std::int64_t rank_;
  std::int64_t devices_;
  machine::Machine machine_;
  machine::Digits digits_;
  Collectives collectives_;
  std::size_t steps_ = 0;
  std::size_t done_ = 0;
  predict::Profile out_;
};

}  // namespace

predict::Profile measure_profile(bool quick, std::int64_t threads,
                                 const std::function<void(double)>& renew) {
  return Measurement(quick, threads, renew).run();
}

}  // namespace tandem::runtime
