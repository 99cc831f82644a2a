#include "cli/host.h"

#include <atomic>
#include <iostream>
#include <mutex>
#include <set>

#include "base/check.h"
#include "cli/progress.h"

namespace tandem::cli {

namespace {

std::atomic<Host*> current = nullptr;
std::mutex telling;
std::set<std::string> printed_notes;

}  // namespace

HostedBy::HostedBy(Host& host) : stop_([&host] { return host.wants_stop(); }) {
  CHECK(current == nullptr);
  current = &host;
}

HostedBy::~HostedBy() { current = nullptr; }

Host* host() { return current; }

void remark(const std::string& line) {
  if (!is_quiet()) complain(line);
}

void note(const std::string& line) {
  {
    const std::scoped_lock lock(telling);
    if (!printed_notes.insert(line).second) return;
  }
  remark("note: " + line);
}

void forget_notes() {
  const std::scoped_lock lock(telling);
  printed_notes.clear();
}

void complain(const std::string& line) {
  if (auto* to = host()) return to->remark(line);
  std::cerr << line << "\n";
}

}  // namespace tandem::cli
