#include "runtime/cuda_network.h"

#include <cuda_runtime_api.h>
#include <nccl.h>

#pragma push_macro("CHECK")
#undef CHECK
#include <c10/cuda/CUDAStream.h>
#undef CHECK
#pragma pop_macro("CHECK")

#include <map>
#include <thread>
#include <utility>

#include "base/error.h"

namespace tandem::runtime {

namespace {

constexpr const char* kHint = "set NCCL_DEBUG=INFO for details";

void check(ncclResult_t result, const char* what) {
  if (result == ncclSuccess || result == ncclInProgress) return;
  throw UserError("runtime", "NCCL", fmt::format("{}: {}", what, ncclGetErrorString(result)),
                  kHint);
}

void check(cudaError_t result, const char* what) {
  if (result == cudaSuccess) return;
  throw UserError("runtime", "CUDA", fmt::format("{}: {}", what, cudaGetErrorString(result)));
}

ncclDataType_t to_nccl(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return ncclFloat32;
    case at::kDouble:
      return ncclFloat64;
    case at::kLong:
      return ncclInt64;
    case at::kByte:
      return ncclUint8;
    case at::kBFloat16:
      return ncclBfloat16;
    default:
      throw UserError("plan", "dtype",
                      fmt::format("messages cannot have element type {}", at::toString(type)));
  }
}

std::size_t count(const at::Tensor& t) { return static_cast<std::size_t>(t.numel()); }

// --- Events -------------------------------------------------------------------------------------

// A point in a stream.
class StreamEvent {
 public:
  // Timed events are more expensive.
  explicit StreamEvent(cudaStream_t stream, bool timed = false) {
    check(cudaEventCreateWithFlags(&event_, timed ? cudaEventDefault : cudaEventDisableTiming),
          "event");
    check(cudaEventRecord(event_, stream), "event");
  }
  ~StreamEvent() { cudaEventDestroy(event_); }
  StreamEvent(const StreamEvent&) = delete;
  StreamEvent& operator=(const StreamEvent&) = delete;

  void hold_up(cudaStream_t stream) const {
    check(cudaStreamWaitEvent(stream, event_, 0), "stream");
  }
  [[nodiscard]] bool is_over() const {
    const auto state = cudaEventQuery(event_);
    if (state != cudaErrorNotReady) check(state, "pending computation");
    return state == cudaSuccess;
  }
  [[nodiscard]] double seconds_until(const StreamEvent& later) const {
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, event_, later.event_), "event");
    return 1e-3 * static_cast<double>(milliseconds);
  }

 private:
  cudaEvent_t event_ = nullptr;
};

// Returns the stream on which the device computes.
cudaStream_t computing(at::Device device) {
  return c10::cuda::getCurrentCUDAStream(device.index()).stream();
}

// --- Communicators ------------------------------------------------------------------------------

// An NCCL communicator. Its work runs in the order of one stream.
class Communicator {
 public:
  Communicator(at::Device device, c10::cuda::CUDAStream stream, const ncclUniqueId& id, int rank,
               int size)
      : device_(device), size_(size), stream_(stream) {
    check(ncclCommInitRank(&comm_, size, id, rank), "process group");
  }
  ~Communicator() { ncclCommAbort(comm_); }
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  [[nodiscard]] ncclComm_t get() const { return comm_; }
  [[nodiscard]] cudaStream_t stream() const { return stream_.stream(); }
  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] at::Device device() const { return device_; }

  // Queues `work` after everything that has been queued on the device so far.
  template <class Work>
  Mark queue(const char* what, const Work& work) const {
    StreamEvent(computing(device_)).hold_up(stream());
    check(work(), what);
    return std::make_shared<StreamEvent>(stream());
  }
  void check_for_errors() const {
    auto state = ncclSuccess;
    check(ncclCommGetAsyncError(comm_, &state), "process group");
    check(state, "collective");
  }

 private:
  at::Device device_;
  int size_;
  c10::cuda::CUDAStream stream_;
  ncclComm_t comm_ = nullptr;
};

class CudaChannel final : public DeviceChannel {
 public:
  explicit CudaChannel(std::shared_ptr<const Communicator> comm) : comm_(std::move(comm)) {}

  Mark sum(const at::Tensor& from, const at::Tensor& to) override {
    return comm_->queue("all_reduce", [&] {
      return ncclAllReduce(from.data_ptr(), to.data_ptr(), count(from), to_nccl(from.scalar_type()),
                           ncclSum, comm_->get(), comm_->stream());
    });
  }
  Mark sum_to(const at::Tensor& from, const at::Tensor& to, int root) override {
    return comm_->queue("reduce", [&] {
      return ncclReduce(from.data_ptr(), to.defined() ? to.data_ptr() : nullptr, count(from),
                        to_nccl(from.scalar_type()), ncclSum, root, comm_->get(), comm_->stream());
    });
  }
  Mark sum_of_row(const at::Tensor& from, const at::Tensor& to) override {
    return comm_->queue("reduce_scatter", [&] {
      return ncclReduceScatter(from.data_ptr(), to.data_ptr(), count(to),
                               to_nccl(from.scalar_type()), ncclSum, comm_->get(), comm_->stream());
    });
  }
  Mark gather(const at::Tensor& from, const at::Tensor& to) override {
    return comm_->queue("all_gather", [&] {
      return ncclAllGather(from.data_ptr(), to.data_ptr(), count(from), to_nccl(from.scalar_type()),
                           comm_->get(), comm_->stream());
    });
  }
  Mark gather_to(const at::Tensor& from, const at::Tensor& to, int root) override {
    return messages("gather", [&] {
      send(from, 0, count(from), root);
      if (!to.defined()) return;
      for (int r = 0; r < comm_->size(); ++r) {
        receive(to, static_cast<std::size_t>(r) * count(from), count(from), r);
      }
    });
  }
  Mark broadcast(const at::Tensor& tensor, int root) override {
    return comm_->queue("broadcast", [&] {
      return ncclBroadcast(tensor.data_ptr(), tensor.data_ptr(), count(tensor),
                           to_nccl(tensor.scalar_type()), root, comm_->get(), comm_->stream());
    });
  }
  Mark scatter(const at::Tensor& from, const at::Tensor& to, int root) override {
    return messages("scatter", [&] {
      receive(to, 0, count(to), root);
      if (!from.defined()) return;
      for (int r = 0; r < comm_->size(); ++r) {
        send(from, static_cast<std::size_t>(r) * count(to), count(to), r);
      }
    });
  }
  Mark exchange(const at::Tensor& from, const Lengths& gives, const at::Tensor& to,
                const Lengths& takes) override {
    return messages("exchange", [&] {
      for (int r = 0; r < comm_->size(); ++r) {
        const auto i = static_cast<std::size_t>(r);
        send(from, static_cast<std::size_t>(gives.before[i]), static_cast<std::size_t>(gives.of[i]),
             r);
        receive(to, static_cast<std::size_t>(takes.before[i]),
                static_cast<std::size_t>(takes.of[i]), r);
      }
    });
  }

 private:
  // NCCL starts the messages between ncclGroupStart and ncclGroupEnd together, so none of them
  // waits for another.
  template <class Work>
  Mark messages(const char* what, const Work& work) {
    return comm_->queue(what, [&] {
      check(ncclGroupStart(), what);
      work();
      return ncclGroupEnd();
    });
  }
  static void* at(const at::Tensor& t, std::size_t element) {
    return static_cast<char*>(t.data_ptr()) + element * t.element_size();
  }
  void send(const at::Tensor& t, std::size_t first, std::size_t length, int to) const {
    if (length == 0) return;
    check(
        ncclSend(at(t, first), length, to_nccl(t.scalar_type()), to, comm_->get(), comm_->stream()),
        "message");
  }
  void receive(const at::Tensor& t, std::size_t first, std::size_t length, int from) const {
    if (length == 0) return;
    check(ncclRecv(at(t, first), length, to_nccl(t.scalar_type()), from, comm_->get(),
                   comm_->stream()),
          "message");
  }

  std::shared_ptr<const Communicator> comm_;
};

// --- The network ---------------------------------------------------------------------------------

class CudaNetwork final : public DeviceNetwork {
 public:
  explicit CudaNetwork(at::Device device) : device_(device), collectives_(new_stream()) {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  }

  std::unique_ptr<DeviceChannel> over(MPI_Comm comm) override {
    int rank = 0;
    int size = 0;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    ncclUniqueId id{};
    if (rank == 0) check(ncclGetUniqueId(&id), "unique ID of a process group");
    MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, comm);
    // All groups share one stream, so collectives run in the same order on every GPU.
    all_.push_back(std::make_shared<Communicator>(device_, collectives_, id, rank, size));
    return std::make_unique<CudaChannel>(all_.back());
  }

  // Each connection has a communicator and a stream, so its messages never wait for those in the
  // other direction.
  void connect(int from, int to) override {
    constexpr int kTag = 0;
    ncclUniqueId id{};
    if (rank_ == from) {
      check(ncclGetUniqueId(&id), "unique ID of a process group");
      MPI_Send(&id, sizeof id, MPI_BYTE, to, kTag, MPI_COMM_WORLD);
    } else {
      MPI_Recv(&id, sizeof id, MPI_BYTE, from, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    all_.push_back(
        std::make_shared<Communicator>(device_, new_stream(), id, rank_ == from ? 0 : 1, 2));
    connections_[{from, to}] = all_.back();
  }

  Mark send(const at::Tensor& tensor, int to) override {
    const auto& connection = connections_.at({rank_, to});
    return connection->queue("message", [&] {
      return ncclSend(tensor.data_ptr(), count(tensor), to_nccl(tensor.scalar_type()), 1,
                      connection->get(), connection->stream());
    });
  }
  Mark receive(const at::Tensor& tensor, int from) override {
    const auto& connection = connections_.at({from, rank_});
    return connection->queue("message", [&] {
      return ncclRecv(tensor.data_ptr(), count(tensor), to_nccl(tensor.scalar_type()), 0,
                      connection->get(), connection->stream());
    });
  }

  [[nodiscard]] bool is_over(const Mark& mark) const override {
    return static_cast<const StreamEvent*>(mark.get())->is_over();
  }

  void await(const Mark& mark) override {
    const auto stream = computing(device_);
    auto begin = std::make_unique<StreamEvent>(stream, true);
    static_cast<const StreamEvent*>(mark.get())->hold_up(stream);
    waits_.emplace_back(std::move(begin), std::make_unique<StreamEvent>(stream, true));
  }

  void finish() override {
    for (const auto& comm : all_) wait_for(comm->stream());
    wait_for(computing(device_));
    waited_ = 0;
    for (const auto& [begin, end] : waits_) waited_ += begin->seconds_until(*end);
    waits_.clear();
  }
  [[nodiscard]] double waited() const override { return waited_; }

 private:
  [[nodiscard]] c10::cuda::CUDAStream new_stream() const {
    return c10::cuda::getStreamFromPool(/*isHighPriority=*/true, device_.index());
  }
  void wait_for(cudaStream_t stream) const {
    const StreamEvent last(stream);
    while (!last.is_over()) pause();
  }
  // A lost member or link shows up as an NCCL error. Without this check the process would wait
  // until the time-out.
  void pause() const {
    for (const auto& comm : all_) comm->check_for_errors();
    std::this_thread::yield();
  }

  at::Device device_;
  c10::cuda::CUDAStream collectives_;
  int rank_ = 0;
  std::vector<std::shared_ptr<Communicator>> all_;
  std::map<std::pair<int, int>, std::shared_ptr<Communicator>> connections_;
  std::vector<std::pair<std::unique_ptr<StreamEvent>, std::unique_ptr<StreamEvent>>> waits_;
  double waited_ = 0;
};

}  // namespace

std::unique_ptr<DeviceNetwork> make_cuda_network(at::Device device) {
  return std::make_unique<CudaNetwork>(device);
}

}  // namespace tandem::runtime
