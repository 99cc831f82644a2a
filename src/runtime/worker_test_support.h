// Support for tests: small handwritten plans, and runs of tandem_worker under mpirun.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <type_traits>
#include <vector>

#include "graph/graph.h"
#include "machine/machine.h"
#include "ops/attributes.h"
#include "ops/registry.h"
#include "plan/json.h"
#include "plan/parallelize.h"

namespace tandem::runtime {

namespace fs = std::filesystem;
using graph::Graph;
using graph::GraphBuilder;
using plan::Optimizer;

// The use of each mesh axis factor, by node. For an operator it is the name of a factor, "replica",
// "idle" or "through0"; for a source it is the text of a layout. Other nodes are replicated.
using Spread = std::map<std::string, std::vector<std::string>>;

inline machine::DigitUse parse_use(const ops::Signature& s, const std::string& text) {
  if (text == "replica") return machine::DigitUse::kReplica;
  if (text == "idle") return machine::DigitUse::kIdle;
  if (text.starts_with("through")) {
    return machine::DigitUse::through(static_cast<std::size_t>(text.back() - '0'));
  }
  const int f = s.map.find(text);
  CHECK(f >= 0, text);
  return machine::DigitUse::factor(static_cast<ops::FactorId>(f));
}

inline std::vector<plan::Choice> choices(const Graph& model, std::size_t digits,
                                         const Spread& spread) {
  std::vector<plan::Choice> out(model.size());
  std::size_t found = 0;
  for (auto id : model.ids()) {
    const auto& node = model.node(id);
    auto& choice = out[id.index()];
    const auto at = spread.find(node.name);
    found += at == spread.end() ? 0U : 1U;
    if (node.op.role() == ops::Role::kSource) {
      choice.source = machine::Layout(digits, machine::DigitRole::kReplica);
      if (at != spread.end()) choice.source = *machine::parse_layout(at->second[0]);
      continue;
    }
    std::vector<Shape> shapes;
    for (const auto& t : model.input_types(id)) shapes.push_back(t.shape.sizes);
    const auto s = ops::get_signature(node.op, shapes);
    for (std::size_t i = 0; i < digits; ++i) {
      choice.node.uses[i] =
          at == spread.end() ? machine::DigitUse::kReplica : parse_use(s, at->second[i]);
    }
  }
  CHECK(found == spread.size());
  return out;
}

struct Output {
  int status = 0;
  std::string out, err;
};

inline std::string read(const fs::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

class Scratch {
 public:
  explicit Scratch(const std::string& name = "train_test")
      : path_(fs::temp_directory_path() / fmt::format("tandem_{}_{}", name, getpid())) {
    fs::create_directories(path_);
  }
  ~Scratch() { fs::remove_all(path_); }
  [[nodiscard]] std::string file(const std::string& name) const { return (path_ / name).string(); }

 private:
  fs::path path_;
};

// Writes an array to `directory` for --data, like numpy.save.
template <class T>
void write_array(const Scratch& directory, const std::string& name, const Shape& sizes,
                 const std::vector<T>& values) {
  CHECK(static_cast<std::int64_t>(values.size()) == sizes.count(), name);
  std::string dims;
  for (auto n : sizes) dims += fmt::format("{}, ", n);
  auto header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}",
                            std::is_integral_v<T> ? "<i8" : "<f8", dims);
  static_assert(sizeof(T) == 8);
  header.resize(117, ' ');
  std::ofstream out(directory.file(name + ".npy"), std::ios::binary);
  out << std::string("\x93NUMPY\x01\x00\x76\x00", 10) << header << '\n';
  out.write(reinterpret_cast<const char*>(values.data()),
            static_cast<std::streamsize>(values.size() * sizeof(T)));
}

// Sets the environment as the worker would, so that it need not start again.
inline constexpr const char* kTuned =
    "TANDEM_WORKER_ENVIRONMENT=tuned OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 "
    "OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_mpi_yield_when_idle=1 ";

// Runs the worker; `under` is a program that starts it.
inline Output start(const Scratch& scratch, int processes, const std::string& arguments,
                    const std::string& environment = "", const std::string& under = "") {
  const auto worker = fs::read_symlink("/proc/self/exe").parent_path() / "tandem_worker";
  const auto command = fmt::format(
      "{}mpirun --allow-run-as-root --oversubscribe --bind-to none --timeout 120 -np {} {} {} {} "
      ">{} 2>{}",
      environment, processes, under, worker.string(), arguments, scratch.file("out"),
      scratch.file("err"));
  const int status = std::system(command.c_str());
  return {WEXITSTATUS(status), read(scratch.file("out")), read(scratch.file("err"))};
}

// Runs the test `name` of this program again, in `processes` processes at once.
inline void run_ranks(int processes, const std::string& name) {
  const auto program = fs::read_symlink("/proc/self/exe").string();
  const auto command = fmt::format(
      "{}mpirun --allow-run-as-root --oversubscribe --bind-to none --timeout 300 -np {} {} "
      "--gtest_filter={} --gtest_also_run_disabled_tests",
      kTuned, processes, program, name);
  EXPECT_EQ(std::system(command.c_str()), 0);
}

inline plan::Plan make_plan(const Graph& model, const std::string& machine, const Spread& spread,
                            Optimizer optimizer, DType dtype = DType::kFp64) {
  const machine::Digits digits(machine::load_machine(machine));
  plan::Plan plan;
  plan.model = model.name();
  plan.machine = machine;
  plan.strategy = "by hand";
  for (auto id : model.ids()) {
    const auto& node = model.node(id);
    if (is_input(node) && node.type.shape.rank() > 0) plan.batch = node.type.shape.sizes[0];
  }
  plan.optimizer = optimizer;
  plan.dtype = dtype;
  plan.mapped = plan::parallelize(model, digits, choices(model, digits.count(), spread));
  return plan;
}

inline constexpr auto kType = DType::kFp64;

// Returns x -> relu(linear) -> linear + bias -> mse.
inline Graph mlp(DType type = kType) {
  GraphBuilder b("mlp");
  const auto x = b.input("x", {8, 12}, type);
  const auto target = b.input("target", {8, 4}, type);
  const auto w1 = b.weight("w1", {16, 12}, type);
  const auto b1 = b.weight("b1", {16}, type);
  const auto w2 = b.weight("w2", {4, 16}, type);
  const auto relu = ops::make_op(ops::kLinear, ops::LinearAttributes{ops::Activation::kRelu});
  const auto h = b.add(relu, {x, w1, b1}, "h");
  const auto y = b.add(ops::kLinear, {h, w2}, "y");
  return b.finish({b.add(ops::kMse, {y, target}, "loss")});
}

inline const Spread kDataParallel = {
    {"x", {"0"}}, {"target", {"0"}}, {"h", {"d0"}}, {"y", {"d0"}}, {"loss", {"d0"}}};
// Column-parallel w1 and row-parallel w2, with one all-reduce.
inline const Spread kMegatron = {
    {"w1", {"0"}}, {"b1", {"0"}}, {"w2", {"1"}}, {"h", {"n"}}, {"y", {"k"}}};

}  // namespace tandem::runtime
