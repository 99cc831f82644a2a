#include "base/stop.h"

#include <atomic>
#include <utility>

#include "base/check.h"

namespace tandem {

namespace {

std::atomic<const std::function<bool()>*> asked = nullptr;

}  // namespace

StopWhen::StopWhen(std::function<bool()> wanted) : wanted_(std::move(wanted)) {
  CHECK(asked == nullptr);
  asked = &wanted_;
}

StopWhen::~StopWhen() { asked = nullptr; }

void throw_if_stopped() {
  const auto* wanted = asked.load(std::memory_order_acquire);
  if (wanted != nullptr && (*wanted)()) throw Stopped{};
}

}  // namespace tandem
