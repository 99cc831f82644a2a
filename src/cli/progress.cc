#include "cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <iostream>

#include "cli/host.h"

namespace tandem::cli {

namespace {

bool quiet_now = false;

bool is_on_terminal() {
  static const bool terminal = isatty(STDERR_FILENO) != 0;
  return terminal;
}

}  // namespace

void add_quiet_flag(CLI::App& command) {
  quiet_now = false;  // a host runs one command after another
  command.add_flag("--quiet", quiet_now, "print no progress and no notes to stderr");
}

bool is_quiet() { return quiet_now; }

Progress::~Progress() {
  if (shown_) std::cerr << "\r\033[K" << std::flush;
}

void Progress::show(const std::string& what) {
  if (quiet_now) return;
  using std::chrono::milliseconds;
  using std::chrono::seconds;
  const std::scoped_lock lock(mutex_);
  const auto now = Clock::now();
  auto* to = host();
  const auto every = to != nullptr || is_on_terminal() ? milliseconds(200) : seconds(10);
  if ((to == nullptr && now - begin_ < seconds(1)) || now - last_ < every) return;
  last_ = now;
  const auto so_far = std::chrono::duration_cast<seconds>(now - begin_).count();
  if (to != nullptr) {
    to->remark(fmt::format("{} s  {}", so_far, what));
  } else if (is_on_terminal()) {
    shown_ = true;
    std::cerr << fmt::format("\r\033[K{} s  {}\r", so_far, what) << std::flush;
  } else {
    std::cerr << fmt::format("{} s  {}\n", so_far, what);
  }
}

BusyProgress::BusyProgress(std::string what, std::function<bool()> stops) : what_(std::move(what)) {
  constexpr unsigned kEvery = 256;  // a stop point stands for a microsecond of work or more
  if (host() != nullptr) return;
  stop_.emplace([this, stops = std::move(stops)] {
    if (++passed_ % kEvery == 0) show();
    return stops && stops();
  });
}

void BusyProgress::update(const std::string& what) {
  {
    const std::scoped_lock lock(mutex_);
    what_ = what;
  }
  show();
}

void BusyProgress::show() {
  const std::scoped_lock lock(mutex_);
  line_.show(what_);
}

}  // namespace tandem::cli
