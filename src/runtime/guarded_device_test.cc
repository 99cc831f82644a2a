#include "runtime/aten.h"
#include "runtime/group_collectives.h"
#include "runtime/guarded_device_test_support.h"

#pragma push_macro("CHECK")
#undef CHECK
#include <ATen/EmptyTensor.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>
#undef CHECK
#pragma pop_macro("CHECK")

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <set>
#include <utility>

namespace tandem::runtime {

namespace {

constexpr auto kType = c10::DeviceType::PrivateUse1;

// --- Memory -------------------------------------------------------------------------------------

// Returns the pages of each tensor's own memory. They are inaccessible except while they are
// copied.
std::map<void*, std::size_t>& pages() {
  static std::map<void*, std::size_t> all;
  return all;
}

void release(void* memory) {
  if (memory == nullptr) return;
  munmap(memory, pages().at(memory));
  pages().erase(memory);
}

class Opened {
 public:
  explicit Opened(const at::Tensor& t) {
    if (t.is_cpu()) return;
    memory_ = t.storage().data_ptr().get();
    if (memory_ != nullptr) set(PROT_READ | PROT_WRITE);
  }
  ~Opened() {
    if (memory_ != nullptr) set(PROT_NONE);
  }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;

 private:
  void set(int access) const { mprotect(memory_, pages().at(memory_), access); }
  void* memory_ = nullptr;
};

// One of the two `allocate` functions overrides the library's; which one depends on its version.
struct GuardedAllocator final : c10::Allocator {
  c10::DataPtr allocate(std::size_t bytes) const { return get(bytes); }
  c10::DataPtr allocate(std::size_t bytes) { return get(bytes); }
  c10::DeleterFnPtr raw_deleter() const override { return release; }
  void copy_data(void* to, const void* from, std::size_t bytes) const {
    std::memcpy(to, from, bytes);
  }

 private:
  static c10::DataPtr get(std::size_t bytes) {
    void* memory = nullptr;
    if (bytes > 0) {
      const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
      const auto size = (bytes + page - 1) / page * page;
      memory = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      CHECK(memory != MAP_FAILED, bytes);
      pages()[memory] = size;
    }
    return {memory, memory, release, guarded_device()};
  }
};

GuardedAllocator* allocator() {
  static GuardedAllocator out;
  return &out;
}

// Returns the same memory as a CPU tensor.
at::Tensor seen(const at::Tensor& t) {
  if (t.is_cpu()) return t;
  return at::from_blob(t.data_ptr(), t.sizes(), t.strides(), t.options().device(at::kCPU));
}

// --- Functions that libtorch needs of a device ---------------------------------------------------

at::Tensor empty(at::IntArrayRef sizes, c10::optional<at::ScalarType> type,
                 c10::optional<at::Layout> /*layout*/, c10::optional<at::Device> /*device*/,
                 c10::optional<bool> /*pinned*/, c10::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(sizes, allocator(),
                                   c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                   type.value_or(at::kFloat), format);
}

at::Tensor empty_strided(at::IntArrayRef sizes, at::IntArrayRef strides,
                         c10::optional<at::ScalarType> type, c10::optional<at::Layout> /*layout*/,
                         c10::optional<at::Device> /*device*/, c10::optional<bool> /*pinned*/) {
  return at::detail::empty_strided_generic(sizes, strides, allocator(),
                                           c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                           type.value_or(at::kFloat));
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool /*non_blocking*/) {
  const Opened from_open(from);
  const Opened to_open(to);
  seen(to).copy_(seen(from));
  return to;
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  if (from.sizes() != to.sizes()) {
    const auto fresh = at::empty(from.sizes(), to.options());
    to.unsafeGetTensorImpl()->set_storage_keep_dtype(fresh.storage());
    to.unsafeGetTensorImpl()->set_sizes_and_strides(fresh.sizes(), fresh.strides());
  }
  return copy_from(from, to, false);
}

at::Tensor here(const at::Tensor& t) { return t.defined() ? t.to(at::kCPU) : t; }
at::Tensor there(const at::Tensor& t) { return t.defined() ? t.to(guarded_device()) : t; }

at::Tensor convolution(const at::Tensor& x, const at::Tensor& w,
                       const c10::optional<at::Tensor>& bias, at::IntArrayRef stride,
                       at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
                       at::IntArrayRef output_padding, std::int64_t groups) {
  return there(at::convolution(here(x), here(w), here(bias.value_or(at::Tensor())), stride, padding,
                               dilation, transposed, output_padding, groups));
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward(
    const at::Tensor& g, const at::Tensor& x, const at::Tensor& w, at::IntArrayRef stride,
    at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
    at::IntArrayRef output_padding, std::int64_t groups, std::array<bool, 3> wanted) {
  const auto [of_x, of_w, of_bias] =
      at::convolution_backward(here(g), here(x), here(w), c10::nullopt, stride, padding, dilation,
                               transposed, output_padding, groups, wanted);
  return {there(of_x), there(of_w), there(of_bias)};
}

// Executes all other operators on the CPU. Scalar tensors may be on any device.
void by_processor(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  for (const auto& value : torch::jit::last(*stack, op.schema().arguments().size())) {
    if (!value.isTensor()) continue;
    const auto& t = value.toTensor();
    TORCH_CHECK(!t.defined() || t.dim() == 0 || !t.is_cpu(), op.schema().name(),
                ": an operand is in the computer's memory, and others are not");
  }
  at::native::cpu_fallback(op, stack);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("empty.memory_format", empty);
  library.impl("empty_strided", empty_strided);
  library.impl("_copy_from", copy_from);
  library.impl("_copy_from_and_resize", copy_from_and_resize);
  library.impl("view", at::native::view);
  library.impl("as_strided", at::native::as_strided_tensorimpl);
  library.impl("_reshape_alias", at::native::_reshape_alias);
  library.impl("convolution_overrideable", convolution);
  library.impl("convolution_backward_overrideable", convolution_backward);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&by_processor>());
}

using DeviceGuard = c10::impl::NoOpDeviceGuardImpl<kType>;
C10_REGISTER_GUARD_IMPL(PrivateUse1, DeviceGuard);

// --- A network ----------------------------------------------------------------------------------

template <class Work>
Mark run_on_copies(const at::Tensor& from, const at::Tensor& to, const Work& work) {
  const auto in = from.defined() ? from.to(at::kCPU) : at::Tensor();
  const auto out = to.defined() ? to.to(at::kCPU) : at::Tensor();
  work(in.defined() ? in.data_ptr() : nullptr, out.defined() ? out.data_ptr() : nullptr);
  if (to.defined()) to.copy_(out);
  return std::make_shared<int>();
}

MPI_Datatype to_mpi_type(const at::Tensor& t) {
  return t.scalar_type() == at::kDouble ? MPI_DOUBLE : MPI_BYTE;
}

int count_elements(const at::Tensor& t) {
  return static_cast<int>(t.scalar_type() == at::kDouble
                              ? t.numel()
                              : t.numel() * static_cast<std::int64_t>(t.element_size()));
}

class GuardedChannel final : public DeviceChannel {
 public:
  explicit GuardedChannel(MPI_Comm comm) : comm_(comm) {}

  Mark sum(const at::Tensor& from, const at::Tensor& to) override {
    return run_on_copies(from, to, [&](void* in, void* out) {
      MPI_Allreduce(in, out, count_elements(from), to_mpi_type(from), MPI_SUM, comm_);
    });
  }
  Mark sum_to(const at::Tensor& from, const at::Tensor& to, int root) override {
    return run_on_copies(from, to, [&](void* in, void* out) {
      MPI_Reduce(in, out, count_elements(from), to_mpi_type(from), MPI_SUM, root, comm_);
    });
  }
  Mark sum_of_row(const at::Tensor& from, const at::Tensor& to) override {
    return run_on_copies(from, to, [&](void* in, void* out) {
      MPI_Reduce_scatter_block(in, out, count_elements(to), to_mpi_type(to), MPI_SUM, comm_);
    });
  }
  Mark gather(const at::Tensor& from, const at::Tensor& to) override {
    return run_on_copies(from, to, [&](void* in, void* out) {
      MPI_Allgather(in, count_elements(from), to_mpi_type(from), out, count_elements(from),
                    to_mpi_type(from), comm_);
    });
  }
  Mark gather_to(const at::Tensor& from, const at::Tensor& to, int root) override {
    return run_on_copies(from, to, [&](void* in, void* out) {
      MPI_Gather(in, count_elements(from), to_mpi_type(from), out, count_elements(from),
                 to_mpi_type(from), root, comm_);
    });
  }
  Mark broadcast(const at::Tensor& tensor, int root) override {
    return run_on_copies({}, tensor, [&](void*, void* out) {
      MPI_Bcast(out, count_elements(tensor), to_mpi_type(tensor), root, comm_);
    });
  }
  Mark scatter(const at::Tensor& from, const at::Tensor& to, int root) override {
    return run_on_copies(from, to, [&](void* in, void* out) {
      MPI_Scatter(in, count_elements(to), to_mpi_type(to), out, count_elements(to), to_mpi_type(to),
                  root, comm_);
    });
  }
  Mark exchange(const at::Tensor& from, const Lengths& gives, const at::Tensor& to,
                const Lengths& takes) override {
    CHECK(from.scalar_type() == at::kDouble);
    const MpiLengths given(gives);
    const MpiLengths taken(takes);
    return run_on_copies(from, to, [&](void* in, void* out) {
      MPI_Alltoallv(in, given.of.data(), given.before.data(), MPI_DOUBLE, out, taken.of.data(),
                    taken.before.data(), MPI_DOUBLE, comm_);
    });
  }

 private:
  MPI_Comm comm_;
};

class GuardedNetwork final : public DeviceNetwork {
 public:
  std::unique_ptr<DeviceChannel> over(MPI_Comm comm) override {
    return std::make_unique<GuardedChannel>(comm);
  }
  void connect(int from, int to) override { connections_.insert({from, to}); }
  Mark send(const at::Tensor& tensor, int to) override {
    const auto in = tensor.to(at::kCPU);
    sent_.emplace_back(in, MPI_REQUEST_NULL);
    MPI_Isend(in.data_ptr(), count_elements(in), to_mpi_type(in), to, 0, MPI_COMM_WORLD,
              &sent_.back().second);
    return std::make_shared<int>();
  }
  Mark receive(const at::Tensor& tensor, int from) override {
    return run_on_copies({}, tensor, [&](void*, void* out) {
      MPI_Recv(out, count_elements(tensor), to_mpi_type(tensor), from, 0, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
    });
  }
  [[nodiscard]] bool is_over(const Mark& /*mark*/) const override { return true; }
  void await(const Mark& mark) override { CHECK(mark != nullptr); }
  void finish() override {
    for (auto& [tensor, request] : sent_) MPI_Wait(&request, MPI_STATUS_IGNORE);
    sent_.clear();
  }
  [[nodiscard]] double waited() const override { return 0; }

 private:
  std::set<std::pair<int, int>> connections_;
  std::vector<std::pair<at::Tensor, MPI_Request>> sent_;
};

}  // namespace

at::Device guarded_device() { return {kType, 0}; }

std::unique_ptr<DeviceNetwork> make_guarded_network() { return std::make_unique<GuardedNetwork>(); }

namespace {

TEST(GuardedDevice, ComputesLikeTheCpu) {
  const auto x = at::arange(12, at::kDouble).view({3, 4});
  const auto y = x.to(guarded_device());
  EXPECT_FALSE(y.is_cpu());
  const auto matmul = at::mm(y.narrow(0, 1, 2), y.t().contiguous()).add_(1);
  EXPECT_TRUE(matmul.to(at::kCPU).equal(at::mm(x.narrow(0, 1, 2), x.t()).add_(1)));
}

TEST(GuardedDevice, RefusesOperandsOnOtherDevices) {
  const auto x = at::ones({3, 4}, at::kDouble);
  EXPECT_THROW(at::mm(x.to(guarded_device()), x.t()), c10::Error);
}

TEST(GuardedDeviceDeathTest, RefusesDirectReads) {
  const auto x = at::ones({4}, at::kDouble).to(guarded_device());
  EXPECT_DEATH(std::printf("%g", x.data_ptr<double>()[0]), "");
}

}  // namespace
}  // namespace tandem::runtime
