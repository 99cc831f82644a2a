#include "python/call.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "cli/host.h"

namespace tandem::python {

namespace {

namespace py = pybind11;
using namespace std::chrono_literals;

// Calls share objects that a process has once (cli/host.h), and each uses every core.
std::timed_mutex one_at_a_time;

// Work that runs from construction on. Destruction stops it.
class BackgroundCall final : public cli::Host {
 public:
  explicit BackgroundCall(std::function<void()> work)
      : thread_([this, work = std::move(work)] { run(work); }) {}
  BackgroundCall(const BackgroundCall&) = delete;
  BackgroundCall& operator=(const BackgroundCall&) = delete;
  ~BackgroundCall() override {
    stop_ = true;
    const py::gil_scoped_release others_go_on;
    thread_.join();
  }

  void print(const std::string& document) override { document_ = document; }
  void remark(const std::string& line) override {
    const std::scoped_lock lock(mutex_);
    remarks_.push_back(line);
  }
  bool wants_stop() override { return stop_; }

  bool is_done_within(std::chrono::milliseconds time) {
    const py::gil_scoped_release others_go_on;
    std::unique_lock lock(mutex_);
    return ended_.wait_for(lock, time, [this] { return done_; });
  }
  std::vector<std::string> take_remarks() {
    const std::scoped_lock lock(mutex_);
    return std::exchange(remarks_, {});
  }
  // Returns what finished work printed. Rethrows its exception.
  std::string result() {
    if (thrown_) std::rethrow_exception(thrown_);
    return document_;
  }

 private:
  void run(const std::function<void()>& work) {
    std::unique_lock exclusive(one_at_a_time, std::defer_lock);
    while (!stop_ && !exclusive.try_lock_for(50ms)) continue;
    try {
      if (exclusive.owns_lock()) {
        const cli::HostedBy here(*this);
        work();
      }
    } catch (...) {
      thrown_ = std::current_exception();
    }
    const std::scoped_lock lock(mutex_);
    done_ = true;
    ended_.notify_all();
  }

  std::atomic<bool> stop_ = false;
  std::string document_;
  std::exception_ptr thrown_;
  std::mutex mutex_;  // guards the members below
  std::condition_variable ended_;
  std::vector<std::string> remarks_;
  bool done_ = false;
  std::thread thread_;  // last member, because it uses the others
};

}  // namespace

std::string run_call(std::function<void()> work, const std::optional<py::function>& progress) {
  BackgroundCall call(std::move(work));
  while (true) {
    const bool done = call.is_done_within(50ms);
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    for (const auto& line : call.take_remarks()) {
      if (progress) (*progress)(line);
    }
    if (done) return call.result();
  }
}

}  // namespace tandem::python
