// Runs a command of the command line inside Python. It runs in a thread of its own, and the thread
// of Python that called waits for it without the lock of the interpreter: others go on, and Ctrl-C
// is seen to, of which a search hears as soon as it asks.
#include <pybind11/stl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "cli/command.h"
#include "cli/host.h"
#include "python/bindings.h"

namespace tandem::python {

namespace {

namespace py = pybind11;
using namespace std::chrono_literals;

// Commands share what a process has one of (cli/host.h), and each uses every core.
std::timed_mutex one_at_a_time;

int run_command(std::vector<std::string> words) {
  CLI::App app("", "tandem");
  app.require_subcommand(1);
  int exit_code = cli::ExitCode::kDone;
  cli::add_commands(app, exit_code);
  const std::string name = words.empty() ? "" : words[0];
  std::ranges::reverse(words);  // as CLI11 wants them
  try {
    app.parse(std::move(words));
  } catch (const CLI::ParseError& error) {
    throw UserError("flag", name, error.what());
  }
  return exit_code;
}

// A command that runs from construction on; destruction stops it.
class Call final : public cli::Host {
 public:
  explicit Call(std::vector<std::string> words)
      : thread_([this, words = std::move(words)] { run(words); }) {}
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call() override {
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
  // Of one that is done. Throws what it threw.
  std::pair<int, std::string> result() {
    if (thrown_) std::rethrow_exception(thrown_);
    return {exit_code_, document_};
  }

 private:
  void run(const std::vector<std::string>& words) {
    std::unique_lock turn(one_at_a_time, std::defer_lock);
    while (!stop_ && !turn.try_lock_for(50ms)) continue;
    try {
      if (turn.owns_lock()) {
        const cli::HostedBy here(*this);
        exit_code_ = run_command(words);
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
  int exit_code_ = 0;
  std::exception_ptr thrown_;
  std::mutex mutex_;  // of what follows
  std::condition_variable ended_;
  std::vector<std::string> remarks_;
  bool done_ = false;
  std::thread thread_;  // the last member: it uses the others
};

std::pair<int, std::string> run(std::vector<std::string> words,
                                const std::optional<py::function>& progress) {
  Call call(std::move(words));
  while (true) {
    const bool done = call.is_done_within(50ms);
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    for (const auto& line : call.take_remarks()) {
      if (progress) (*progress)(line);
    }
    if (done) return call.result();
  }
}

}  // namespace

void bind_commands(py::module_& module) {
  module.def("run", run, py::arg("words"), py::arg("progress") = py::none(),
             "Runs a command; its exit code and what it printed, which is empty or JSON.");
}

}  // namespace tandem::python
