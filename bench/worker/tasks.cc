// Measures the time that the runtime adds to its kernels, on one thread of this computer:
//
//   tasks      a step of a deep MLP of small layers by the executor and, alternately, the same
//              ATen calls in a plain loop: microseconds per task in addition to its kernel
//   products   the matmul, as linear layers call it, and, alternately, oneDNN's on the same
//              shapes: the faster one with weights as they are or in a layout that oneDNN chooses,
//              without the time of the conversion
//
// Prints JSON. bench/runtime starts it. Times are the thread's own, so that other programs count
// little.
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lower/lower.h"
#include "machine/machine.h"
#include "models/model.h"
#include "plan/parallelize.h"
#include "runtime/aten.h"
#include "runtime/environment.h"
#include "runtime/executor.h"
#ifdef TANDEM_HAS_DNNL
#include "runtime/onednn.h"
#endif
#include "runtime/matmul.h"
#include "strategies/grid.h"

namespace tandem::runtime {
namespace {

using Json = nlohmann::json;

double get_thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double compute_median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

// Returns the seconds that `work` takes on average over `times` rounds; `ready` prepares each
// round.
template <class Ready, class Work>
double measure_seconds(int times, Ready&& ready, Work&& work) {
  double sum = 0;
  for (int i = 0; i < times; ++i) {
    ready();
    const auto begin = get_thread_seconds();
    work();
    sum += get_thread_seconds() - begin;
  }
  return sum / times;
}

void do_nothing() {}

// Runs both functions alternately, and returns the medians of the seconds that they return. The
// first round is not counted.
template <class First, class Second>
std::pair<double, double> measure_alternately(int rounds, First&& first, Second&& second) {
  std::vector<double> a;
  std::vector<double> b;
  for (int round = 0; round <= rounds; ++round) {
    const auto one = first();
    const auto other = second();
    if (round == 0) continue;
    a.push_back(one);
    b.push_back(other);
  }
  return {compute_median(a), compute_median(b)};
}

// --- Tasks --------------------------------------------------------------------------------------

constexpr std::int64_t kBatch = 4;

// A handwritten loop of the step that the executor runs.
class Loop {
 public:
  Loop(std::int64_t layers, std::int64_t width) {
    for (std::int64_t i = 0; i < layers; ++i)
      weights_.push_back(at::rand({width, width}).mul_(0.1));
    x_ = at::rand({kBatch, width});
    target_ = at::rand({kBatch, width});
  }

  void step() {
    const auto layers = weights_.size();
    std::vector<at::Tensor> made = {x_};
    for (std::size_t i = 0; i < layers; ++i) {
      auto out = at::mm(made.back().reshape({-1, made.back().size(-1)}), weights_[i].t());
      made.push_back(i + 1 < layers ? at::relu(out.view({kBatch, -1})) : out);
    }
    const auto scale = 1 / static_cast<double>(target_.numel());
    loss_ = at::mse_loss(made.back(), target_, at::Reduction::Sum).mul_(scale).item<double>();
    const auto seed = at::full({}, 1.0);
    auto g = at::sub(made.back(), target_).mul_(at::mul(seed, 2 * scale));
    std::vector<at::Tensor> gradients(layers);
    for (auto i = layers; i-- > 0;) {
      if (i + 1 < layers) g = at::threshold_backward(g, made[i + 1], 0);
      gradients[i] = at::mm(g.t(), made[i].reshape({-1, made[i].size(-1)}));
      if (i > 0) g = at::mm(g, weights_[i]).view({kBatch, -1});
    }
    for (std::size_t i = 0; i < layers; ++i) weights_[i].sub_(gradients[i], 0.01);
  }

 private:
  std::vector<at::Tensor> weights_;
  at::Tensor x_, target_;
  double loss_ = 0;
};

Json measure_tasks(std::int64_t layers, std::int64_t width) {
  const auto name = fmt::format("mlp:layers={0},hidden={1},inputs={1},outputs={1}", layers, width);
  const auto model = models::parse_model(name).build(kBatch, DType::kFp32);
  const auto machine = machine::load_machine("local:1");
  const machine::Digits digits(machine);
  const auto made = strategies::make_named_strategies("dp", model, digits).front();
  const auto mapped = plan::parallelize(model, digits, made.choices, made.schedule);
  const auto program = lower::lower(mapped, digits, machine.device.software, plan::Optimizer::kSgd);
  Executor executor(program, 0, TrainingOptions{});
  Loop loop(layers, width);
  constexpr int kSteps = 20;
  // A step consumes its inputs.
  const auto [ours, plain] = measure_alternately(
      31,
      [&] {
        return measure_seconds(
            kSteps, [&] { executor.feed(0); }, [&] { executor.run(); });
      },
      [&] { return measure_seconds(kSteps, do_nothing, [&] { loop.step(); }); });
  const auto count = static_cast<double>(program.tasks.size());
  return {{"model", name},
          {"tasks", program.tasks.size()},
          {"step_us", 1e6 * ours},
          {"plain_step_us", 1e6 * plain},
          {"us_a_task_beyond_kernels", 1e6 * (ours - plain) / count}};
}

// --- Matmuls ------------------------------------------------------------------------------------

struct MatmulSize {
  std::int64_t rows, inputs, outputs;
};

#ifdef TANDEM_HAS_DNNL
// x [rows, inputs] times the transpose of w [outputs, inputs].
class OneDnnMatmul {
 public:
  OneDnnMatmul(const MatmulSize& p, const at::Tensor& x, const at::Tensor& w, bool chooses_layout)
      : out_(at::empty({p.rows, p.outputs})) {
    using Memory = dnnl::memory;
    using Tag = Memory::format_tag;
    constexpr auto kFloat = Memory::data_type::f32;
    const Memory::desc from({p.rows, p.inputs}, kFloat, Tag::ab);
    const Memory::desc to({p.rows, p.outputs}, kFloat, Tag::ab);
    const Memory::desc weight({p.inputs, p.outputs}, kFloat, Tag::ba);
    const Memory::desc any({p.inputs, p.outputs}, kFloat, Tag::any);
    const auto chosen = runtime::make_matmul_description(
        {.a = from, .b = chooses_layout ? any : weight, .out = to}, engine_);
    Memory given(weight, engine_, w.data_ptr());
    Memory packed(chosen.weights_desc(), engine_);
    dnnl::reorder(given, packed).execute(stream_, given, packed);
    stream_.wait();
    matmul_ = dnnl::matmul(chosen);
    arguments_ = {{DNNL_ARG_SRC, Memory(from, engine_, x.data_ptr())},
                  {DNNL_ARG_WEIGHTS, packed},
                  {DNNL_ARG_DST, Memory(to, engine_, out_.data_ptr())}};
  }
  void run() {
    matmul_.execute(stream_, arguments_);
    stream_.wait();
  }
  [[nodiscard]] const at::Tensor& result() const { return out_; }

 private:
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  at::Tensor out_;
  dnnl::matmul matmul_;
  std::unordered_map<int, dnnl::memory> arguments_;
};

Json measure_matmuls() {
  constexpr std::array kMatmulSizes = {MatmulSize{64, 2048, 2048},  MatmulSize{128, 2048, 1024},
                                       MatmulSize{64, 8192, 1024},  MatmulSize{1024, 512, 2048},
                                       MatmulSize{1024, 2048, 512}, MatmulSize{256, 512, 512}};
  Json out = Json::array();
  for (const auto& p : kMatmulSizes) {
    const auto x = at::rand({p.rows, p.inputs});
    const auto w = at::rand({p.outputs, p.inputs});
    double ours_s = std::numeric_limits<double>::infinity();
    double theirs_s = ours_s;
    for (const bool chooses_layout : {false, true}) {
      OneDnnMatmul theirs(p, x, w, chooses_layout);
      at::Tensor made;
      const auto [one, other] = measure_alternately(
          7,
          [&] { return measure_seconds(1, do_nothing, [&] { made = compute_matmul(x, w.t()); }); },
          [&] { return measure_seconds(1, do_nothing, [&] { theirs.run(); }); });
      ours_s = std::min(ours_s, one);
      theirs_s = std::min(theirs_s, other);
      const auto size = made.abs().max().item<double>();
      CHECK((made - theirs.result()).abs().max().item<double>() <= 1e-4 * size);
    }
    const double operations = 2.0 * static_cast<double>(p.rows * p.inputs * p.outputs);
    out.push_back({{"rows", p.rows},
                   {"inputs", p.inputs},
                   {"outputs", p.outputs},
                   {"gflops", operations / ours_s / 1e9},
                   {"onednn_gflops", operations / theirs_s / 1e9},
                   {"ratio", theirs_s / ours_s}});
  }
  return out;
}
#else
Json measure_matmuls() { return nullptr; }  // built without oneDNN
#endif

}  // namespace
}  // namespace tandem::runtime

int main(int argc, char** argv) {
  using namespace tandem::runtime;
  tune_environment(argv);
  MPI_Init(&argc, &argv);
  {
    const c10::InferenceMode no_autograd;
    at::set_num_threads(1);
    const Json out = {{"tasks", {measure_tasks(50, 8), measure_tasks(50, 64)}},
                      {"products", measure_matmuls()}};
    std::cout << out.dump(1) << std::endl;
  }
  MPI_Finalize();
  return 0;
}
